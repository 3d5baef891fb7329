package acl

import (
	"github.com/open-nomad/open-nomad/nomad/endpoint/handler"
	"github.com/open-nomad/open-nomad/nomad/page"
	"github.com/open-nomad/open-nomad/nomad/rbac"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// The kinds of objects, and how they are read.
var (
	policies = handler.Records[rbac.Policy, rbac.PolicyStub]{
		Tables: []string{state.TableACLPolicy},
		Get:    (*state.Snapshot).ACLPolicy,
		At:     func(p *rbac.Policy) page.Cursor { return page.Cursor{ID: p.Name} },
		Order:  page.ByID,
		Index:  func(p *rbac.Policy) uint64 { return p.ModifyIndex },
		Stub:   (*rbac.Policy).Stub,
	}
	roles = handler.Records[rbac.Role, rbac.RoleStub]{
		Tables: []string{state.TableACLRoles, state.TableACLPolicy}, // a role omits deleted policies
		Get:    (*state.Snapshot).ACLRole,
		At:     func(r *rbac.Role) page.Cursor { return page.Cursor{ID: r.ID} },
		Order:  page.ByID,
		Index:  func(r *rbac.Role) uint64 { return r.ModifyIndex },
		Stub:   (*rbac.Role).Stub,
	}
	tokens = handler.Records[rbac.Token, rbac.TokenStub]{
		Tables: []string{state.TableACLToken, state.TableACLRoles}, // a token omits deleted roles
		Get:    (*state.Snapshot).ACLToken,
		At:     func(t *rbac.Token) page.Cursor { return page.Cursor{Index: t.CreateIndex, ID: t.AccessorID} },
		Order:  page.ByCreation,
		Index:  func(t *rbac.Token) uint64 { return t.ModifyIndex },
		Stub:   (*rbac.Token).Stub,
	}
	authMethods = handler.Records[rbac.AuthMethod, rbac.AuthMethodStub]{
		Tables: []string{state.TableACLAuthMethods},
		Get:    (*state.Snapshot).ACLAuthMethod,
		At:     func(m *rbac.AuthMethod) page.Cursor { return page.Cursor{ID: m.Name} },
		Order:  page.ByID,
		Index:  func(m *rbac.AuthMethod) uint64 { return m.ModifyIndex },
		Stub:   (*rbac.AuthMethod).Stub,
	}
	bindingRules = handler.Records[rbac.BindingRule, rbac.BindingRuleStub]{
		Tables: []string{state.TableACLBindingRules},
		Get:    (*state.Snapshot).ACLBindingRule,
		At:     func(r *rbac.BindingRule) page.Cursor { return page.Cursor{ID: r.ID} },
		Order:  page.ByID,
		Index:  func(r *rbac.BindingRule) uint64 { return r.ModifyIndex },
		Stub:   (*rbac.BindingRule).Stub,
	}
)
