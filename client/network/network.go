// Package network connects the network namespaces of allocations: to the bridge of the node, or to
// a network of a CNI configuration. Namespaces are created by client/netns, or by a driver. A Set
// has the networks of a node.
//
//	(none) ──Connect──▶ adding ──plugins──▶ connected ──Disconnect──▶ (none)
//	                      └──crash──▶ the next agent removes what exists, and adds again
//
//	<dir>/               0700, of the client's state directory
//	  <alloc id>.lock    held during an operation, by the agent and by the plugins that it runs
//	  <alloc id>.json    written before the first plugin runs, removed after the last
//	  results/           the cache of the CNI library
//
// The record of an allocation holds the configuration with which its network was made, so that it is
// removed with the same one. If the plugins cannot remove a network, or an agent died while they
// added it, the package removes their rules and addresses itself (scrub.go).
//
// The operations of one allocation run one after another: they hold its lock file, which plugins inherit, so that
// the next agent does not interfere with a plugin of a killed one. Operations of different allocations run at the same
// time, since a plugin may hang. What they share has locks of its own: host-local locks its directory, iptables waits
// for its own lock (-w), nftables changes are made under that of the guard, and Set.shared serializes the rules for
// the whole bridge. At most maxPlugins operations of one network run plugins at once.
//
// A port of the node is mapped only if nothing else receives on it (ports.go). Watch restores the rules of isolated
// allocations that others have removed (guard.go). The package starts no goroutine that outlives a call.
package network

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/netip"
	"os"
	"sync"
	"time"

	"github.com/containernetworking/cni/libcni"
	"github.com/open-nomad/open-nomad/client/cni"
	"github.com/open-nomad/open-nomad/internal/safefs"
	"github.com/open-nomad/open-nomad/nomad"
)

// Limits of one operation.
const (
	maxPlugins   = 8 // operations of one network at once
	slotTimeout  = 2 * time.Minute
	scrubTimeout = 20 * time.Second
)

// Limits are time limits; zero values are the defaults.
type Limits struct {
	Add    time.Duration // of the plugins that add a network, 60 s
	Delete time.Duration // of those that remove it, 20 s
	Check  time.Duration // of those that check it, 10 s
	Lock   time.Duration // for a plugin of an earlier agent, 20 s
	Port   time.Duration // until a port is free, 5 s
}

func (l *Limits) complete() {
	for _, v := range []struct {
		value *time.Duration
		unset time.Duration
	}{{&l.Add, time.Minute}, {&l.Delete, 20 * time.Second}, {&l.Check, 10 * time.Second}, {&l.Lock, 20 * time.Second},
		{&l.Port, 5 * time.Second}} {
		if *v.value <= 0 {
			*v.value = v.unset
		}
	}
}

// Config configures a Set.
type Config struct {
	Dir       string   // of the client only
	Plugins   []string // directories of plugins, cni.PluginDirs
	ConfigDir string   // of CNI configurations
	Bridge    Bridge
	// AllAddresses maps ports on every address of the node, not only on that of the allocation.
	AllAddresses bool
	// Check lets plugins check the network of an earlier agent. Those before version 1.3.0 cannot.
	Check bool
	// AgentPorts are never mapped: they are those of the agent itself.
	AgentPorts []int
	Limits     Limits
	Log        *slog.Logger
}

// Bridge is the bridge of the node. Subnet6 may be invalid: then there is no IPv6.
type Bridge struct {
	Name             string
	Subnet, Subnet6  netip.Prefix
	Hairpin, Isolate bool
}

// Request is an allocation with its network.
type Request struct {
	Alloc   *nomad.Allocation
	Network *nomad.NetworkResource
	Region  string
	Path    string // of the network namespace
}

// Set connects the allocations of one client. Its methods may be called concurrently.
type Set struct {
	cfg   Config
	guard *guard

	shared    chan struct{} // has a value while rules of the whole bridge change, or records are read
	portsRead bool          // guarded by shared

	mu    sync.Mutex
	turns map[string]*turn         // by allocation
	slots map[string]chan struct{} // by network
	ports map[string][]portMapping // by allocation: what is mapped, or will be
	peers map[netip.Addr]peer
}

// New returns a Set.
func New(cfg Config) *Set {
	cfg.Limits.complete()
	return &Set{cfg: cfg, guard: newGuard(), shared: make(chan struct{}, 1), turns: map[string]*turn{},
		slots: map[string]chan struct{}{}, ports: map[string][]portMapping{}, peers: map[netip.Addr]peer{}}
}

// Connect connects the namespace of an allocation. The network of an earlier agent is kept if it
// works.
func (s *Set) Connect(ctx context.Context, r Request) (status *nomad.AllocNetworkStatus, err error) {
	err = s.operate(ctx, r.Alloc.ID, func(o *operation) error {
		old, err := load(o.dir, r.Alloc.ID)
		if err != nil {
			return err
		}
		if old != nil && old.Status != nil {
			err := s.notOwn(old.Ports) // the agent's ports may have changed
			if err == nil {
				err = o.verify(ctx, old, r.Path)
			}
			if err == nil {
				status = old.Status
				return s.isolate(old)
			}
			s.cfg.Log.Warn("replace the network of an allocation", "alloc", r.Alloc.ID, "err", err)
		}
		if old != nil {
			s.removePeer(r.Alloc.ID)
			if err := o.disconnect(ctx, old); err != nil {
				return err
			}
		}
		status, err = o.connect(ctx, &r)
		return err
	})
	if err == nil {
		s.addPeer(&r, status)
	}
	return status, err
}

// Disconnect removes the network of an allocation. It does nothing without one. The namespace still
// exists.
func (s *Set) Disconnect(ctx context.Context, alloc string) error {
	s.removePeer(alloc)
	if _, err := os.Stat(s.cfg.Dir); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return s.operate(ctx, alloc, func(o *operation) error {
		old, err := load(o.dir, alloc)
		if err != nil || old == nil {
			return err
		}
		return o.disconnect(ctx, old)
	})
}

// Allocations returns the allocations that have a network, or whose network is not completely removed.
func (s *Set) Allocations() ([]string, error) {
	d, err := safefs.Open(s.cfg.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list networks of allocations: %w", err)
	}
	defer d.Close()
	return recorded(d)
}

// library returns the CNI library.
func (o *operation) library() *libcni.CNIConfig {
	return libcni.NewCNIConfigWithCacheDir(o.cfg.Plugins, o.cfg.Dir, &cni.Exec{LockFile: o.lockFile})
}
