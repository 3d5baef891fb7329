package admission

import (
	"fmt"
	"slices"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/vault"
)

// What a node needs for vault blocks. Nomad has the same constraint.
const (
	targetVault  = "${attr.vault.version}"
	vaultVersion = ">= 0.6.1"
)

// vault adds to a submitted job what its vault blocks need: a constraint, and the identities with which its tasks log in.
// A second call changes nothing. A version that is derived from a stored one remains as it was stored.
func (w *write) vault() error {
	if !w.who.submits() {
		return nil
	}
	for _, tg := range w.job.TaskGroups {
		if !slices.ContainsFunc(tg.Tasks, func(t *nomad.Task) bool { return t.Vault != nil && w.cfg.Vault.Enabled(vault.ClusterOf(t.Vault)) }) {
			continue // the job is refused if it has blocks
		}
		if !slices.ContainsFunc(tg.Constraints, func(c *nomad.Constraint) bool { return c.LTarget == targetVault }) {
			tg.Constraints = append(tg.Constraints, &nomad.Constraint{LTarget: targetVault, RTarget: vaultVersion, Operand: nomad.ConstraintSemver})
		}
		for _, t := range tg.Tasks {
			if t.Vault != nil && identifyInVault(w.cfg.Vault[vault.ClusterOf(t.Vault)], t) {
				Constrain(tg, &nomad.Constraint{LTarget: targetNomad, RTarget: identityVersion, Operand: nomad.ConstraintSemver})
			}
		}
	}
	return nil
}

// identifyInVault adds the configured identity of a cluster to a task that has none for it. It reports whether the task has
// one. The algorithm is that of the block, or of the servers' key: Vault accepts both.
func identifyInVault(c *vault.Cluster, t *nomad.Task) bool {
	if vault.IdentityOf(t) != nil {
		return true
	}
	if c == nil || c.DefaultIdentity == nil {
		return false
	}
	id := *c.DefaultIdentity
	id.Name, id.Audience, id.ExtraClaims = vault.IdentityName(vault.ClusterOf(t.Vault)), slices.Clone(id.Audience), slices.Clone(id.ExtraClaims)
	t.Identities = append(t.Identities, &id)
	return true
}

// withoutVaultIdentity returns a warning for each task that cannot log in to Vault, since it has no identity for that. The
// task would wait at its start.
func withoutVaultIdentity(clusters vault.Clusters, job *nomad.Job) (out []string) {
	for _, p := range Places(job) {
		if p.Task.Vault == nil || !clusters.Enabled(vault.ClusterOf(p.Task.Vault)) {
			continue
		}
		if vault.IdentityOf(p.Task) == nil {
			out = append(out, fmt.Sprintf("%s: the task cannot log in to Vault and will not start, because it has no identity %q: "+
				"set default_identity in the vault block of all servers, or add the identity to the task", p, vault.IdentityName(vault.ClusterOf(p.Task.Vault))))
		}
	}
	return out
}
