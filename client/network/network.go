// Package network connects the network namespaces of allocations: to the bridge of the node, or to
// a network of a CNI configuration. Namespaces are created by client/netns, or by a driver. A Set
// has the networks of a node.
//
//	(none) ──Connect──▶ adding ──plugins──▶ connected ──Disconnect──▶ (none)
//	                      └──crash──▶ the next agent removes what exists, and adds again
//
//	<dir>/               0700, of the client's state directory
//	  lock               held by an agent and by the plugins that it runs
//	  <alloc id>.json    written before the first plugin runs, removed after the last
//	  results/           the cache of the CNI library
//
// The record of an allocation holds the configuration with which its network was made, so that it is
// removed with the same one. If the plugins cannot remove a network, or an agent died while they
// added it, the package removes their rules and addresses itself (scrub.go).
//
// One CNI operation runs at a time, as plugins change rules and addresses that allocations share. Watch
// restores the rules of isolated allocations that others have removed (guard.go). The package starts no
// goroutine that outlives a call.
package network

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"sync"
	"time"

	"github.com/containernetworking/cni/libcni"
	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/client/cni"
	"github.com/open-nomad/open-nomad/internal/safefs"
	"github.com/open-nomad/open-nomad/nomad"
)

// Limits of one operation.
const (
	operationTimeout = 60 * time.Second
	lockTimeout      = 20 * time.Second
	lockPoll         = 10 * time.Millisecond
)

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
	Log   *slog.Logger
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

	mu   sync.Mutex // held during an operation, which changes what allocations share
	held *os.File   // the lock file, nil before the first operation
}

// New returns a Set.
func New(cfg Config) *Set { return &Set{cfg: cfg, guard: newGuard()} }

// Connect connects the namespace of an allocation. The network of an earlier agent is kept if it
// works.
func (s *Set) Connect(ctx context.Context, r Request) (status *nomad.AllocNetworkStatus, err error) {
	err = s.operation(ctx, func(ctx context.Context, d *safefs.Dir) error {
		old, err := load(d, r.Alloc.ID)
		if err != nil {
			return err
		}
		if old != nil && old.Status != nil {
			err := s.verify(ctx, old, r.Path)
			if err == nil {
				status = old.Status
				return s.isolate(old)
			}
			s.cfg.Log.Warn("replace the network of an allocation", "alloc", r.Alloc.ID, "err", err)
		}
		if old != nil {
			if err := s.disconnect(ctx, d, old); err != nil {
				return err
			}
		}
		status, err = s.connect(ctx, d, &r)
		return err
	})
	return status, err
}

// Disconnect removes the network of an allocation. It does nothing without one. The namespace still
// exists.
func (s *Set) Disconnect(ctx context.Context, alloc string) error {
	if _, err := os.Stat(s.cfg.Dir); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return s.operation(ctx, func(ctx context.Context, d *safefs.Dir) error {
		old, err := load(d, alloc)
		if err != nil || old == nil {
			return err
		}
		return s.disconnect(ctx, d, old)
	})
}

// Sweep removes the networks of all allocations that keep does not select.
func (s *Set) Sweep(ctx context.Context, keep func(alloc string) bool) error {
	if _, err := os.Stat(s.cfg.Dir); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	d, err := safefs.Open(s.cfg.Dir)
	if err != nil {
		return fmt.Errorf("list networks of allocations: %w", err)
	}
	defer d.Close()
	ids, err := recorded(d)
	errs := []error{err}
	for _, id := range ids {
		if !keep(id) {
			errs = append(errs, s.Disconnect(ctx, id))
		}
	}
	return errors.Join(errs...)
}

// operation calls do while no other operation runs, also of plugins that an earlier agent started.
func (s *Set) operation(ctx context.Context, do func(context.Context, *safefs.Dir) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, operationTimeout)
	defer cancel()
	if err := os.MkdirAll(s.cfg.Dir, 0o700); err != nil {
		return fmt.Errorf("create the directory of networks: %w", err)
	}
	d, err := safefs.Open(s.cfg.Dir)
	if err != nil {
		return fmt.Errorf("open the directory of networks: %w", err)
	}
	defer d.Close()
	if err := s.lock(ctx, d); err != nil {
		return err
	}
	return do(ctx, d)
}

// lock takes the lock file, once. Plugins inherit it, so that the next agent waits for their end.
func (s *Set) lock(ctx context.Context, d *safefs.Dir) error {
	if s.held != nil {
		return nil
	}
	f, err := d.Append(lockName, 0o600)
	if err != nil {
		return fmt.Errorf("lock networks: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, lockTimeout)
	defer cancel()
	for {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			s.held = f
			return nil
		}
		select {
		case <-time.After(lockPoll):
		case <-ctx.Done():
			f.Close()
			return fmt.Errorf("lock networks: another agent, or a CNI plugin of an earlier one, still runs: %w", err)
		}
	}
}

// Close releases the lock, for another Set of the directory.
func (s *Set) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.held == nil {
		return nil
	}
	err := s.held.Close()
	s.held = nil
	return err
}

// library returns the CNI library.
func (s *Set) library() *libcni.CNIConfig {
	return libcni.NewCNIConfigWithCacheDir(s.cfg.Plugins, s.cfg.Dir, &cni.Exec{Held: s.held})
}
