package message

import "github.com/open-nomad/open-nomad/nomad/rbac"

// ACLAuthMethodDeleteRequest is the request of ACL.DeleteAuthMethods.
type ACLAuthMethodDeleteRequest struct {
	Names []string
	WriteRequest
}

// ACLAuthMethodGetRequest is the request of ACL.GetAuthMethod.
type ACLAuthMethodGetRequest struct {
	MethodName string
	QueryOptions
}

// ACLAuthMethodGetResponse is the reply of ACL.GetAuthMethod.
type ACLAuthMethodGetResponse struct {
	AuthMethod *rbac.AuthMethod
	QueryMeta
}

// ACLAuthMethodListRequest is the request of ACL.ListAuthMethods.
type ACLAuthMethodListRequest struct {
	QueryOptions
}

// ACLAuthMethodListResponse is the reply of ACL.ListAuthMethods.
type ACLAuthMethodListResponse struct {
	AuthMethods []*rbac.AuthMethodStub
	QueryMeta
}

// ACLAuthMethodUpsertRequest is the request of ACL.UpsertAuthMethods.
type ACLAuthMethodUpsertRequest struct {
	AuthMethods []*rbac.AuthMethod
	WriteRequest
}

// ACLAuthMethodUpsertResponse is the reply of ACL.UpsertAuthMethods.
type ACLAuthMethodUpsertResponse struct {
	AuthMethods []*rbac.AuthMethod
	WriteMeta
}

// ACLAuthMethodsGetRequest is the request of ACL.GetAuthMethods.
type ACLAuthMethodsGetRequest struct {
	Names []string
	QueryOptions
}

// ACLAuthMethodsGetResponse is the reply of ACL.GetAuthMethods.
type ACLAuthMethodsGetResponse struct {
	AuthMethods map[string]*rbac.AuthMethod
	QueryMeta
}
