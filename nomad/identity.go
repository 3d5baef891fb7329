package nomad

import (
	"slices"
	"time"
)

// The default identity of a workload and its audience.
const (
	IdentityDefaultAud          = "nomadproject.io"
	WorkloadIdentityDefaultName = "default"
)

// The actions on a task when its identity is renewed.
const (
	WIChangeModeNoop    = "noop"
	WIChangeModeSignal  = "signal"
	WIChangeModeRestart = "restart"
)

// WorkloadIdentity requests a signed JWT for a task or service and specifies how the workload receives it.
// With a TTL of zero, the token is valid as long as the allocation.
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
	// Alg is the signing algorithm (open-nomad only): EdDSA, which is the default, or RS256 for
	// verifiers that do not support EdDSA.
	Alg string
	// Isolation adds the claim nomad_isolation (open-nomad only).
	Isolation bool `json:",omitempty" codec:",omitempty"`
}

// The values of WorkloadIdentity.Alg.
const (
	IdentityAlgEdDSA = "EdDSA"
	IdentityAlgRS256 = "RS256"
)

// WantsRSA reports whether the job requests identities signed with RS256.
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
