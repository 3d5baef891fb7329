package identity

import (
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/vault"
)

// vaultBlock returns the vault block with whose cluster a task logs in by this identity, or nil. It is that of the stored job.
func (s Subject) vaultBlock() *nomad.Vault {
	if s.Handle.WorkloadType != message.WorkloadTypeTask || !vault.IsIdentity(s.Identity.Name) {
		return nil
	}
	tg := s.Job.TaskGroup(s.Alloc.TaskGroup)
	if tg == nil {
		return nil
	}
	t := tg.Task(s.Handle.WorkloadIdentifier)
	if t == nil || t.Vault == nil || vault.IdentityName(vault.ClusterOf(t.Vault)) != s.Identity.Name {
		return nil
	}
	return t.Vault
}

// vaultOf returns the vault block of a subject and the configuration of its cluster. Both are nil for other identities. As in
// Nomad, they are nil too if the cluster has no default identity. If it has one, an identity for it that a job has itself also
// gets vault_role and the extra claims: the job chooses the audience, and the operator these claims.
func (i *Issuer) vaultOf(s Subject) (*nomad.Vault, *vault.Cluster) {
	block := s.vaultBlock()
	if block == nil {
		return nil, nil
	}
	c := i.vault[vault.ClusterOf(block)]
	if c == nil || c.DefaultIdentity == nil {
		return nil, nil
	}
	return block, c
}
