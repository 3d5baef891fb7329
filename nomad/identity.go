package nomad

import (
	"slices"
	"time"
)

// The default identity of a workload and its audience (compat/identity.md).
const (
	IdentityDefaultAud          = "nomadproject.io"
	WorkloadIdentityDefaultName = "default"
)

// Why an identity was not signed.
const (
	WIRejectionReasonMissingAlloc    = "allocation not found"
	WIRejectionReasonMissingTask     = "task not found"
	WIRejectionReasonMissingIdentity = "identity not found"
)

// What a renewed identity does to its task.
const (
	WIChangeModeNoop    = "noop"
	WIChangeModeSignal  = "signal"
	WIChangeModeRestart = "restart"
)

// What an identity belongs to.
const (
	WorkloadTypeTask    WorkloadType = 0
	WorkloadTypeService WorkloadType = 1
)

// AllocIdentitiesRequest is the request of Alloc.SignIdentities.
type AllocIdentitiesRequest struct {
	Identities []*WorkloadIdentityRequest
	QueryOptions
}

// AllocIdentitiesResponse is the reply of Alloc.SignIdentities.
type AllocIdentitiesResponse struct {
	SignedIdentities []*SignedWorkloadIdentity
	Rejections       []*WorkloadIdentityRejection
	QueryMeta
}

// SignedWorkloadIdentity is a named identity that was asked for, signed. Expiration
// is zero when it does not expire.
type SignedWorkloadIdentity struct {
	WorkloadIdentityRequest
	JWT        string
	Expiration time.Time
}

// WIHandle names one identity of one task or service within an allocation.
type WIHandle struct {
	IdentityName                   string
	WorkloadIdentifier             string
	WorkloadType                   WorkloadType
	InterpolatedWorkloadIdentifier string
}

// WorkloadIdentity asks for a signed JWT for a task or service and says where the
// workload finds it. A TTL of zero means that it lives as long as the allocation.
type WorkloadIdentity struct {
	Name         string
	Audience     []string
	ChangeMode   string
	ChangeSignal string
	Env          bool
	File         bool
	Filepath     string
	ServiceName  string
	TTL          time.Duration
	ExtraClaims  []string
	// Alg is how the token is signed: EdDSA, as "" too, or RS256 for verifiers that
	// know nothing newer (ours).
	Alg string
}

// What WorkloadIdentity.Alg may be.
const (
	IdentityAlgEdDSA = "EdDSA"
	IdentityAlgRS256 = "RS256"
)

// WantsRSA says whether the job asks for identities that are signed RS256.
func (j *Job) WantsRSA() bool {
	if j == nil {
		return false
	}
	rsa := func(id *WorkloadIdentity) bool { return id != nil && id.Alg == IdentityAlgRS256 }
	services := func(all []*Service) bool {
		return slices.ContainsFunc(all, func(s *Service) bool { return rsa(s.Identity) })
	}
	for _, tg := range j.TaskGroups {
		if services(tg.Services) {
			return true
		}
		for _, t := range tg.Tasks {
			if rsa(t.Identity) || slices.ContainsFunc(t.Identities, rsa) || services(t.Services) {
				return true
			}
		}
	}
	return false
}

// WorkloadIdentityRejection is a named identity that was asked for and not signed,
// with one of the WIRejectionReason texts.
type WorkloadIdentityRejection struct {
	WorkloadIdentityRequest
	Reason string
}

// WorkloadIdentityRequest asks for one named identity of an allocation.
type WorkloadIdentityRequest struct {
	AllocID string
	WIHandle
}

// WorkloadType says whether an identity belongs to a task or a service.
type WorkloadType int
