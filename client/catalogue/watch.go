package catalogue

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/open-nomad/open-nomad/internal/backoff"
	"github.com/open-nomad/open-nomad/nomad/message"
)

// watchMethod is the method of the servers.
const watchMethod = "ServiceRegistration.Watch"

// Limits of the calls to the servers.
const (
	maxWait     = time.Minute      // of a blocking call
	callTimeout = 10 * time.Second // of a call that does not block, and of the answer of one that blocks
	// settle is the time during which further new names are awaited before the blocking call is made again.
	settle     = time.Second
	retryMin   = 100 * time.Millisecond
	retryMax   = 5 * time.Second
	fetchRetry = 2 * time.Second // maximum, while callers get errors
)

// Run fetches new names and keeps all names fresh until ctx ends.
func (c *Cache) Run(ctx context.Context) error {
	var duties sync.WaitGroup
	duties.Go(func() { c.fetchNew(ctx) })
	duties.Go(func() { c.follow(ctx) })
	duties.Wait()
	return ctx.Err()
}

// fetchNew fetches the names without an answer until ctx ends.
func (c *Cache) fetchNew(ctx context.Context) {
	delay := backoff.Backoff{Min: retryMin, Max: fetchRetry}
	for {
		select {
		case <-ctx.Done():
			return
		case <-c.pending:
		}
		for {
			names := c.unanswered()
			if len(names) == 0 {
				break
			}
			err := c.call(ctx, names, 0)
			c.mu.Lock()
			c.failing = err != nil
			c.mu.Unlock()
			if err == nil {
				delay.Reset()
				c.changed.Send()
				continue
			}
			if ctx.Err() != nil || delay.Wait(ctx) != nil {
				return
			}
		}
	}
}

// follow makes the blocking call again and again until ctx ends. A failure is logged once, until a call succeeds.
func (c *Cache) follow(ctx context.Context) {
	delay, failed := backoff.Backoff{Min: retryMin, Max: retryMax}, false
	for ctx.Err() == nil {
		names := c.known()
		if len(names) == 0 {
			select {
			case <-ctx.Done():
			case <-c.changed:
			}
			continue
		}
		restarted, err := c.watch(ctx, names)
		switch {
		case ctx.Err() != nil:
			return
		case err == nil:
			if failed {
				c.cfg.Log.Info("the service catalog is up to date again")
			}
			failed = false
			delay.Reset()
		case !restarted:
			if !failed {
				c.cfg.Log.Warn("watch the service catalog: the last answers are used", "max_stale", c.cfg.MaxStale, "err", err)
			}
			failed = true
			if delay.WaitJitter(ctx) != nil {
				return
			}
		}
	}
}

// watch makes one blocking call. restarted reports whether it was ended because the names changed.
func (c *Cache) watch(ctx context.Context, names []message.ServiceVersion) (restarted bool, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	var ender sync.WaitGroup
	ender.Go(func() {
		select {
		case <-ctx.Done():
			return
		case <-c.changed:
		}
		if backoff.Sleep(ctx, settle) != nil {
			c.changed.Send() // for the next call, unless that has the names already
			return
		}
		cancel(errRestart)
	})
	err = c.call(ctx, names, min(maxWait, c.cfg.MaxStale/2))
	restarted = errors.Is(context.Cause(ctx), errRestart)
	cancel(nil)
	ender.Wait()
	return restarted, err
}

// errRestart ends a blocking call whose names are outdated.
var errRestart = errors.New("the names changed")

// call asks the servers and records the answer. wait is the time that the servers may block; zero does not block,
// since the names have no version.
func (c *Cache) call(ctx context.Context, names []message.ServiceVersion, wait time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, wait+wait/16+callTimeout)
	defer cancel()
	req := &message.ServiceWatchRequest{Services: names}
	req.AllowStale, req.MaxQueryTime = true, wait
	var resp message.ServiceWatchResponse
	if err := c.cfg.Servers.Call(ctx, watchMethod, req, &resp); err != nil {
		return err
	}
	if !resp.KnownLeader {
		return errors.New("the server has no leader")
	}
	// A server leaves services out of a large answer. The next call returns them.
	if c.record(names, &resp) == len(names) {
		return errors.New("the answer has none of the services")
	}
	return nil
}

// record stores the changes of an answer. All names of the request are as fresh as the answering server. It returns the
// number of new names that the answer lacks.
func (c *Cache) record(names []message.ServiceVersion, resp *message.ServiceWatchResponse) (missing int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range resp.Services {
		if e := c.entries[name{s.Namespace, s.Name}]; e != nil {
			c.set(e, s)
		}
	}
	at := time.Now().Add(-resp.LastContact)
	for _, n := range names {
		e := c.entries[name{n.Namespace, n.Name}]
		if e == nil {
			continue // evicted
		}
		if e.version == "" {
			missing++
			continue
		}
		if e.answered.IsZero() {
			close(e.ready)
		}
		e.answered = at
	}
	return missing
}
