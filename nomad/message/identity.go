package message

import "github.com/open-nomad/open-nomad/nomad"

// AllocIdentitiesRequest is the request of Alloc.SignIdentities.
type AllocIdentitiesRequest struct {
	Identities []*nomad.WorkloadIdentityRequest
	// ArtifactDigests holds the digests of artifacts that were downloaded since the last update of the allocation, by
	// task and destination. See nomad.TaskState.
	ArtifactDigests map[string]map[string]string
	QueryOptions
}

// AllocIdentitiesResponse is the reply of Alloc.SignIdentities.
type AllocIdentitiesResponse struct {
	SignedIdentities []*nomad.SignedWorkloadIdentity
	Rejections       []*nomad.WorkloadIdentityRejection
	// DigestClaims lists the signed identities whose claims contain the digests of artifacts: their tokens change
	// with them.
	DigestClaims []nomad.WIHandle
	QueryMeta
}
