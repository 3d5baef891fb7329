package acls

import (
	"time"

	"github.com/open-nomad/open-nomad/nomad/message"
)

// The objects that a binding rule grants.
const (
	BindingRuleBindTypeRole       = "role"
	BindingRuleBindTypePolicy     = "policy"
	BindingRuleBindTypeManagement = "management"
)

// BindingRule specifies what a login with an auth method receives if the claims match the selector.
type BindingRule struct {
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

// SetHash computes the digest of the fields that an operator can set. It stores the digest and returns it.
func (r *BindingRule) SetHash() []byte {
	r.Hash = newDigest("binding rule").text(r.ID, r.Description, r.AuthMethod, r.Selector, r.BindType, r.BindName).sum()
	return r.Hash
}

// Stub returns the short form of the rule for lists.
func (r *BindingRule) Stub() *BindingRuleListStub {
	return &BindingRuleListStub{ID: r.ID, Description: r.Description, AuthMethod: r.AuthMethod, Hash: r.Hash,
		CreateIndex: r.CreateIndex, ModifyIndex: r.ModifyIndex}
}

// BindingRuleListStub is a binding rule in a list.
type BindingRuleListStub struct {
	ID          string
	Description string
	AuthMethod  string
	Hash        []byte
	CreateIndex uint64
	ModifyIndex uint64
}

// BindingRuleRequest is the request of ACL.GetBindingRule.
type BindingRuleRequest struct {
	ACLBindingRuleID string
	message.QueryOptions
}

// BindingRuleResponse is the reply of ACL.GetBindingRule.
type BindingRuleResponse struct {
	ACLBindingRule *BindingRule
	message.QueryMeta
}

// BindingRulesDeleteRequest is the request of ACL.DeleteBindingRules.
type BindingRulesDeleteRequest struct {
	ACLBindingRuleIDs []string
	message.WriteRequest
}

// BindingRulesDeleteResponse is the reply of ACL.DeleteBindingRules.
type BindingRulesDeleteResponse struct {
	message.WriteMeta
}

// BindingRulesListRequest is the request of ACL.ListBindingRules.
type BindingRulesListRequest struct {
	message.QueryOptions
}

// BindingRulesListResponse is the reply of ACL.ListBindingRules.
type BindingRulesListResponse struct {
	ACLBindingRules []*BindingRuleListStub
	message.QueryMeta
}

// BindingRulesRequest is the request of ACL.GetBindingRules.
type BindingRulesRequest struct {
	ACLBindingRuleIDs []string
	message.QueryOptions
}

// BindingRulesResponse is the reply of ACL.GetBindingRules.
type BindingRulesResponse struct {
	ACLBindingRules map[string]*BindingRule
	message.QueryMeta
}

// BindingRulesUpsertRequest is the request of ACL.UpsertBindingRules. AllowMissingAuthMethods is for replication, where a
// rule may arrive before its method.
type BindingRulesUpsertRequest struct {
	ACLBindingRules         []*BindingRule
	AllowMissingAuthMethods bool
	message.WriteRequest
}

// BindingRulesUpsertResponse is the reply of ACL.UpsertBindingRules.
type BindingRulesUpsertResponse struct {
	ACLBindingRules []*BindingRule
	message.WriteMeta
}
