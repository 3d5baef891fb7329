package message

import "github.com/open-nomad/open-nomad/nomad/rbac"

// ACLBindingRuleRequest is the request of ACL.GetBindingRule.
type ACLBindingRuleRequest struct {
	ACLBindingRuleID string
	QueryOptions
}

// ACLBindingRuleResponse is the reply of ACL.GetBindingRule.
type ACLBindingRuleResponse struct {
	ACLBindingRule *rbac.BindingRule
	QueryMeta
}

// ACLBindingRulesDeleteRequest is the request of ACL.DeleteBindingRules.
type ACLBindingRulesDeleteRequest struct {
	ACLBindingRuleIDs []string
	WriteRequest
}

// ACLBindingRulesListRequest is the request of ACL.ListBindingRules.
type ACLBindingRulesListRequest struct {
	QueryOptions
}

// ACLBindingRulesListResponse is the reply of ACL.ListBindingRules.
type ACLBindingRulesListResponse struct {
	ACLBindingRules []*rbac.BindingRuleStub
	QueryMeta
}

// ACLBindingRulesRequest is the request of ACL.GetBindingRules.
type ACLBindingRulesRequest struct {
	ACLBindingRuleIDs []string
	QueryOptions
}

// ACLBindingRulesResponse is the reply of ACL.GetBindingRules.
type ACLBindingRulesResponse struct {
	ACLBindingRules map[string]*rbac.BindingRule
	QueryMeta
}

// ACLBindingRulesUpsertRequest is the request of ACL.UpsertBindingRules. AllowMissingAuthMethods is for replication, where a
// rule may arrive before its method.
type ACLBindingRulesUpsertRequest struct {
	ACLBindingRules         []*rbac.BindingRule
	AllowMissingAuthMethods bool
	WriteRequest
}

// ACLBindingRulesUpsertResponse is the reply of ACL.UpsertBindingRules.
type ACLBindingRulesUpsertResponse struct {
	ACLBindingRules []*rbac.BindingRule
	WriteMeta
}
