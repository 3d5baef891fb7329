package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"sync"
	"time"

	memdb "github.com/hashicorp/go-memdb"
	"github.com/hashicorp/go-metrics"

	"github.com/open-nomad/open-nomad/internal/backoff"
	"github.com/open-nomad/open-nomad/internal/wake"
	"github.com/open-nomad/open-nomad/nomad/keyring"
	"github.com/open-nomad/open-nomad/nomad/keyring/kms"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rootkey"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// Times for opening root keys with external key management services.
const (
	openFirst   = time.Second // before the second attempt
	openLast    = 5 * time.Second
	openRemind  = 10 * time.Minute // between two log messages about the same failure
	settleFor   = 5 * time.Second  // how long the server waits for the first attempts
	keysMeasure = 10 * time.Second
)

// openRing creates the keyring with the configured wrappers. Active ones wrap new keys, and all
// can unwrap keys. Without any, the built-in wrapper is used.
func (s *Server) openRing() error {
	c := keyring.Config{Log: s.log}
	for _, k := range s.cfg.Keyring {
		var w keyring.Wrapper = keyring.AEAD{Name: k.Name}
		if k.Provider != string(rootkey.KEKProviderAEAD) {
			service, err := kms.New(k, os.Getenv)
			if err != nil {
				return err
			}
			s.services = append(s.services, service)
			w = service
		}
		if k.Active {
			c.Wrappers = append(c.Wrappers, w)
		} else {
			c.Openers = append(c.Openers, w)
		}
	}
	if len(s.cfg.Keyring) > 0 && len(c.Wrappers) == 0 {
		return errors.New("server: no keyring is active: new root keys could not be wrapped")
	}
	s.ring = keyring.New(c)
	return nil
}

// opener opens the root keys in state for the keyring. Each closed key has its own goroutine:
//
//	attempt ──failed──▶ waits 1 s ... 5 s ──▶ attempt ──opened or deleted──▶ done
//
// A service that hangs thus delays only the keys that need it.
type opener struct {
	s      *Server
	wg     sync.WaitGroup
	opened wake.Signal // a key was opened since the last follow

	mu      sync.Mutex
	opening map[string]bool
}

// followKeys keeps the keyring in step with the root keys in state until ctx ends. Signers wait
// in the keyring for their key.
func (s *Server) followKeys(ctx context.Context) error {
	o := &opener{s: s, opened: wake.New(), opening: map[string]bool{}}
	ctx, cancel := context.WithCancel(ctx)
	defer o.wg.Wait()
	defer cancel()
	o.wg.Go(func() { s.measureKeys(ctx) })
	for {
		store := s.fsm.State()
		ws := memdb.NewWatchSet()
		ws.Add(store.Abandoned())
		ws.Add(o.opened)
		o.follow(ctx, store.Snapshot(), ws)
		if err := ws.WatchCtx(ctx); ctx.Err() != nil {
			return err
		}
		select {
		case <-o.opened:
		default:
		}
	}
}

// follow updates the states of all root keys from a snapshot and starts opening the closed
// ones.
func (o *opener) follow(ctx context.Context, snap *state.Snapshot, ws memdb.WatchSet) {
	known := map[string]bool{}
	for k := range snap.RootKeys(ws) {
		known[k.KeyID] = true
		if !o.s.ring.Update(ctx, k) {
			o.begin(ctx, k.KeyID)
		}
	}
	for _, id := range o.s.ring.IDs() {
		if !known[id] {
			o.s.ring.Remove(id)
		}
	}
}

// begin opens a key in the background, unless that is already in progress.
func (o *opener) begin(ctx context.Context, id string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.opening[id] {
		return
	}
	o.opening[id] = true
	o.wg.Go(func() {
		o.open(ctx, id)
		o.mu.Lock()
		delete(o.opening, id)
		o.mu.Unlock()
		o.opened.Send() // its state may have changed in the meantime
	})
}

