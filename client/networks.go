package client

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/go-version"

	"github.com/open-nomad/open-nomad/client/netns"
	"github.com/open-nomad/open-nomad/client/network"
	"github.com/open-nomad/open-nomad/client/taskenv"
	"github.com/open-nomad/open-nomad/internal/untrusted"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/jobrules"
)

// removeTimeout limits the removal of the network that an earlier agent has left for one allocation.
const removeTimeout = 3 * time.Minute

// checkVersion is the first version of the bridge plugin whose check is reliable.
var checkVersion = version.Must(version.NewVersion("1.3.0"))

// connections connects the networks of allocations, for their hooks.
type connections struct {
	*network.Set
	region string
	node   func() *nomad.Node
	spaces *netns.Set
	left   *leftovers
}

// openNetworks prepares the networks of allocations. It is called again once the node is
// fingerprinted, before any allocation runs.
func (c *Client) openNetworks() {
	cfg := c.cfg.Networks
	cfg.AgentPorts = c.cfg.Fingerprint.Reserved.Agent
	cfg.Dir, cfg.Log = filepath.Join(c.cfg.StateDir, "network"), c.log
	if v, err := untrusted.Version(c.node.copy().Attributes["plugins.cni.version.bridge"]); err == nil {
		cfg.Check = v.GreaterThanOrEqual(checkVersion)
	}
	c.connections = &connections{Set: network.New(cfg), region: c.cfg.Region, node: c.node.copy, spaces: c.nets}
	c.connections.left = newLeftovers(c.connections.removeLeft, c.log)
}

// findLeft finds the networks and network namespaces of all other allocations. They are removed in the background.
func (c *Client) findLeft(allocs []*nomad.Allocation) {
	held := map[string]bool{}
	for _, a := range allocs {
		held[a.ID] = true
	}
	connected, err := c.connections.Allocations()
	if err != nil {
		c.log.Warn("find networks of an earlier agent", "err", err)
	}
	spaces, err := c.nets.Allocations()
	if err != nil {
		c.log.Warn("find network namespaces of an earlier agent", "err", err)
	}
	for _, id := range slices.Concat(connected, spaces) {
		if !held[id] {
			c.connections.left.add(id)
		}
	}
}

// removeLeft removes the network and the network namespace of an allocation that does not exist.
func (c *connections) removeLeft(ctx context.Context, alloc string) error {
	ctx, cancel := context.WithTimeout(ctx, removeTimeout)
	defer cancel()
	if err := c.Set.Disconnect(ctx, alloc); err != nil {
		return err
	}
	return c.spaces.Remove(alloc)
}

// Make implements allochook.Networks.
func (c *connections) Make(ctx context.Context, alloc string) (path string, err error) {
	if err := c.left.take(ctx, alloc); err != nil {
		return "", err
	}
	return c.spaces.Make(alloc)
}

// Remove implements allochook.Networks.
func (c *connections) Remove(alloc string) error { return c.spaces.Remove(alloc) }

// Disconnect implements allochook.Connections. A network that cannot be removed is tried again later.
func (c *connections) Disconnect(ctx context.Context, alloc string) error {
	err := c.Set.Disconnect(ctx, alloc)
	if err != nil {
		c.left.add(alloc)
	}
	return err
}

// Connect implements allochook.Connections.
func (c *connections) Connect(ctx context.Context, a *nomad.Allocation, n *nomad.NetworkResource, path string) (*nomad.AllocNetworkStatus, error) {
	if err := c.left.take(ctx, a.ID); err != nil { // of a driver that makes the namespace
		return nil, err
	}
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
