package jobrules_test

import (
	"reflect"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/codec"
	"github.com/open-nomad/open-nomad/nomad/jobrules"
	"github.com/open-nomad/open-nomad/nomad/vault"
)

// TestCanonicalize_Vault checks the defaults of vault blocks.
func TestCanonicalize_Vault(t *testing.T) {
	for name, c := range map[string]struct {
		namespace string // of the job
		in, want  nomad.Vault
	}{
		"empty": {"", nomad.Vault{}, nomad.Vault{Cluster: "default", ChangeMode: "restart"}},
		"own": {"team", nomad.Vault{Cluster: "west", Namespace: "own", ChangeMode: "signal", ChangeSignal: "sigusr1", Role: "r", Env: true},
			nomad.Vault{Cluster: "west", Namespace: "own", ChangeMode: "signal", ChangeSignal: "SIGUSR1", Role: "r", Env: true}},
		"namespace of the job": {"team", nomad.Vault{}, nomad.Vault{Cluster: "default", Namespace: "team", ChangeMode: "restart"}},
		"short signal":         {"", nomad.Vault{ChangeSignal: "hup"}, nomad.Vault{Cluster: "default", ChangeMode: "restart", ChangeSignal: "SIGHUP"}},
		"unknown signal":       {"", nomad.Vault{ChangeSignal: "sigx"}, nomad.Vault{Cluster: "default", ChangeMode: "restart", ChangeSignal: "SIGX"}},
	} {
		j := sample("service")
		j.VaultNamespace, j.TaskGroups[0].Tasks[0].Vault = c.namespace, &c.in
		for range 2 {
			jobrules.Canonicalize(j)
			if got := *j.TaskGroups[0].Tasks[0].Vault; got != c.want {
				t.Errorf("%s: %+v, want %+v", name, got, c.want)
			}
		}
	}
}

// TestValidate_Vault checks the errors of vault blocks.
func TestValidate_Vault(t *testing.T) {
	for name, c := range map[string]struct {
		block nomad.Vault
		want  string
	}{
		"empty":          {nomad.Vault{}, ""},
		"noop":           {nomad.Vault{ChangeMode: "noop", Role: "r", Env: true, DisableFile: true, AllowTokenExpiration: true}, ""},
		"signal":         {nomad.Vault{ChangeMode: "signal", ChangeSignal: "SIGHUP"}, ""},
		"change mode":    {nomad.Vault{ChangeMode: "reload"}, `task "t": vault: Unknown change mode "reload"`},
		"no signal":      {nomad.Vault{ChangeMode: "signal"}, `vault: Signal must be specified when using change mode "signal"`},
		"unknown signal": {nomad.Vault{ChangeMode: "signal", ChangeSignal: "SIGX"}, `vault: unknown change_signal "SIGX"`},
		"long role":      {nomad.Vault{Role: strings.Repeat("r", 513)}, "at most 512 bytes"},
		"role":           {nomad.Vault{Role: "a\nb"}, "without control characters"},
	} {
		t.Run(name, func(t *testing.T) {
			j := sample("service")
			j.TaskGroups[0].Tasks[0].Vault = &c.block
			jobrules.Canonicalize(j)
			checkFault(t, jobrules.Validate(j), c.want)
		})
	}
}

