package nomad

import "net"
import "time"

// Names and rules of identities (compat/identity.md).
const (
	IdentityDefaultAud                            = "nomadproject.io"
	WorkloadIdentityDefaultName                   = "default"
	WorkloadIdentityVaultPrefix                   = "vault_"
	WIRejectionReasonMissingAlloc                 = "allocation not found"
	WIRejectionReasonMissingTask                  = "task not found"
	WIRejectionReasonMissingIdentity              = "identity not found"
	WIChangeModeNoop                              = "noop"
	WIChangeModeSignal                            = "signal"
	WIChangeModeRestart                           = "restart"
	WorkloadTypeTask                 WorkloadType = 0
	WorkloadTypeService              WorkloadType = 1
)

// ACLToken holds the fields of an acl token.
type ACLToken struct {
	AccessorID     string
	SecretID       string
	Name           string
	Type           string
	Policies       []string
	Roles          []*ACLTokenRoleLink
	Global         bool
	Hash           []byte
	CreateTime     time.Time
	ExpirationTime *time.Time
	ExpirationTTL  time.Duration
	CreateIndex    uint64
	ModifyIndex    uint64
}

// ACLTokenRoleLink holds the fields of an acl token role link.
type ACLTokenRoleLink struct {
	ID   string
	Name string
}

// ACLWhoAmIResponse is the reply of ACL.WhoAmI.
type ACLWhoAmIResponse struct {
	Identity *AuthenticatedIdentity
	QueryMeta
}

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

// AuthenticatedIdentity holds the fields of an authenticated identity.
type AuthenticatedIdentity struct {
	ACLToken *ACLToken
	Claims   *IdentityClaims
	ClientID string
	TLSName  string
	RemoteIP net.IP
}

// SignedWorkloadIdentity holds the fields of a signed workload identity.
type SignedWorkloadIdentity struct {
	WorkloadIdentityRequest
	JWT        string
	Expiration time.Time
}

// WIHandle holds the fields of a wi handle.
type WIHandle struct {
	IdentityName                   string
	WorkloadIdentifier             string
	WorkloadType                   WorkloadType
	InterpolatedWorkloadIdentifier string
}

// WorkloadIdentity holds the fields of a workload identity.
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
}

// WorkloadIdentityRejection holds the fields of a workload identity rejection.
type WorkloadIdentityRejection struct {
	WorkloadIdentityRequest
	Reason string
}

// WorkloadIdentityRequest holds the fields of a workload identity request.
type WorkloadIdentityRequest struct {
	AllocID string
	WIHandle
}

// WorkloadType holds the fields of a workload type.
type WorkloadType int
