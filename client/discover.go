package client

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/open-nomad/open-nomad/client/servers"
)

const (
	// discoverEvery is the shortest time between two searches for servers.
	discoverEvery = 3 * time.Second
	// discoverWithin limits a search.
	discoverWithin = 10 * time.Second
)

// discovery is the state of the searches for servers.
type discovery struct {
	mu      sync.Mutex
	running bool
	last    time.Time // start of the last search
	found   []string  // by it
	failed  bool      // it found nothing
}

// begin reports whether a search is due, and marks it as running.
func (d *discovery) begin() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.running || time.Since(d.last) < discoverEvery {
		return false
	}
	d.running, d.last = true, time.Now()
	return true
}

// end records the result of a search, and reports whether it differs from the one before.
func (d *discovery) end(found []string, failed bool) (changed bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	changed = d.failed != failed || !slices.Equal(d.found, found)
	d.running, d.found, d.failed = false, found, failed
	return changed
}

// discover searches for servers in the background if err means that no server was reached. Calls use those that it finds.
// The heartbeat goes on meanwhile, since a known server may answer again before Consul does.
func (c *Client) discover(ctx context.Context, err error) {
	var unreachable *servers.Unreachable
	if c.remote == nil || c.cfg.Consul.FindServers == nil || !errors.Is(err, servers.ErrNone) && !errors.As(err, &unreachable) {
		return
	}
	if c.discovery.begin() {
		c.background.Go(func() { c.search(ctx) })
	}
}

// search searches once. It logs a result that differs from the one before.
func (c *Client) search(ctx context.Context) {
	searching, cancel := context.WithTimeout(ctx, discoverWithin)
	defer cancel()
	addrs, err := c.cfg.Consul.FindServers(searching)
	changed := c.discovery.end(addrs, err != nil)
	switch {
	case ctx.Err() != nil:
	case err == nil:
		c.remote.Found(addrs)
		if changed {
			c.log.Info("found servers in Consul", "addrs", addrs)
		}
	case changed:
		c.log.Warn("find servers in Consul, again every 3 s", "err", err)
	}
}