// TestNeedsVault checks the errors of servers with several configurations.
func TestNeedsVault(t *testing.T) {
	both := vault.Clusters{"default": {Enabled: true}, "west": {Enabled: true}}
	off := vault.Clusters{"default": {DefaultIdentity: &nomad.WorkloadIdentity{}}}
	for name, c := range map[string]struct {
		clusters  vault.Clusters
		namespace string
		block     *nomad.Vault
		want      []string
		features  []string // of a stored job
	}{
		"no block":         {nil, "", nil, nil, nil},
		"enabled":          {both, "", &nomad.Vault{}, nil, []string{"vault"}},
		"not configured":   {nil, "", &nomad.Vault{}, []string{`task "t": Vault "default" not enabled but used in the job`}, []string{"vault"}},
		"disabled":         {off, "", &nomad.Vault{}, []string{`task "t": Vault "default" not enabled but used in the job`}, []string{"vault"}},
		"other":            {both, "", &nomad.Vault{Cluster: "west"}, []string{"non-default Vault cluster requires Nomad Enterprise"}, []string{"vault", "vault cluster"}},
		"unknown":          {both, "", &nomad.Vault{Cluster: "east"}, []string{`Vault "east" not enabled but used in the job`}, []string{"vault", "vault cluster"}},
		"namespace":        {both, "", &nomad.Vault{Namespace: "b"}, []string{"multiple Vault namespaces requires Nomad Enterprise, Namespaces: b"}, []string{"vault", "vault namespace"}},
		"namespaces":       {both, "a", &nomad.Vault{Namespace: "b"}, []string{"Namespaces: a, b"}, []string{"vault", "vault namespace"}},
		"namespace of all": {both, "a", &nomad.Vault{}, []string{"Namespaces: a"}, []string{"vault", "vault namespace"}},
		"namespace alone":  {both, "a", nil, []string{"Namespaces: a"}, []string{"vault namespace"}},
		"all":              {nil, "a", &nomad.Vault{Cluster: "west"}, []string{`Vault "west" not enabled`, "Namespaces: a"}, []string{"vault", "vault cluster", "vault namespace"}},
	} {
		t.Run(name, func(t *testing.T) {
			j := sample("service")
			j.VaultNamespace, j.TaskGroups[0].Tasks[0].Vault = c.namespace, codec.Copy(c.block)
			jobrules.Canonicalize(j)
			got := jobrules.NeedsVault(j, c.clusters)
			if len(got) != len(c.want) {
				t.Fatalf("NeedsVault() = %v, want %q", got, c.want)
			}
			for i, want := range c.want {
				if !strings.Contains(got[i].Error(), want) {
					t.Errorf("NeedsVault() = %v, want %q", got[i], want)
				}
			}
			if got := jobrules.UnsupportedFeatures(j); len(got)+len(c.features) > 0 && !reflect.DeepEqual(got, c.features) {
				t.Errorf("UnsupportedFeatures() = %q, want %q", got, c.features)
			}
		})
	}
}

// TestNeedsVault_Limit checks that a large job has a limited list of errors.
func TestNeedsVault_Limit(t *testing.T) {
	j := sample("service")
	for range 5000 {
		j.TaskGroups[0].Tasks = append(j.TaskGroups[0].Tasks, &nomad.Task{Name: "t", Vault: &nomad.Vault{}})
	}
	if got := jobrules.NeedsVault(j, nil); len(got) > 101 {
		t.Errorf("NeedsVault() has %d errors", len(got))
	}
}

// TestWarnings_IdentityWithoutVault checks the warning about an identity for Vault of a task without a vault block.
func TestWarnings_IdentityWithoutVault(t *testing.T) {
	const want = "Task t has an identity called vault_default but no vault block"
	for _, block := range []*nomad.Vault{nil, {}} {
		j := sample("service")
		j.TaskGroups[0].Tasks[0].Vault = block
		j.TaskGroups[0].Tasks[0].Identities = []*nomad.WorkloadIdentity{{Name: "vault_default", Audience: []string{"x"}}, {Name: "vaults", Audience: []string{"x"}}}
		jobrules.Canonicalize(j)
		text := strings.Join(jobrules.Warnings(j), "\n")
		if got := strings.Count(text, "but no vault block"); got != map[bool]int{true: 1, false: 0}[block == nil] {
			t.Errorf("with block %v: %s", block, text)
		}
		if block == nil && !strings.Contains(text, want) {
			t.Errorf("warnings = %s, want %s", text, want)
		}
	}
}

// TestVaultSignals checks that only change_mode signal sends a signal.
func TestVaultSignals(t *testing.T) {
	j := sample("service")
	tg := j.TaskGroups[0]
	tg.Tasks = append(tg.Tasks, &nomad.Task{Vault: &nomad.Vault{ChangeMode: "restart", ChangeSignal: "SIGHUP"}},
		&nomad.Task{Vault: &nomad.Vault{ChangeMode: "signal", ChangeSignal: "SIGUSR2"}})
	if got := jobrules.VaultSignals(tg); len(got) != 1 || got[0] != "SIGUSR2" {
		t.Errorf("VaultSignals() = %q, want SIGUSR2", got)
	}
}