// open tries to open a key until it is open or deleted, or ctx ends.
func (o *opener) open(ctx context.Context, id string) {
	var said string
	var last time.Time
	again := backoff.Backoff{Min: openFirst, Max: openLast}
	for {
		k := o.s.fsm.State().Snapshot().RootKey(nil, id)
		if k == nil || ctx.Err() != nil {
			return
		}
		err := o.s.ring.Add(ctx, k)
		switch {
		case ctx.Err() != nil:
			return
		case err == nil && said != "":
			o.s.log.Info("opened root key", "key", id, "state", k.State)
			return
		case err == nil:
			return
		case err.Error() != said || time.Since(last) >= openRemind:
			o.s.log.Log(ctx, levelOf(err), "open root key: trying again", "key", id, "state", k.State, "err", err)
			said, last = err.Error(), time.Now()
		}
		if again.Wait(ctx) != nil {
			return
		}
	}
}

// levelOf returns the log level of a failure. A failure that needs an operator is an error.
func levelOf(err error) slog.Level {
	if errors.Is(err, keyring.ErrNoWrapper) {
		return slog.LevelError
	}
	return slog.LevelWarn
}

// settleKeys waits for the first attempts to open the root keys, up to a limit. If a key
// management service is unreachable, the server continues without the keys that need it.
func (s *Server) settleKeys(ctx context.Context) {
	within := settleFor
	if t := s.cfg.StartTimeout; t > 0 {
		within = min(within, t/2)
	}
	limited, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	keys := slices.Collect(s.fsm.State().Snapshot().RootKeys(nil))
	if err := s.ring.Settle(limited, keys); err != nil && ctx.Err() == nil {
		s.log.Warn("continuing before all root keys are open", "err", err)
	}
}

// firstKey creates the first root key of a cluster if that failed at first because a key
// management service was unreachable. It returns when a key exists.
func (s *Server) firstKey(ctx context.Context) error {
	var said string
	again := backoff.Backoff{Min: openFirst, Max: openLast}
	for {
		if s.fsm.State().Snapshot().ActiveRootKey(nil) != nil {
			return nil
		}
		err := s.makeKey(ctx)
		if err == nil || ctx.Err() != nil {
			return err
		}
		if err.Error() != said {
			said = err.Error()
			s.log.Warn("no root key yet, so nothing can be signed: trying again", "err", err)
		}
		if err := again.Wait(ctx); err != nil {
			return err
		}
	}
}

// makeKey creates a root key and writes it to the log.
func (s *Server) makeKey(ctx context.Context) error {
	key, err := s.ring.NewRootKey(ctx, time.Now())
	if err != nil {
		return fmt.Errorf("create a root key: %w", err)
	}
	if err := s.write(ctx, message.WrappedRootKeysUpsertRequestType,
		&message.KeyringUpsertWrappedRootKeyRequest{WrappedRootKeys: key}); err != nil {
		return fmt.Errorf("write the root key: %w", err)
	}
	s.log.Info("created a root key", "key", key.KeyID, "wrapped_by", key.WrappedBy())
	return nil
}

// measureKeys sets the gauges of open and closed keys.
func (s *Server) measureKeys(ctx context.Context) {
	for {
		open, closed := s.ring.Count()
		metrics.SetGauge([]string{"nomad", "keyring", "open"}, float32(open))
		metrics.SetGauge([]string{"nomad", "keyring", "closed"}, float32(closed))
		select {
		case <-ctx.Done():
			return
		case <-time.After(keysMeasure):
		}
	}
}

// asLeader returns a caller for this server's own parts. Calls stay in the process and region.
// While this server is the leader, they use the leader's token unless a call has another.
func (s *Server) asLeader() leaderCaller { return leaderCaller{s} }

type leaderCaller struct{ s *Server }

// Call runs an RPC in process.
func (c leaderCaller) Call(ctx context.Context, method string, req, resp any) error {
	own := c.s.authority.Token()
	switch r := req.(type) {
	case interface{ Write() *message.WriteRequest }:
		w := r.Write()
		w.Region, w.AuthToken = c.s.cfg.Region, cmp.Or(w.AuthToken, own)
	case interface{ Query() *message.QueryOptions }:
		q := r.Query()
		q.Region, q.AuthToken = c.s.cfg.Region, cmp.Or(q.AuthToken, own)
	}
	return c.s.rpc.Call(ctx, method, req, resp)
}
