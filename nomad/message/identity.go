package message

import "time"

// AllocIdentitiesRequest is the request of Alloc.SignIdentities.
type AllocIdentitiesRequest struct {
	Identities []*WorkloadIdentityRequest
	// ArtifactDigests holds the digests of artifacts that were downloaded since the last update of the allocation, by
	// task and destination. See nomad.TaskState.
	ArtifactDigests map[string]map[string]string
	QueryOptions
}

// AllocIdentitiesResponse is the reply of Alloc.SignIdentities.
type AllocIdentitiesResponse struct {
	SignedIdentities []*SignedWorkloadIdentity
	Rejections       []*WorkloadIdentityRejection
	// DigestClaims lists the signed identities whose claims contain the digests of artifacts: their tokens change
	// with them.
	DigestClaims []WIHandle
	QueryMeta
}

// The reasons for the rejection of an identity request.
const (
	WIRejectionReasonMissingAlloc    = "allocation not found"
	WIRejectionReasonMissingTask     = "task not found"
	WIRejectionReasonMissingIdentity = "identity not found"
	WIRejectionReasonServiceName     = "the servers cannot verify the name of the service: they compute another one from the job and from " +
		"the registration of the node; a name with other references needs text of its own, such as web-${NAME}"
)

// The kinds of workloads that have identities.
const (
	WorkloadTypeTask    WorkloadType = 0
	WorkloadTypeService WorkloadType = 1
)

// SignedWorkloadIdentity is a requested named identity and its signed token. Expiration is zero if it does
// not expire.
type SignedWorkloadIdentity struct {
	WorkloadIdentityRequest
	JWT        string
	Expiration time.Time
}

// WIHandle identifies one identity of one task or service in an allocation.
type WIHandle struct {
	IdentityName                   string
	WorkloadIdentifier             string
	WorkloadType                   WorkloadType
	InterpolatedWorkloadIdentifier string
}

// WorkloadIdentityRejection is a requested named identity that was not signed. Reason is one of the
// WIRejectionReason texts.
type WorkloadIdentityRejection struct {
	WorkloadIdentityRequest
	Reason string
}

// WorkloadIdentityRequest requests one named identity of an allocation.
type WorkloadIdentityRequest struct {
	AllocID string
	WIHandle
}

// WorkloadType is the kind of the workload that an identity belongs to: a task or a service.
type WorkloadType int
