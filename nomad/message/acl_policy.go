package message

import "github.com/open-nomad/open-nomad/nomad/rbac"

// ACLPolicyDeleteRequest is the request of ACL.DeletePolicies.
type ACLPolicyDeleteRequest struct {
	Names []string
	WriteRequest
}

// ACLPolicyListRequest is the request of ACL.ListPolicies.
type ACLPolicyListRequest struct {
	QueryOptions
}

// ACLPolicyListResponse is the reply of ACL.ListPolicies.
type ACLPolicyListResponse struct {
	Policies []*rbac.PolicyStub
	QueryMeta
}

// ACLPolicySetRequest is the request of ACL.GetPolicies.
type ACLPolicySetRequest struct {
	Names []string
	QueryOptions
}

// ACLPolicySetResponse is the reply of ACL.GetPolicies and ACL.GetClaimPolicies.
type ACLPolicySetResponse struct {
	Policies map[string]*rbac.Policy
	QueryMeta
}

// ACLPolicySpecificRequest is the request of ACL.GetPolicy.
type ACLPolicySpecificRequest struct {
	Name string
	QueryOptions
}

// ACLPolicyUpsertRequest is the request of ACL.UpsertPolicies.
type ACLPolicyUpsertRequest struct {
	Policies []*rbac.Policy
	WriteRequest
}

// SingleACLPolicyResponse is the reply of ACL.GetPolicy.
type SingleACLPolicyResponse struct {
	Policy *rbac.Policy
	QueryMeta
}
