package migrate

import (
	"slices"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/nomad"
)

// TestVaultJob checks what jobs with vault blocks use and need.
func TestVaultJob(t *testing.T) {
	identity := []*nomad.WorkloadIdentity{nil, {Name: "vault_default"}}
	for name, c := range map[string]struct {
		tasks []*nomad.Task
		uses  []string
		keep  int
	}{
		"none":    {[]*nomad.Task{nil, {Name: "t", Identities: identity}}, nil, 1},
		"role":    {[]*nomad.Task{{Name: "t", Vault: &nomad.Vault{Role: "web", Cluster: "default"}, Identities: identity}}, []string{"task g/t: role web"}, 1},
		"no role": {[]*nomad.Task{{Name: "t", Vault: &nomad.Vault{}, Identities: identity}}, []string{"task g/t: role of the client or the auth method"}, 1},
		"no identity": {[]*nomad.Task{{Name: "t", Vault: &nomad.Vault{Role: "a"}, Identities: identity}, {Name: "u", Vault: &nomad.Vault{Role: "b"}}},
			[]string{"task g/t: role a", "task g/u: role b"}, 2},
	} {
		got := vaultJob(&nomad.Job{ID: "j", Namespace: "n", TaskGroups: []*nomad.TaskGroup{nil, {Name: "g", Tasks: c.tasks}}})
		if got.Job != "n/j" || !slices.Equal(got.Uses, c.uses) || len(got.Keep) != c.keep {
			t.Errorf("%s: %+v, want uses %q and %d needs", name, got, c.uses, c.keep)
		}
	}
}

// TestVaultText checks the section and the step of a report.
func TestVaultText(t *testing.T) {
	r := &Report{}
	if got := r.vaultSteps(); got != nil {
		t.Errorf("steps without jobs = %+v", got)
	}
	r.Vault = []VaultJob{{Job: "n/j", Uses: []string{"task g/t: role web", "task g/u: role web"}, Keep: []string{"x"}}}
	var b strings.Builder
	r.vaultText(&b)
	const want = "  * n/j\n      uses:  task g/t: role web\n             task g/u: role web\n      keep:  x\n"
	if !strings.HasSuffix(b.String(), want) {
		t.Errorf("text = %q, want the end %q", b.String(), want)
	}
	if got := r.vaultSteps(); len(got) != 1 || !strings.Contains(got[0].Text, "for 1 job") {
		t.Errorf("steps = %+v", got)
	}
}
