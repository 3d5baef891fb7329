package identity

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/open-nomad/open-nomad/internal/pattern"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/vault"
)

// token matches a variable in an extra claim, such as ${job.id}.
var token = pattern.Lazy(`\$\{[^{}]*\}`)

// artifactDigests is the variable of the digests of the task's artifacts.
const artifactDigests = "artifact.digests"

// extraClaims returns the claims that the namespace and the configuration of Vault add.
func (i *Issuer) extraClaims(s Subject) map[string]string {
	out := i.claimTexts(s)
	for name, text := range out {
		out[name] = s.interpolate(text)
	}
	return out
}

// claimTexts returns the claims before interpolation: those of the namespace, and those that the configuration adds to
// identities for Vault. The latter replace others of the same name. As Nomad 2.0.
func (i *Issuer) claimTexts(s Subject) map[string]string {
	out := s.namespaceTexts()
	_, c := i.vaultOf(s)
	if c == nil || len(c.ExtraClaims) == 0 {
		return out
	}
	if out == nil {
		out = map[string]string{}
	}
	maps.Copy(out, c.ExtraClaims)
	return out
}

// namespaceTexts returns the claims of the namespace: all required ones, and those optional ones that the identity lists.
func (s Subject) namespaceTexts() map[string]string {
	if s.Namespace == nil {
		return nil
	}
	var out map[string]string
	add := func(name, text string) {
		if out == nil {
			out = map[string]string{}
		}
		out[name] = text
	}
	for name, text := range s.Namespace.OptionalExtraClaims {
		if slices.Contains(s.Identity.ExtraClaims, name) {
			add(name, text)
		}
	}
	for name, text := range s.Namespace.RequiredExtraClaims {
		add(name, text)
	}
	return out
}

// ClaimsDigests reports whether a claim contains the digests of the task's artifacts.
func (i *Issuer) ClaimsDigests(s Subject) bool {
	for _, text := range i.claimTexts(s) {
		for _, place := range token().FindAllString(text, -1) {
			if variable(place) == artifactDigests {
				return true
			}
		}
	}
	return false
}

// variable returns the name in a variable.
func variable(place string) string { return strings.TrimSpace(place[2 : len(place)-1]) }

// interpolate replaces variables. A known name without a value becomes empty; an unknown name
// stays as written.
func (s Subject) interpolate(text string) string {
	if !strings.Contains(text, "${") {
		return text
	}
	return token().ReplaceAllStringFunc(text, func(place string) string {
		name := variable(place)
		if key, ok := strings.CutPrefix(name, "job.meta."); ok {
			if v, known := s.Job.Meta[key]; known {
				return v
			}
			return place
		}
		if value, known := s.values()[name]; known {
			return value
		}
		return place
	})
}

// values returns the values of the variables, by name.
func (s Subject) values() map[string]string {
	job, node, block := s.Job, s.Node, nomad.Vault{}
	if node == nil {
		node = &nomad.Node{}
	}
	if of := s.vaultBlock(); of != nil {
		block = *of
		block.Cluster = vault.ClusterOf(of)
	}
	task := ""
	if s.Handle.WorkloadType == message.WorkloadTypeTask {
		task = s.Handle.WorkloadIdentifier
	}
	return map[string]string{
		"job.region": job.Region, "job.namespace": s.Alloc.Namespace, "job.id": job.IdentityID(), "job.node_pool": job.NodePool,
		"group.name": s.Alloc.TaskGroup, "alloc.id": s.Alloc.ID, "task.name": task,
		"node.id": node.ID, "node.datacenter": node.Datacenter, "node.pool": node.NodePool, "node.class": node.NodeClass,
		artifactDigests: s.digests(), "vault.cluster": block.Cluster, "vault.namespace": block.Namespace,
		"vault.role": block.Role,
	}
}

// digests returns the digests of the artifacts as a JSON object, sorted by destination, or "" without
// any.
func (s Subject) digests() string {
	if len(s.Digests) == 0 {
		return ""
	}
	text, err := json.Marshal(s.Digests)
	if err != nil {
		panic("identity: bug: a map of strings cannot be encoded: " + err.Error())
	}
	return string(text)
}
