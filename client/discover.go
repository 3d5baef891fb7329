package client

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/open-nomad/open-nomad/client/servers"
)

const (
	// discoverEvery is the shortest time between two searches for servers.
	discoverEvery = 3 * time.Second
	// discoverWithin limits a search.
	discoverWithin = 10 * time.Second
)

// discovery is the state of the searches for servers. Only the goroutine that registers the node uses it.
type discovery struct {
	last   time.Time // start of the last search
	found  []string  // by it
	failed bool      // it found nothing
}

// discover searches for servers if err means that no server was reached. The next call uses those that it finds.
func (c *Client) discover(ctx context.Context, err error) {
	var unreachable *servers.Unreachable
	if c.remote == nil || c.cfg.Consul.FindServers == nil || !errors.Is(err, servers.ErrNone) && !errors.As(err, &unreachable) {
		return
	}
	d := &c.discovery
	if time.Since(d.last) < discoverEvery {
		return
	}
	d.last = time.Now()
	searching, cancel := context.WithTimeout(ctx, discoverWithin)
	defer cancel()
	addrs, err := c.cfg.Consul.FindServers(searching)
	switch {
	case ctx.Err() != nil:
		return
	case err != nil:
		if !d.failed {
			c.log.Warn("find servers in Consul, again every 3 s", "err", err)
		}
	default:
		if !slices.Equal(addrs, d.found) {
			c.log.Info("found servers in Consul", "addrs", addrs)
		}
		c.remote.Found(addrs)
	}
	d.found, d.failed = addrs, err != nil
}
