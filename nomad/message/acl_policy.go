package message

import "github.com/open-nomad/open-nomad/nomad"

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
	Policies []*nomad.ACLPolicyListStub
	QueryMeta
}

// ACLPolicySetRequest is the request of ACL.GetPolicies.
type ACLPolicySetRequest struct {
	Names []string
	QueryOptions
}

// ACLPolicySetResponse is the reply of ACL.GetPolicies and ACL.GetClaimPolicies.
type ACLPolicySetResponse struct {
	Policies map[string]*nomad.ACLPolicy
	QueryMeta
}

// ACLPolicySpecificRequest is the request of ACL.GetPolicy.
type ACLPolicySpecificRequest struct {
	Name string
	QueryOptions
}

// ACLPolicyUpsertRequest is the request of ACL.UpsertPolicies.
type ACLPolicyUpsertRequest struct {
	Policies []*nomad.ACLPolicy
	WriteRequest
}

// SingleACLPolicyResponse is the reply of ACL.GetPolicy.
type SingleACLPolicyResponse struct {
	Policy *nomad.ACLPolicy
	QueryMeta
}
