package httpapi

import (
	"github.com/open-nomad/open-nomad/command/agent/httpapi/web"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/message"
)

// vaultRoutes returns the route that lists jobs and nodes which are not ready to use Vault with workload identities.
func vaultRoutes() []web.Route {
	fields := web.NoFields[message.UpgradeCheckVaultWorkloadIdentityRequest]
	return []web.Route{{Methods: "GET", Path: "/v1/operator/upgrade-check/vault-workload-identity",
		Handle: web.Read("Operator.UpgradeCheckVaultWorkloadIdentity", fields, vaultReadiness)}}
}

// readiness is the body of the answer.
type readiness struct {
	JobsWithoutVaultIdentity []*nomad.JobListStub
	OutdatedNodes            []*nomad.NodeListStub
	VaultTokens              []*struct{} // null: servers have no tokens of tasks
}

// vaultReadiness returns the body. Its lists are [] if they are empty: the codec of RPC has no empty list.
func vaultReadiness(o *message.UpgradeCheckVaultWorkloadIdentityResponse) (any, error) {
	jobs, nodes := append([]*nomad.JobListStub{}, o.JobsWithoutVaultIdentity...), append([]*nomad.NodeListStub{}, o.OutdatedNodes...)
	return readiness{jobs, nodes, nil}, nil
}
