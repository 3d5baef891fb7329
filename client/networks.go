package client

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/hashicorp/go-version"

	"github.com/open-nomad/open-nomad/client/network"
	"github.com/open-nomad/open-nomad/client/taskenv"
	"github.com/open-nomad/open-nomad/internal/untrusted"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/jobrules"
)

// sweepTimeout limits the removal of the networks of an earlier agent.
const sweepTimeout = 2 * time.Minute

// checkVersion is the first version of the bridge plugin whose check is reliable.
var checkVersion = version.Must(version.NewVersion("1.3.0"))

// connections connects the networks of allocations, for their hooks.
type connections struct {
	*network.Set
	region string
	node   func() *nomad.Node
}

// openNetworks prepares the networks of allocations. It is called again once the node is
// fingerprinted, before any allocation runs.
func (c *Client) openNetworks() {
	cfg := c.cfg.Networks
	cfg.Dir, cfg.Log = filepath.Join(c.cfg.StateDir, "network"), c.log
	if v, err := untrusted.Version(c.node.copy().Attributes["plugins.cni.version.bridge"]); err == nil {
		cfg.Check = v.GreaterThanOrEqual(checkVersion)
	}
	c.connections = &connections{Set: network.New(cfg), region: c.cfg.Region, node: c.node.copy}
}

// Connect implements allochook.Connections.
func (c *connections) Connect(ctx context.Context, a *nomad.Allocation, n *nomad.NetworkResource, path string) (*nomad.AllocNetworkStatus, error) {
	ask := *n
	if n.DNS != nil {
		ask.DNS = &nomad.DNSConfig{Servers: c.expand(a, n.DNS.Servers), Searches: c.expand(a, n.DNS.Searches), Options: c.expand(a, n.DNS.Options)}
	}
	return c.Set.Connect(ctx, network.Request{Alloc: a, Network: &ask, Region: c.region, Path: path})
}

// Hostname implements allochook.Connections.
func (c *connections) Hostname(a *nomad.Allocation, n *nomad.NetworkResource) (string, error) {
	name := c.expand(a, []string{n.Hostname})[0]
	if strings.Contains(name, "${") || !jobrules.ValidHostname(name) {
		return "", fmt.Errorf("hostname %q of the network is not a DNS name on this node: change the hostname, or the value that it refers to", name)
	}
	return name, nil
}

// expand interpolates references to the node and the allocation.
func (c *connections) expand(a *nomad.Allocation, list []string) []string {
	env := taskenv.New(taskenv.Subject{Node: c.node(), Region: c.region, Alloc: a, Task: &nomad.Task{}}).Build()
	out := make([]string, len(list))
	for i, s := range list {
		out[i] = env.Expand(s)
	}
	return out
}
