package setup

import (
	"context"
	"fmt"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/command/term"
)

// readiness is the answer of the servers to -check.
type readiness struct {
	JobsWithoutVaultIdentity []*api.JobListStub
	OutdatedNodes            []*api.NodeListStub
	VaultTokens              []any
}

// ready asks the servers whether all jobs and nodes can use workload identities with Vault.
func (o *vaultOptions) ready(ctx context.Context, e *term.Env) error {
	c, err := e.Client()
	if err != nil {
		return err
	}
	var r readiness
	if _, err := c.Raw().Query("/v1/operator/upgrade-check/vault-workload-identity", &r, (&api.QueryOptions{}).WithContext(ctx)); err != nil {
		return fmt.Errorf("Error checking the cluster: %w", err)
	}
	ready := len(r.JobsWithoutVaultIdentity)+len(r.OutdatedNodes) == 0
	if o.formats.Wanted() {
		if err := o.formats.Print(e, r); err != nil || ready {
			return err
		}
		return term.Exit(1)
	}
	if ready {
		e.Println("Nomad cluster is ready to use workload identities with Vault.")
		return nil
	}
	if len(r.JobsWithoutVaultIdentity) > 0 {
		rows := []string{"ID|Namespace|Type|Status"}
		for _, j := range r.JobsWithoutVaultIdentity {
			rows = append(rows, term.Row(j.ID, j.Namespace, j.Type, j.Status))
		}
		e.Printf("%s\n%s\nThese jobs have a vault block without an identity for it. Set default_identity in the vault block of each\n"+
			"server, then register the jobs again.\n", e.Bold("Jobs Without Workload Identity for Vault"), term.Table(rows))
	}
	if len(r.OutdatedNodes) > 0 {
		if len(r.JobsWithoutVaultIdentity) > 0 {
			e.Println()
		}
		rows := []string{"ID|Name|Datacenter|Version|Drain|Eligibility|Status"}
		for _, n := range r.OutdatedNodes {
			rows = append(rows, term.Row(o.detail.ID(n.ID), n.Name, n.Datacenter, n.Version, n.Drain, n.SchedulingEligibility, n.Status))
		}
		e.Printf("%s\n%s\nThese nodes cannot log in to Vault with workload identities. Upgrade their agents.\n",
			e.Bold("Outdated Nodes"), term.Table(rows))
	}
	return term.Exit(1)
}
