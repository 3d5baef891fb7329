package jobs

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/admission"
	"github.com/open-nomad/open-nomad/nomad/identity"
	"github.com/open-nomad/open-nomad/nomad/idtoken"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/state"
	"github.com/open-nomad/open-nomad/nomad/vault"
)

// maxLogins limits the tasks whose login to Vault a response describes.
const maxLogins = 200

// Values of claims that only an allocation has.
const (
	unknownAlloc     = "(ID of the allocation)"
	unknownNode      = "(ID of the node)"
	unknownOfNode    = "(of the node)"
	unknownIsolation = "(level of the node)"
	unknownDigests   = "(digests of the artifacts)"
)

// logins returns how the tasks of groups log in to Vault. It computes the claims with the function that signs them, and signs
// nothing. The list is nil for a job without vault blocks. omitted is the number of logins beyond maxLogins.
func (s *Service) logins(snap *state.Snapshot, job *nomad.Job, groups []*nomad.TaskGroup) (out []*message.VaultLogin, omitted int) {
	for _, tg := range groups {
		for _, t := range tg.Tasks {
			if t.Vault == nil {
				continue
			}
			if len(out) == maxLogins {
				omitted++
				continue
			}
			out = append(out, s.login(snap, admission.Place{Job: job, Group: tg, Task: t}))
		}
	}
	return out, omitted
}

// login returns how one task logs in.
func (s *Service) login(snap *state.Snapshot, p admission.Place) *message.VaultLogin {
	out := &message.VaultLogin{TaskGroup: p.Group.Name, Task: p.Task.Name, Cluster: vault.ClusterOf(p.Task.Vault), Role: p.Task.Vault.Role}
	named := vault.IdentityOf(p.Task)
	if named == nil {
		return out
	}
	out.Identity, out.TTL, out.Alg = named.Name, named.TTL, named.Alg
	if out.Alg == "" {
		out.Alg = nomad.IdentityAlgEdDSA
	}
	claims := s.Issuer.Workload(identity.Subject{
		Alloc: &nomad.Allocation{ID: unknownAlloc, Namespace: p.Job.Namespace, JobID: p.Job.ID, TaskGroup: p.Group.Name},
		Job:   p.Job, Identity: named, Namespace: snap.Namespace(nil, p.Job.Namespace),
		Handle:  message.WIHandle{IdentityName: named.Name, WorkloadIdentifier: p.Task.Name, WorkloadType: message.WorkloadTypeTask},
		Node:    &nomad.Node{ID: unknownNode, Datacenter: unknownOfNode, NodePool: unknownOfNode, NodeClass: unknownOfNode},
		Digests: unknownArtifacts(p.Task),
	}, s.Now())
	if claims.Isolation != "" {
		claims.Isolation = unknownIsolation
	}
	out.Claims = claimsOf(claims)
	return out
}

// unknownArtifacts returns a text instead of the digests of the artifacts of a task.
func unknownArtifacts(t *nomad.Task) map[string]string {
	if len(t.Artifacts) == 0 {
		return nil
	}
	return map[string]string{"*": unknownDigests}
}

// unstable are the claims that differ in each token.
var unstable = []string{"iat", "nbf", "exp", "jti"}

// claimsOf returns the claims of a token, sorted by name. Claims in an object have names such as /extra_claims/team, with
// which a role of Vault binds them.
func claimsOf(c *idtoken.Claims) (out []*message.VaultClaim) {
	body := map[string]any{}
	text, err := json.Marshal(c)
	if err == nil {
		err = json.Unmarshal(text, &body)
	}
	if err != nil {
		panic("jobs: bug: claims cannot be encoded: " + err.Error())
	}
	for _, name := range unstable {
		delete(body, name)
	}
	for _, name := range slices.Sorted(maps.Keys(body)) {
		inner, ok := body[name].(map[string]any)
		if !ok {
			out = append(out, &message.VaultClaim{Name: name, Value: claimText(body[name])})
			continue
		}
		for _, key := range slices.Sorted(maps.Keys(inner)) {
			out = append(out, &message.VaultClaim{Name: "/" + name + "/" + pointer.Replace(key), Value: claimText(inner[key])})
		}
	}
	return out
}

// pointer encodes a name for a JSON pointer.
var pointer = strings.NewReplacer("~", "~0", "/", "~1")

// claimText returns a value as text.
func claimText(v any) string {
	if s, ok := v.(string); ok {
		return s
	}
	text, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(text)
}
