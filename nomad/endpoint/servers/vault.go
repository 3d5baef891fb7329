package servers

import (
	"context"
	"slices"

	memdb "github.com/hashicorp/go-memdb"

	"github.com/open-nomad/open-nomad/internal/untrusted"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/endpoint/handler"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rpc"
	"github.com/open-nomad/open-nomad/nomad/state"
	"github.com/open-nomad/open-nomad/nomad/vault"
)

// leastIdentities is the first version of clients that log in to Vault by identity, with its prereleases.
const leastIdentities = "1.7.0-a"

// CheckVaultIdentities returns the jobs and nodes of all namespaces that cannot use Vault by workload identity.
func (s *Service) CheckVaultIdentities(ctx context.Context, _ *rpc.Call,
	req *message.UpgradeCheckVaultWorkloadIdentityRequest) (*message.UpgradeCheckVaultWorkloadIdentityResponse, error) {
	least, err := untrusted.Version(leastIdentities)
	if err != nil {
		return nil, err
	}
	return handler.Read(ctx, s.Core, &req.QueryOptions,
		func(snap *state.Snapshot, ws memdb.WatchSet, out *message.UpgradeCheckVaultWorkloadIdentityResponse) error {
			out.Index = snap.TableIndex(state.TableJobs, state.TableNodes)
			out.JobsWithoutVaultIdentity, out.OutdatedNodes = []*nomad.JobListStub{}, []*nomad.NodeListStub{}
			for j := range snap.Jobs(ws) {
				if !j.Stopped() && withoutVaultIdentity(j) {
					out.JobsWithoutVaultIdentity = append(out.JobsWithoutVaultIdentity, j.Stub(snap.JobSummary(ws, j.Namespace, j.ID), nil))
				}
			}
			for n := range snap.Nodes(ws) {
				if v, err := untrusted.Version(n.Attributes["nomad.version"]); err != nil || v.LessThan(least) {
					out.OutdatedNodes = append(out.OutdatedNodes, n.Stub(nil))
				}
			}
			return nil
		})
}

// withoutVaultIdentity reports whether a task of a job has a vault block and no identity for Vault.
func withoutVaultIdentity(j *nomad.Job) bool {
	lacks := func(t *nomad.Task) bool {
		return t != nil && t.Vault != nil && !slices.ContainsFunc(t.Identities, func(id *nomad.WorkloadIdentity) bool {
			return id != nil && vault.IsIdentity(id.Name)
		})
	}
	return slices.ContainsFunc(j.TaskGroups, func(tg *nomad.TaskGroup) bool { return tg != nil && slices.ContainsFunc(tg.Tasks, lacks) })
}
