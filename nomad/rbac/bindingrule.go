package rbac

import "time"

// The objects that a binding rule grants.
const (
	BindTypeRole       = "role"
	BindTypePolicy     = "policy"
	BindTypeManagement = "management"
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
func (r *BindingRule) Stub() *BindingRuleStub {
	return &BindingRuleStub{ID: r.ID, Description: r.Description, AuthMethod: r.AuthMethod, Hash: r.Hash,
		CreateIndex: r.CreateIndex, ModifyIndex: r.ModifyIndex}
}

// BindingRuleStub is a binding rule in a list.
type BindingRuleStub struct {
	ID          string
	Description string
	AuthMethod  string
	Hash        []byte
	CreateIndex uint64
	ModifyIndex uint64
}
