package message

import "github.com/open-nomad/open-nomad/nomad"

// ACLRoleByIDRequest is the request of ACL.GetRoleByID.
type ACLRoleByIDRequest struct {
	RoleID string
	QueryOptions
}

// ACLRoleByIDResponse is the reply of ACL.GetRoleByID.
type ACLRoleByIDResponse struct {
	ACLRole *nomad.ACLRole
	QueryMeta
}

// ACLRoleByNameRequest is the request of ACL.GetRoleByName.
type ACLRoleByNameRequest struct {
	RoleName string
	QueryOptions
}

// ACLRoleByNameResponse is the reply of ACL.GetRoleByName.
type ACLRoleByNameResponse struct {
	ACLRole *nomad.ACLRole
	QueryMeta
}

// ACLRolesByIDRequest is the request of ACL.GetRolesByID.
type ACLRolesByIDRequest struct {
	ACLRoleIDs []string
	QueryOptions
}

// ACLRolesByIDResponse is the reply of ACL.GetRolesByID.
type ACLRolesByIDResponse struct {
	ACLRoles map[string]*nomad.ACLRole
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
	ACLRoles []*nomad.ACLRoleListStub
	QueryMeta
}

// ACLRolesUpsertRequest is the request of ACL.UpsertRoles. AllowMissingPolicies is for replication, where a role may arrive
// before its policies.
type ACLRolesUpsertRequest struct {
	ACLRoles             []*nomad.ACLRole
	AllowMissingPolicies bool
	WriteRequest
}

// ACLRolesUpsertResponse is the reply of ACL.UpsertRoles.
type ACLRolesUpsertResponse struct {
	ACLRoles []*nomad.ACLRole
	WriteMeta
}
