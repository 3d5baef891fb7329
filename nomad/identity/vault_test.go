package identity_test

import (
	"maps"
	"testing"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/identity"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/vault"
)

// TestVaultClaims checks which identities have the claims of Vault.
func TestVaultClaims(t *testing.T) {
	clusters := vault.Clusters{
		"default": {Enabled: true, DefaultIdentity: &nomad.WorkloadIdentity{},
			ExtraClaims: map[string]string{"from": "agent", "all": "${vault.cluster}/${vault.namespace}/${vault.role}/${job.id}", "a": "${artifact.digests}"}},
		"bare": {Enabled: true, ExtraClaims: map[string]string{"from": "agent"}},
	}
	ns := &nomad.Namespace{RequiredExtraClaims: map[string]string{"from": "namespace", "r": "${vault.role}"},
		OptionalExtraClaims: map[string]string{"o": "optional", "unlisted": "x"}}
	task := func(name string, block *nomad.Vault) *nomad.Task { return &nomad.Task{Name: name, Vault: block} }
	job := &nomad.Job{ID: "web", Region: "eu", TaskGroups: []*nomad.TaskGroup{{Name: "grp", Tasks: []*nomad.Task{
		task("main", &nomad.Vault{Role: "admin", Namespace: "team", Cluster: "default"}), task("old", &nomad.Vault{Role: "r"}),
		task("plain", nil), task("bare", &nomad.Vault{Role: "r", Cluster: "bare"}), task("role", &nomad.Vault{Cluster: "default"})}}}}
	agent := map[string]string{"from": "agent", "r": "admin", "o": "optional", "all": "default/team/admin/web", "a": ""}
	none := map[string]string{"from": "namespace", "r": "", "o": "optional"}
	with := func(base map[string]string, more map[string]string) map[string]string {
		out := maps.Clone(base)
		maps.Copy(out, more)
		return out
	}
	for name, c := range map[string]struct {
		task, identity  string
		kind            message.WorkloadType
		role, namespace string
		extra           map[string]string
		digests         bool
	}{
		"for Vault":              {"main", "vault_default", 0, "admin", "team", agent, true},
		"stored without cluster": {"old", "vault_default", 0, "r", "", with(agent, map[string]string{"r": "r", "all": "default//r/web"}), true},
		"without a role":         {"role", "vault_default", 0, "", "", with(agent, map[string]string{"r": "", "all": "default///web"}), true},
		"another identity":       {"main", "aws", 0, "", "", none, false},
		"of another cluster":     {"main", "vault_bare", 0, "", "", none, false},
		"no vault block":         {"plain", "vault_default", 0, "", "", none, false},
		"no default identity":    {"bare", "vault_bare", 0, "", "", with(none, map[string]string{"r": "r"}), false},
		"service":                {"main", "vault_default", message.WorkloadTypeService, "", "", none, false},
		"no such task":           {"gone", "vault_default", 0, "", "", none, false},
	} {
		i := identity.New(identity.Config{Region: "global", Vault: clusters})
		s := identity.Subject{Alloc: alloc, Job: job, Namespace: ns, Handle: message.WIHandle{WorkloadIdentifier: c.task, WorkloadType: c.kind},
			Identity: &nomad.WorkloadIdentity{Name: c.identity, ExtraClaims: []string{"o"}}}
		got := i.Workload(s, now)
		if got.VaultRole != c.role || got.VaultNamespace != c.namespace || !maps.Equal(got.ExtraClaims, c.extra) {
			t.Errorf("%s: role %q, namespace %q, extra claims %q; want %q, %q, %q", name, got.VaultRole, got.VaultNamespace, got.ExtraClaims, c.role,
				c.namespace, c.extra)
		}
		if i.ClaimsDigests(s) != c.digests {
			t.Errorf("%s: ClaimsDigests() = %v", name, !c.digests)
		}
	}
}

// TestVaultClaims_NoNamespace checks that the configuration of Vault is not changed by a signature.
func TestVaultClaims_NoNamespace(t *testing.T) {
	clusters := vault.Clusters{"default": {Enabled: true, DefaultIdentity: &nomad.WorkloadIdentity{}, ExtraClaims: map[string]string{"j": "${job.id}"}}}
	i := identity.New(identity.Config{Region: "global", Vault: clusters})
	for _, id := range []string{"a", "b"} {
		job := &nomad.Job{ID: id, TaskGroups: []*nomad.TaskGroup{{Name: "grp", Tasks: []*nomad.Task{{Name: "main", Vault: &nomad.Vault{}}}}}}
		c := i.Workload(identity.Subject{Alloc: alloc, Job: job, Handle: message.WIHandle{WorkloadIdentifier: "main"},
			Identity: &nomad.WorkloadIdentity{Name: "vault_default"}}, now)
		if c.ExtraClaims["j"] != id {
			t.Errorf("the claim j of job %s is %q", id, c.ExtraClaims["j"])
		}
	}
	if got := clusters["default"].ExtraClaims["j"]; got != "${job.id}" {
		t.Errorf("the configured claim is %q", got)
	}
}
