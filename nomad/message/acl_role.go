package message

import "github.com/open-nomad/open-nomad/nomad/rbac"

// ACLRoleByIDRequest is the request of ACL.GetRoleByID.
type ACLRoleByIDRequest struct {
	RoleID string
	QueryOptions
}

// ACLRoleByIDResponse is the reply of ACL.GetRoleByID.
type ACLRoleByIDResponse struct {
	ACLRole *rbac.Role
	QueryMeta
}

// ACLRoleByNameRequest is the request of ACL.GetRoleByName.
type ACLRoleByNameRequest struct {
	RoleName string
	QueryOptions
}

// ACLRoleByNameResponse is the reply of ACL.GetRoleByName.
type ACLRoleByNameResponse struct {
	ACLRole *rbac.Role
	QueryMeta
}

// ACLRolesByIDRequest is the request of ACL.GetRolesByID.
type ACLRolesByIDRequest struct {
	ACLRoleIDs []string
	QueryOptions
}

// ACLRolesByIDResponse is the reply of ACL.GetRolesByID.
type ACLRolesByIDResponse struct {
	ACLRoles map[string]*rbac.Role
	QueryMeta
}

// ACLRolesDeleteByIDRequest is the request of ACL.DeleteRolesByID.
type ACLRolesDeleteByIDRequest struct {
	ACLRoleIDs []string
	WriteRequest
}

// ACLRolesListRequest is the request of ACL.ListRoles.
type ACLRolesListRequest struct {
	QueryOptions
}

// ACLRolesListResponse is the reply of ACL.ListRoles.
type ACLRolesListResponse struct {
	ACLRoles []*rbac.RoleStub
	QueryMeta
}

// ACLRolesUpsertRequest is the request of ACL.UpsertRoles. AllowMissingPolicies is for replication, where a role may arrive
// before its policies.
type ACLRolesUpsertRequest struct {
	ACLRoles             []*rbac.Role
	AllowMissingPolicies bool
	WriteRequest
}

// ACLRolesUpsertResponse is the reply of ACL.UpsertRoles.
type ACLRolesUpsertResponse struct {
	ACLRoles []*rbac.Role
	WriteMeta
}
