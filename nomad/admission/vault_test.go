package admission

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/codec"
	"github.com/open-nomad/open-nomad/nomad/jobrules"
	"github.com/open-nomad/open-nomad/nomad/state"
	"github.com/open-nomad/open-nomad/nomad/vault"
)

// vaultWrite returns a write of a job in a region with clusters of Vault.
func vaultWrite(clusters vault.Clusters, who Asker, job *nomad.Job) *write {
	a := New(Config{Region: "global", Open: true, Vault: clusters})
	return &write{View: a.At(state.New(nil).Snapshot()), who: who, job: job}
}

var withVault = vault.Clusters{"default": {Enabled: true, DefaultIdentity: &nomad.WorkloadIdentity{Audience: []string{"vault.io"}, TTL: time.Hour}}}

const wantVault = "${attr.vault.version} semver >= 0.6.1"

// TestVault checks what the servers add to a job, and that the result is stored as it is when it is registered again.
func TestVault(t *testing.T) {
	block := &nomad.Vault{}
	for name, c := range map[string]struct {
		edit     func(tg *nomad.TaskGroup, t *nomad.Task)
		clusters vault.Clusters
		want     []string
	}{
		"nothing": {func(*nomad.TaskGroup, *nomad.Task) {}, withVault, nil},
		"block": {func(_ *nomad.TaskGroup, t *nomad.Task) { t.Vault = block }, withVault,
			[]string{"group " + wantVault, "group " + wantNomad, "t vault_default vault.io 1h0m0s  "}},
		"two tasks": {func(tg *nomad.TaskGroup, t *nomad.Task) {
			t.Vault = block
			second := codec.Copy(t)
			second.Name = "u"
			tg.Tasks = append(tg.Tasks, second)
		}, withVault, []string{"group " + wantVault, "group " + wantNomad, "t vault_default vault.io 1h0m0s  ", "u vault_default vault.io 1h0m0s  "}},
		"without identities": {func(_ *nomad.TaskGroup, t *nomad.Task) { t.Vault = block }, vault.Clusters{"default": {Enabled: true}},
			[]string{"group " + wantVault}},
		"own identity": {func(_ *nomad.TaskGroup, t *nomad.Task) {
			t.Vault = block
			t.Identities = []*nomad.WorkloadIdentity{{Name: "vault_default", Audience: []string{"y"}, Alg: "RS256"}}
		}, withVault, []string{"group " + wantVault, "group " + wantNomad, "t vault_default y 0s  RS256"}},
		"own constraint": {func(tg *nomad.TaskGroup, t *nomad.Task) {
			t.Vault = block
			tg.Constraints = []*nomad.Constraint{{LTarget: "${attr.vault.version}", RTarget: ">= 1.11.0", Operand: "semver"}}
		}, vault.Clusters{"default": {Enabled: true}}, []string{"group ${attr.vault.version} semver >= 1.11.0"}},
		"algorithm of the configuration": {func(_ *nomad.TaskGroup, t *nomad.Task) { t.Vault = block },
			vault.Clusters{"default": {Enabled: true, DefaultIdentity: &nomad.WorkloadIdentity{Alg: "RS256", Audience: []string{"a"}}}},
			[]string{"group " + wantVault, "group " + wantNomad, "t vault_default a 0s  RS256"}},
	} {
		t.Run(name, func(t *testing.T) {
			job := groupOf(c.edit)
			w := vaultWrite(c.clusters, Caller(anyone()), job)
			if err := w.vault(); err != nil {
				t.Fatal(err)
			}
			if got := shown(job.TaskGroups[0]); !slices.Equal(got, c.want) {
				t.Errorf("got %q\nwant %q", got, c.want)
			}
			if err := jobrules.Validate(job); err != nil {
				t.Errorf("Validate() = %v", err)
			}
			for who, asker := range map[string]Asker{"submitted": Caller(anyone()), "planned": Planner(anyone()),
				"reverted": Reverter(anyone(), job), "scaled": For(anyone(), job)} {
				again := codec.Copy(job)
				jobrules.Canonicalize(again)
				if err := vaultWrite(c.clusters, asker, again).vault(); err != nil || !reflect.DeepEqual(again, job) {
					t.Errorf("%s again: %v, %q", who, err, shown(again.TaskGroups[0]))
				}
			}
		})
	}
}

