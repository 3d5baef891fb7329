package httpapi

import (
	"github.com/open-nomad/open-nomad/command/agent/httpapi/web"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/message"
)

// vaultRoutes returns the route with which operators find what cannot use Vault by workload identity.
func vaultRoutes() []web.Route {
	return []web.Route{{Methods: "GET", Path: "/v1/operator/upgrade-check/vault-workload-identity",
		Handle: web.Read("Operator.UpgradeCheckVaultWorkloadIdentity", web.NoFields[message.UpgradeCheckVaultWorkloadIdentityRequest], vaultReadiness)}}
}

// readiness is the body of the answer.
type readiness struct {
	JobsWithoutVaultIdentity []*nomad.JobListStub
	OutdatedNodes            []*nomad.NodeListStub
	VaultTokens              []*struct{} // null: servers have no tokens of tasks
}

// vaultReadiness returns the body. Its lists are [] if they are empty: the codec of RPC has no empty list.
func vaultReadiness(o *message.UpgradeCheckVaultWorkloadIdentityResponse) (any, error) {
	return readiness{append([]*nomad.JobListStub{}, o.JobsWithoutVaultIdentity...), append([]*nomad.NodeListStub{}, o.OutdatedNodes...), nil}, nil
}
