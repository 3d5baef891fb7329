package jobrules

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/open-nomad/open-nomad/internal/untrusted"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/vault"
)

// The features that need servers with Vault. Validate accepts the blocks, and package admission refuses them on servers
// whose configuration does not enable Vault. No server of this version supports namespaces.
var (
	vaultForJobs = []feature[*nomad.Job]{
		{"vault namespace", "", func(j *nomad.Job) bool { return j.VaultNamespace != "" }},
	}
	vaultForTasks = []feature[*nomad.Task]{
		{"vault", "", func(t *nomad.Task) bool { return t.Vault != nil }},
		{"vault namespace", "", func(t *nomad.Task) bool { return t.Vault != nil && t.Vault.Namespace != "" }},
		{"vault cluster", "", func(t *nomad.Task) bool { return t.Vault != nil && otherVault(t.Vault.Cluster) }},
	}
)

// VaultFeatures returns the names of the features that servers with Vault support.
func VaultFeatures() []string { return []string{"vault"} }

// What the client does after a login that replaced the token of a task.
const (
	vaultChangeNoop    = "noop"
	vaultChangeRestart = "restart"
	vaultChangeSignal  = "signal"
)

// exampleSignal is the signal that errors name as an example.
const exampleSignal = "SIGHUP"

// canonicalizeVault sets the defaults of a vault block. A block without a namespace gets that of the job.
func canonicalizeVault(v *nomad.Vault, j *nomad.Job) {
	if v == nil {
		return
	}
	orEmpty(&v.Cluster, vault.DefaultCluster)
	orEmpty(&v.Namespace, j.VaultNamespace)
	orEmpty(&v.ChangeMode, vaultChangeRestart)
	v.ChangeSignal = signalName(strings.ToUpper(v.ChangeSignal))
}

// otherVault reports whether a vault block names a cluster other than the default one.
func otherVault(name string) bool { return cmp.Or(name, vault.DefaultCluster) != vault.DefaultCluster }

// VaultSignals returns the signals that the client sends to tasks of the group after a new login to Vault.
func VaultSignals(tg *nomad.TaskGroup) (out []string) {
	for _, t := range tg.Tasks {
		if t.Vault != nil && t.Vault.ChangeMode == vaultChangeSignal && t.Vault.ChangeSignal != "" {
			out = append(out, t.Vault.ChangeSignal)
		}
	}
	return out
}

// validateVault checks a vault block. Package admission checks the cluster and the namespace.
func validateVault(v *nomad.Vault, f *faults) {
	if v == nil {
		return
	}
	if len(v.Role) > vault.MaxRole || strings.ContainsFunc(v.Role, unicode.IsControl) {
		f.add("vault: role is %q: use a name of at most %d bytes without control characters", v.Role, vault.MaxRole)
	}
	switch v.ChangeMode {
	case vaultChangeNoop, vaultChangeRestart:
	case vaultChangeSignal:
		switch {
		case v.ChangeSignal == "":
			f.add("vault: Signal must be specified when using change mode %q: set change_signal to a name such as %s", vaultChangeSignal,
				exampleSignal)
		case !KnownSignal(v.ChangeSignal):
			f.add("vault: unknown change_signal %q: use a name such as %s", v.ChangeSignal, exampleSignal)
		}
	default:
		f.add("vault: Unknown change mode %q: use noop, restart or signal", v.ChangeMode)
	}
}

// noVaultBlock returns a warning for each identity for Vault of a task that has no vault block.
func noVaultBlock(t *nomad.Task, at string) (out []string) {
	if t.Vault != nil {
		return nil
	}
	for _, id := range t.Identities {
		if vault.IsIdentity(id.Name) {
			out = append(out, fmt.Sprintf("%s: Task %s has an identity called %s but no vault block", at, untrusted.Shorten(t.Name, maxShown),
				untrusted.Shorten(id.Name, maxShown)))
		}
	}
	return out
}

// NeedsVault returns the errors of servers with the clusters of a configuration for a canonical job: for a cluster that the
// configuration does not enable, for another one than the default, and for namespaces.
func NeedsVault(j *nomad.Job, clusters vault.Clusters) []error {
	var list []error
	f := &faults{place: fmt.Sprintf("job %q", untrusted.Shorten(j.ID, maxShown)), list: &list, regexps: new(int)}
	namespaces := map[string]bool{}
	for _, tg := range j.TaskGroups {
		for _, t := range tg.Tasks {
			if t.Vault != nil {
				needsVault(t.Vault, clusters, f.in("group", tg.Name).in("task", t.Name))
				namespaces[t.Vault.Namespace] = true
			}
		}
	}
	namespaces[j.VaultNamespace] = true
	delete(namespaces, "")
	if len(namespaces) > 0 {
		f.add("multiple Vault namespaces requires Nomad Enterprise, Namespaces: %s", joined(namespaces))
	}
	return list
}

// needsVault checks the cluster of a vault block.
func needsVault(v *nomad.Vault, clusters vault.Clusters, f *faults) {
	name := vault.ClusterOf(v)
	switch {
	case !clusters.Enabled(name) && otherVault(name):
		f.add("Vault %q not enabled but used in the job: jobs use the cluster %q", name, vault.DefaultCluster)
	case !clusters.Enabled(name):
		f.add("Vault %q not enabled but used in the job: remove the vault block of the task, or add vault { enabled = true } to the configuration of all servers", name)
	case otherVault(name):
		f.add("non-default Vault cluster requires Nomad Enterprise: jobs use the cluster %q", vault.DefaultCluster)
	}
}

// joined returns names for an error, sorted.
func joined(names map[string]bool) string {
	list := make([]string, 0, len(names))
	for name := range names {
		list = append(list, name)
	}
	slices.Sort(list)
	return strings.Join(list, ", ")
}