// TestVault_ConfigurationNotShared checks that identities of jobs share nothing with the configuration.
func TestVault_ConfigurationNotShared(t *testing.T) {
	job := groupOf(func(_ *nomad.TaskGroup, t *nomad.Task) { t.Vault = &nomad.Vault{} })
	if err := vaultWrite(withVault, Caller(anyone()), job).vault(); err != nil {
		t.Fatal(err)
	}
	job.TaskGroups[0].Tasks[0].Identities[0].Audience[0] = "changed"
	if got := withVault["default"].DefaultIdentity; got.Audience[0] != "vault.io" || got.Name != "" {
		t.Errorf("the configured identity is %+v", got)
	}
}

// TestVault_ServersWithout checks that servers without Vault add nothing and refuse the job, also a version that they stored.
func TestVault_ServersWithout(t *testing.T) {
	for name, clusters := range map[string]vault.Clusters{"none": nil, "disabled": {"default": {DefaultIdentity: &nomad.WorkloadIdentity{}}}} {
		stored := groupOf(func(_ *nomad.TaskGroup, t *nomad.Task) { t.Vault = &nomad.Vault{} })
		for who, asker := range map[string]Asker{"submitted": Caller(anyone()), "planned": Planner(anyone()), "reverted": Reverter(anyone(), stored),
			"dispatched": For(anyone(), stored), "rolled back": Author(stored)} {
			job := codec.Copy(stored)
			w := vaultWrite(clusters, asker, job)
			if err := w.vault(); err != nil || !reflect.DeepEqual(job, stored) {
				t.Errorf("%s, %s: %v, %q", name, who, err, shown(job.TaskGroups[0]))
			}
			_, err := w.Validate(asker, job)
			if err == nil || !strings.Contains(err.Error(), `Vault "default" not enabled but used in the job`) {
				t.Errorf("%s, %s: Validate() = %v", name, who, err)
			}
			if _, err := w.Admit(asker, job); err == nil || !strings.Contains(err.Error(), `Vault "default" not enabled`) {
				t.Errorf("%s, %s: Admit() = %v", name, who, err)
			}
		}
	}
}

// TestVault_WithoutIdentity checks the warning about a task that has a vault block and no identity for it.
func TestVault_WithoutIdentity(t *testing.T) {
	for name, c := range map[string]struct {
		clusters vault.Clusters
		own      bool
		want     int
	}{
		"none":           {vault.Clusters{"default": {Enabled: true}}, false, 1},
		"own":            {vault.Clusters{"default": {Enabled: true}}, true, 0},
		"of the servers": {withVault, false, 0},
		"refused anyway": {nil, false, 0},
	} {
		t.Run(name, func(t *testing.T) {
			job := groupOf(func(_ *nomad.TaskGroup, t *nomad.Task) {
				t.Vault = &nomad.Vault{}
				if c.own {
					t.Identities = []*nomad.WorkloadIdentity{{Name: "vault_default", Audience: []string{"vault.io"}, TTL: time.Hour}}
				}
			})
			w := vaultWrite(c.clusters, Caller(anyone()), job)
			if err := w.vault(); err != nil {
				t.Fatal(err)
			}
			if got := strings.Count(strings.Join(w.Warnings(job), "\n"), `has no identity "vault_default": set default_identity`); got != c.want {
				t.Errorf("%d warnings, want %d: %q", got, c.want, w.Warnings(job))
			}
		})
	}
}
