package nomad

import "time"

// What a binding rule gives to who matches it.
const (
	ACLBindingRuleBindTypeRole       = "role"
	ACLBindingRuleBindTypePolicy     = "policy"
	ACLBindingRuleBindTypeManagement = "management"
)

// ACLBindingRule says what those get who log in with an auth method and whose claims
// match the selector.
type ACLBindingRule struct {
	ID          string
	Description string
	AuthMethod  string
	Selector    string
	BindType    string
	BindName    string
	Hash        []byte
	CreateTime  time.Time
	ModifyTime  time.Time
	CreateIndex uint64
	ModifyIndex uint64
}

// SetHash computes the digest of what an operator can set, stores and returns it.
func (r *ACLBindingRule) SetHash() []byte {
	r.Hash = newDigest("binding rule").text(r.ID, r.Description, r.AuthMethod, r.Selector, r.BindType, r.BindName).sum()
	return r.Hash
}

// Stub returns the short form of the rule for lists.
func (r *ACLBindingRule) Stub() *ACLBindingRuleListStub {
	return &ACLBindingRuleListStub{ID: r.ID, Description: r.Description, AuthMethod: r.AuthMethod, Hash: r.Hash,
		CreateIndex: r.CreateIndex, ModifyIndex: r.ModifyIndex}
}

// ACLBindingRuleListStub is a binding rule in a list.
type ACLBindingRuleListStub struct {
	ID          string
	Description string
	AuthMethod  string
	Hash        []byte
	CreateIndex uint64
	ModifyIndex uint64
}

// ACLBindingRuleRequest is the request of ACL.GetBindingRule.
type ACLBindingRuleRequest struct {
	ACLBindingRuleID string
	QueryOptions
}

// ACLBindingRuleResponse is the reply of ACL.GetBindingRule.
type ACLBindingRuleResponse struct {
	ACLBindingRule *ACLBindingRule
	QueryMeta
}

// ACLBindingRulesDeleteRequest is the request of ACL.DeleteBindingRules.
type ACLBindingRulesDeleteRequest struct {
	ACLBindingRuleIDs []string
	WriteRequest
}

// ACLBindingRulesDeleteResponse is the reply of ACL.DeleteBindingRules.
type ACLBindingRulesDeleteResponse struct {
	WriteMeta
}

// ACLBindingRulesListRequest is the request of ACL.ListBindingRules.
type ACLBindingRulesListRequest struct {
	QueryOptions
}

// ACLBindingRulesListResponse is the reply of ACL.ListBindingRules.
type ACLBindingRulesListResponse struct {
	ACLBindingRules []*ACLBindingRuleListStub
	QueryMeta
}

// ACLBindingRulesRequest is the request of ACL.GetBindingRules.
type ACLBindingRulesRequest struct {
	ACLBindingRuleIDs []string
	QueryOptions
}

// ACLBindingRulesResponse is the reply of ACL.GetBindingRules.
type ACLBindingRulesResponse struct {
	ACLBindingRules map[string]*ACLBindingRule
	QueryMeta
}

// ACLBindingRulesUpsertRequest is the request of ACL.UpsertBindingRules.
// AllowMissingAuthMethods is for replication, where a rule may come before its method.
type ACLBindingRulesUpsertRequest struct {
	ACLBindingRules         []*ACLBindingRule
	AllowMissingAuthMethods bool
	WriteRequest
}

// ACLBindingRulesUpsertResponse is the reply of ACL.UpsertBindingRules.
type ACLBindingRulesUpsertResponse struct {
	ACLBindingRules []*ACLBindingRule
	WriteMeta
}
