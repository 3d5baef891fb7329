package message

import "github.com/open-nomad/open-nomad/nomad"

// AllocIdentitiesRequest is the request of Alloc.SignIdentities.
type AllocIdentitiesRequest struct {
	Identities []*nomad.WorkloadIdentityRequest
	QueryOptions
}

// AllocIdentitiesResponse is the reply of Alloc.SignIdentities.
type AllocIdentitiesResponse struct {
	SignedIdentities []*nomad.SignedWorkloadIdentity
	Rejections       []*nomad.WorkloadIdentityRejection
	QueryMeta
}
