package acl

import (
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/endpoint/handler"
	"github.com/open-nomad/open-nomad/nomad/page"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// The kinds of objects, and how they are read.
var (
	policies = handler.Records[nomad.ACLPolicy, nomad.ACLPolicyListStub]{
		Tables: []string{state.TableACLPolicy},
		Get:    (*state.Snapshot).ACLPolicy,
		At:     func(p *nomad.ACLPolicy) page.Cursor { return page.Cursor{ID: p.Name} },
		Order:  page.ByID,
		Index:  func(p *nomad.ACLPolicy) uint64 { return p.ModifyIndex },
		Stub:   (*nomad.ACLPolicy).Stub,
	}
	roles = handler.Records[nomad.ACLRole, nomad.ACLRoleListStub]{
		Tables: []string{state.TableACLRoles, state.TableACLPolicy}, // a role omits deleted policies
		Get:    (*state.Snapshot).ACLRole,
		At:     func(r *nomad.ACLRole) page.Cursor { return page.Cursor{ID: r.ID} },
		Order:  page.ByID,
		Index:  func(r *nomad.ACLRole) uint64 { return r.ModifyIndex },
		Stub:   (*nomad.ACLRole).Stub,
	}
	tokens = handler.Records[nomad.ACLToken, nomad.ACLTokenListStub]{
		Tables: []string{state.TableACLToken, state.TableACLRoles}, // a token omits deleted roles
		Get:    (*state.Snapshot).ACLToken,
		At:     func(t *nomad.ACLToken) page.Cursor { return page.Cursor{Index: t.CreateIndex, ID: t.AccessorID} },
		Order:  page.ByCreation,
		Index:  func(t *nomad.ACLToken) uint64 { return t.ModifyIndex },
		Stub:   (*nomad.ACLToken).Stub,
	}
	authMethods = handler.Records[nomad.ACLAuthMethod, nomad.ACLAuthMethodStub]{
		Tables: []string{state.TableACLAuthMethods},
		Get:    (*state.Snapshot).ACLAuthMethod,
		At:     func(m *nomad.ACLAuthMethod) page.Cursor { return page.Cursor{ID: m.Name} },
		Order:  page.ByID,
		Index:  func(m *nomad.ACLAuthMethod) uint64 { return m.ModifyIndex },
		Stub:   (*nomad.ACLAuthMethod).Stub,
	}
	bindingRules = handler.Records[nomad.ACLBindingRule, nomad.ACLBindingRuleListStub]{
		Tables: []string{state.TableACLBindingRules},
		Get:    (*state.Snapshot).ACLBindingRule,
		At:     func(r *nomad.ACLBindingRule) page.Cursor { return page.Cursor{ID: r.ID} },
		Order:  page.ByID,
		Index:  func(r *nomad.ACLBindingRule) uint64 { return r.ModifyIndex },
		Stub:   (*nomad.ACLBindingRule).Stub,
	}
)
