package network

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/go-metrics"

	"github.com/open-nomad/open-nomad/client/netfilter"
	"github.com/open-nomad/open-nomad/internal/every"
)

// watchEvery is the interval of the checks whether the rules exist.
const watchEvery = 2 * time.Second

// guard writes the rules of isolated allocations and restores them. An administrator can remove them, as with `nft flush
// ruleset`. Its lock is held during changes of nftables, which take milliseconds, so that a slow CNI plugin does not
// delay a restoration.
type guard struct {
	mu       sync.Mutex
	isolated map[string]map[string]*netfilter.Allocation // by bridge and allocation ID
	failed   map[string]string                           // the last error by bridge
	intact   uint32                                      // the generation of nftables in which nothing was missing
}

func newGuard() *guard {
	return &guard{isolated: map[string]map[string]*netfilter.Allocation{}, failed: map[string]string{}}
}

// protect writes the rules of an allocation.
func (g *guard) protect(bridge string, a *netfilter.Allocation) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if err := netfilter.New(bridge).Protect(a); err != nil {
		return err
	}
	if g.isolated[bridge] == nil {
		g.isolated[bridge] = map[string]*netfilter.Allocation{}
	}
	g.isolated[bridge][a.ID] = a
	return nil
}

// remove removes the rules of an allocation.
func (g *guard) remove(bridge, alloc string) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if err := netfilter.New(bridge).Remove(alloc); err != nil {
		return err
	}
	delete(g.isolated[bridge], alloc)
	return nil
}

// Watch checks every 2 seconds whether the rules of the isolated allocations exist, until ctx ends. It restores, logs
// and counts what others have removed.
func (s *Set) Watch(ctx context.Context) error {
	return every.Tick(ctx, watchEvery, func() { s.guard.check(s.cfg.Log) })
}

// check restores missing rules, unless nftables is unchanged since the last check.
func (g *guard) check(log *slog.Logger) {
	g.mu.Lock()
	defer g.mu.Unlock()
	generation, err := netfilter.Generation()
	if err == nil && generation == g.intact {
		return
	}
	intact := err == nil
	for bridge, isolated := range g.isolated {
		if len(isolated) > 0 && !g.complete(bridge, isolated, log) {
			intact = false
		}
	}
	if intact {
		g.intact = generation
	}
}

// complete reports whether all rules of a bridge exist. It restores them if not.
func (g *guard) complete(bridge string, isolated map[string]*netfilter.Allocation, log *slog.Logger) bool {
	missing, err := restore(netfilter.New(bridge), slices.Collect(maps.Values(isolated)))
	if err != nil {
		if g.failed[bridge] != err.Error() { // logged once
			log.Error("keep allocations isolated", "bridge", bridge, "missing", missing, "err", err)
		}
		g.failed[bridge] = err.Error()
		return false
	}
	delete(g.failed, bridge)
	if missing == "" {
		return true
	}
	log.Warn("restored nftables rules that isolate allocations: another program had removed them", "bridge", bridge,
		"allocs", len(isolated), "missing", missing)
	metrics.IncrCounter([]string{"client", "network", "isolation_restored"}, 1)
	return false
}

// restore returns the first part that was missing, "" for none.
func restore(firewall *netfilter.Firewall, all []*netfilter.Allocation) (missing string, err error) {
	missing, err = firewall.Missing(all)
	if err == nil && missing != "" {
		err = firewall.Restore(all)
	}
	return missing, err
}
