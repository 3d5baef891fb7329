package message

import (
	"time"

	"github.com/open-nomad/open-nomad/nomad"
)

// VaultTokenStatus describes the token of a task in Vault. It never has the token itself.
type VaultTokenStatus struct {
	Namespace string // of the job
	JobID     string
	AllocID   string
	Task      string
	Cluster   string
	Role      string // with which the task logs in, "" for the default of Vault
	// LoggedIn reports whether the task has a token. Otherwise the fields about its life are zero.
	LoggedIn bool
	// Lease is the life of the token from its login or its last renewal on. 0 means that it does not end.
	Lease       time.Duration
	Renewable   bool
	Expires     time.Time // zero if it does not end, or there is no token
	NextRenewal time.Time // zero for none
	// Error is the cause of the last login or renewal that failed, in words, "" after a success.
	Error   string
	ErrorAt time.Time
}

// UpgradeCheckVaultWorkloadIdentityRequest is the request of Operator.UpgradeCheckVaultWorkloadIdentity.
type UpgradeCheckVaultWorkloadIdentityRequest struct{ QueryOptions }

// UpgradeCheckVaultWorkloadIdentityResponse lists what cannot use Vault by workload identity. VaultTokens is always nil: servers
// have no tokens of tasks.
type UpgradeCheckVaultWorkloadIdentityResponse struct {
	JobsWithoutVaultIdentity []*nomad.JobListStub
	OutdatedNodes            []*nomad.NodeListStub
	VaultTokens              []*struct{}
	QueryMeta
}

// VaultLogin describes how a task logs in to Vault. It is computed without signing an identity. It is open-nomad only.
type VaultLogin struct {
	TaskGroup string
	Task      string
	Cluster   string
	Role      string // of the block, "" for the one that the client or the auth method of Vault chooses
	Identity  string // name of the identity, "" if the task has none: its login fails
	Alg       string
	TTL       time.Duration
	Claims    []*VaultClaim // without those that differ in each token
}

// VaultClaim is a claim of an identity. A claim in an object has a JSON pointer as name, such as /extra_claims/team.
type VaultClaim struct {
	Name  string
	Value string
}

// VaultTokensResponse is the reply of VaultTokens.List: the tokens of the tasks of a node, of the allocations that the caller
// may read.
type VaultTokensResponse struct {
	Tokens []*VaultTokenStatus
	QueryMeta
}
