package api

import (
	"errors"
	"net/http"
	"net/url"
)

// ACLRoles is the handle for roles.
type ACLRoles struct{ client *Client }

// ACLRoles returns the handle for roles.
func (c *Client) ACLRoles() *ACLRoles { return &ACLRoles{c} }

// List lists all roles, or without a management token the roles of the caller.
func (a *ACLRoles) List(q *QueryOptions) ([]*ACLRoleListStub, *QueryMeta, error) {
	return get[[]*ACLRoleListStub](a.client, "/v1/acl/roles", q)
}

// Create creates a role. The servers choose its ID.
func (a *ACLRoles) Create(role *ACLRole, w *WriteOptions) (*ACLRole, *WriteMeta, error) {
	if role == nil || role.ID != "" {
		return nil, nil, errors.New("create role: the ID must be empty, because servers choose it")
	}
	return a.store("/v1/acl/role", role, w)
}

// Update replaces the role with the ID.
func (a *ACLRoles) Update(role *ACLRole, w *WriteOptions) (*ACLRole, *WriteMeta, error) {
	if role == nil || role.ID == "" {
		return nil, nil, missing("role ID")
	}
	return a.store("/v1/acl/role/"+url.PathEscape(role.ID), role, w)
}

func (a *ACLRoles) store(path string, role *ACLRole, w *WriteOptions) (*ACLRole, *WriteMeta, error) {
	out := new(ACLRole)
	meta, err := a.client.put(path, role, out, w)
	if err != nil {
		return nil, nil, err
	}
	return out, meta, nil
}

// Delete deletes a role.
func (a *ACLRoles) Delete(roleID string, w *WriteOptions) (*WriteMeta, error) {
	if roleID == "" {
		return nil, missing("role ID")
	}
	return a.client.write(call{http.MethodDelete, "/v1/acl/role/" + url.PathEscape(roleID), nil, nil}, w)
}

// Get returns the role with the ID.
func (a *ACLRoles) Get(roleID string, q *QueryOptions) (*ACLRole, *QueryMeta, error) {
	if roleID == "" {
		return nil, nil, missing("role ID")
	}
	return get[*ACLRole](a.client, "/v1/acl/role/"+url.PathEscape(roleID), q)
}

// GetByName returns the role with the name.
func (a *ACLRoles) GetByName(roleName string, q *QueryOptions) (*ACLRole, *QueryMeta, error) {
	if roleName == "" {
		return nil, nil, missing("role name")
	}
	return get[*ACLRole](a.client, "/v1/acl/role/name/"+url.PathEscape(roleName), q)
}
