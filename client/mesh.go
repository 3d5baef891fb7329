package client

import (
	"github.com/open-nomad/open-nomad/client/connect"
	"github.com/open-nomad/open-nomad/internal/connlimit"
	"github.com/open-nomad/open-nomad/internal/consul"
)

// openMesh creates what the allocations in the service mesh of Consul share. It is nil on a node without Consul.
func (c *Client) openMesh(Parts) error {
	for _, agent := range c.cfg.Consul.Agents {
		if agent.Name() != consul.DefaultCluster {
			continue
		}
		limit, err := connlimit.Share(connect.SocketConns)
		c.mesh = &connect.Node{Agent: agent, Limit: limit,
			Attribute: func(name string) string { return c.node.current().Attributes[name] }}
		return err
	}
	return nil
}
