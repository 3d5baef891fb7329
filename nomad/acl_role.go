package nomad

import "slices"

// ACLRole is a named set of policies. A change of the role affects all tokens that have it.
type ACLRole struct {
	ID          string
	Name        string
	Description string
	Policies    []*ACLRolePolicyLink
	Hash        []byte
	CreateIndex uint64
	ModifyIndex uint64
}

// ACLRolePolicyLink names a policy of a role.
type ACLRolePolicyLink struct {
	Name string
}

// Canonicalize sets the ID of a new role and removes duplicate policy links.
func (r *ACLRole) Canonicalize() {
	if r.ID == "" {
		r.ID = NewID()
	}
	seen := map[string]bool{}
	r.Policies = slices.DeleteFunc(slices.Clone(r.Policies), func(l *ACLRolePolicyLink) bool {
		twice := l != nil && seen[l.Name]
		if l != nil {
			seen[l.Name] = true
		}
		return twice
	})
}

// SetHash computes the digest of the fields that an operator can set. It stores the digest and returns it.
func (r *ACLRole) SetHash() []byte {
	var names []string
	for _, l := range r.Policies {
		if l != nil {
			names = append(names, l.Name)
		}
	}
	slices.Sort(names)
	r.Hash = newACLDigest("role").text(r.Name, r.Description).list(names).sum()
	return r.Hash
}

// Stub returns the short form of the role for lists.
func (r *ACLRole) Stub() *ACLRoleListStub {
	return &ACLRoleListStub{ID: r.ID, Name: r.Name, Description: r.Description, Policies: r.Policies, Hash: r.Hash,
		CreateIndex: r.CreateIndex, ModifyIndex: r.ModifyIndex}
}

// ACLRoleListStub is a role in a list.
type ACLRoleListStub struct {
	ID          string
	Name        string
	Description string
	Policies    []*ACLRolePolicyLink
	Hash        []byte
	CreateIndex uint64
	ModifyIndex uint64
}
