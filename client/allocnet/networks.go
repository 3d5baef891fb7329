// Package allocnet connects the networks of a node's allocations for their hooks, and removes the networks that an earlier
// agent, or a plugin that failed, has left on the node (leftovers.go). client/network talks to the plugins.
//
// Networks.Run starts its goroutines.
package allocnet

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/go-version"
	"golang.org/x/sync/errgroup"

	"github.com/open-nomad/open-nomad/client/netns"
	"github.com/open-nomad/open-nomad/client/network"
	"github.com/open-nomad/open-nomad/internal/untrusted"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/jobrules"
	"github.com/open-nomad/open-nomad/nomad/taskenv"
)

// removeTimeout limits the removal of the network that an earlier agent has left for one allocation.
const removeTimeout = 3 * time.Minute

// checkVersion is the first version of the bridge plugin whose check is reliable.
var checkVersion = version.Must(version.NewVersion("1.3.0"))

// Networks connects the networks of allocations, for their hooks.
type Networks struct {
	*network.Set
	cfg       Config
	leftovers *leftovers
}

// Config is the configuration of Networks.
type Config struct {
	// Network configures the networks. New sets its Check and Log.
	Network network.Config
	Region  string
	Node    func() *nomad.Node // the node as it is registered
	Spaces  *netns.Set
	Log     *slog.Logger
}

// New returns the networks of a node that has been fingerprinted.
func New(cfg Config) *Networks {
	cfg.Network.Log = cfg.Log
	if v, err := untrusted.Version(cfg.Node().Attributes["plugins.cni.version.bridge"]); err == nil {
		cfg.Network.Check = v.GreaterThanOrEqual(checkVersion)
	}
	n := &Networks{Set: network.New(cfg.Network), cfg: cfg}
	n.leftovers = newLeftovers(n.removeLeft, cfg.Log)
	return n
}

// Run watches the networks, and removes those that no allocation has, until ctx ends.
func (n *Networks) Run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return n.Watch(ctx) })
	group.Go(func() error { return n.leftovers.Run(ctx) })
	return group.Wait()
}

// Abandon lets Run remove the network of an allocation that does not run.
func (n *Networks) Abandon(alloc string) { n.leftovers.add(alloc) }

// AbandonOthers lets Run remove the networks and network namespaces of all allocations except those.
func (n *Networks) AbandonOthers(allocs []*nomad.Allocation) {
	kept := map[string]bool{}
	for _, a := range allocs {
		kept[a.ID] = true
	}
	connected, err := n.Allocations()
	if err != nil {
		n.cfg.Log.Warn("find networks of an earlier agent", "err", err)
	}
	spaces, err := n.cfg.Spaces.Allocations()
	if err != nil {
		n.cfg.Log.Warn("find network namespaces of an earlier agent", "err", err)
	}
	for _, id := range slices.Concat(connected, spaces) {
		if !kept[id] {
			n.leftovers.add(id)
		}
	}
}

// RemoveAll removes the networks of all allocations now. It reports whether none remains.
func (n *Networks) RemoveAll(ctx context.Context) bool {
	n.AbandonOthers(nil)
	return n.leftovers.removeAll(ctx)
}

// removeLeft removes the network and the network namespace of an allocation that does not exist.
func (n *Networks) removeLeft(ctx context.Context, alloc string) error {
	ctx, cancel := context.WithTimeout(ctx, removeTimeout)
	defer cancel()
	if err := n.Set.Disconnect(ctx, alloc); err != nil {
		return err
	}
	return n.cfg.Spaces.Remove(alloc)
}

// Make implements allochook.Networks.
func (n *Networks) Make(ctx context.Context, alloc string) (path string, err error) {
	if err := n.leftovers.take(ctx, alloc); err != nil {
		return "", err
	}
	return n.cfg.Spaces.Make(alloc)
}

// Remove implements allochook.Networks.
func (n *Networks) Remove(alloc string) error { return n.cfg.Spaces.Remove(alloc) }

// Disconnect implements allochook.Connections. A network that cannot be removed is tried again later.
func (n *Networks) Disconnect(ctx context.Context, alloc string) error {
	err := n.Set.Disconnect(ctx, alloc)
	if err != nil {
		n.leftovers.add(alloc)
	}
	return err
}

// Connect implements allochook.Connections.
func (n *Networks) Connect(ctx context.Context, a *nomad.Allocation, spec *nomad.NetworkResource, path string) (
	*nomad.AllocNetworkStatus, error) {
	if err := n.leftovers.take(ctx, a.ID); err != nil { // of a driver that makes the namespace
		return nil, err
	}
	expanded := *spec
	if dns := spec.DNS; dns != nil {
		expanded.DNS = &nomad.DNSConfig{Servers: n.expand(a, dns.Servers), Searches: n.expand(a, dns.Searches),
			Options: n.expand(a, dns.Options)}
	}
	return n.Set.Connect(ctx, network.Request{Alloc: a, Network: &expanded, Region: n.cfg.Region, Path: path})
}

// Hostname implements allochook.Connections.
func (n *Networks) Hostname(a *nomad.Allocation, spec *nomad.NetworkResource) (string, error) {
	name := n.expand(a, []string{spec.Hostname})[0]
	if strings.Contains(name, "${") || !jobrules.ValidHostname(name) {
		return "", fmt.Errorf("hostname %q of the network is not a DNS name on this node: "+
			"change the hostname, or the value that it refers to", name)
	}
	return name, nil
}

// expand interpolates references to the node and the allocation.
func (n *Networks) expand(a *nomad.Allocation, list []string) []string {
	env := taskenv.New(taskenv.Subject{Node: n.cfg.Node(), Region: n.cfg.Region, Alloc: a, Task: &nomad.Task{}}).Build()
	out := make([]string, len(list))
	for i, s := range list {
		out[i] = env.Expand(s)
	}
	return out
}
