package agent

import (
	"context"
	"net/netip"

	"github.com/open-nomad/open-nomad/command/agent/consulapi"
	"github.com/open-nomad/open-nomad/internal/version"
	"github.com/open-nomad/open-nomad/nomad/monitor"
)

// runConsulAPI serves the Consul API of the client until ctx ends.
func (a *Agent) runConsulAPI(ctx context.Context) error {
	a.awaitRestore(ctx)
	return consulapi.New(consulapi.Config{
		Address: a.set.Client.ConsulAPI.Address, RPC: a, Callers: a, Region: a.set.Region, Datacenter: a.set.Datacenter,
		NodeID: a.client.NodeID(), NodeName: a.set.Name, Version: version.Number, Revision: version.Commit(),
		ACL: a.set.ACL.Enabled, Audit: a.audit, Log: a.log.With(monitor.ModuleKey, "consul_api"),
	}).Serve(ctx)
}

// consulPort returns the port of the Consul API, 0 if it is not enabled.
func (a *Agent) consulPort() int {
	at, err := netip.ParseAddrPort(a.set.Client.ConsulAPI.Address)
	if err != nil {
		return 0 // the configuration was checked: the address is empty
	}
	return int(at.Port())
}
