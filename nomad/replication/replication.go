// Package replication copies the objects that all regions share from the authoritative region.
// These are policies, roles, global tokens, auth methods, binding rules, quotas, namespaces and
// node pools. The leader of every other region runs it.
//
//	list, waiting for a change ─▶ compare with state ─▶ remove deleted objects
//	        ▲                                                │
//	        └── write changed objects ◀── get them ◀─────────┘
//
// A region of Nomad CE has no quotas. Such a kind is reported once and left as it is here; the
// others are replicated.
//
// Each kind has its own goroutine. It compares the hash of an object, or the object itself if
// the list contains it. The token must be a management token: other tokens get filtered lists,
// and the missing objects would be deleted. Local tokens are not replicated.
//
// The package reads snapshots, calls the authoritative region by RPC and writes log entries. It
// has no state of its own and never logs the token.
package replication

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/open-nomad/open-nomad/internal/backoff"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// Limits and intervals of the replication.
const (
	waitFor     = time.Minute // for a change, before everything is compared again
	pause       = 100 * time.Millisecond
	minRetry    = time.Second
	maxRetry    = 30 * time.Second
	absentRetry = 10 * time.Minute // for a kind that the authoritative region does not have
	inOne       = 64               // objects per log entry
)

// Config configures a Replica.
type Config struct {
	// From is the authoritative region.
	From string
	// Token is a management token of that region, or "" without ACLs.
	Token string
	// Access means that ACLs are enabled. Without ACLs only quotas, namespaces and node pools
	// are copied.
	Access bool
	RPC    message.Caller
	Store  func() *state.Store // the current store; a restore replaces it
	// Apply writes a log entry and returns after it was applied.
	Apply func(ctx context.Context, t message.CommandType, payload any) error
	Log   *slog.Logger
}

// Replica copies objects from the authoritative region.
type Replica struct{ cfg Config }

// New returns a Replica.
func New(cfg Config) *Replica { return &Replica{cfg: cfg} }

// Run replicates until ctx ends.
func (r *Replica) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	defer wg.Wait()
	for _, k := range kinds() {
		if !k.access || r.cfg.Access {
			wg.Go(func() { r.follow(ctx, k) })
		}
	}
	<-ctx.Done()
	return ctx.Err()
}

// follow replicates one kind.
func (r *Replica) follow(ctx context.Context, k kind) {
	var index uint64
	again := backoff.Backoff{Min: minRetry, Max: maxRetry}
	reported, sure := "", false
	for ctx.Err() == nil {
		var err error
		if !sure {
			err = r.permitted(ctx)
		}
		if err == nil {
			sure = true
			index, err = r.round(ctx, k, index)
		}
		wait := pause
		switch {
		case err == nil:
			if reported != "" {
				r.cfg.Log.Info("replication from the authoritative region works again", "what", k.name, "region", r.cfg.From)
			}
			reported = ""
			again.Reset()
		case sure && absent(err):
			if reported != absentKind {
				r.cfg.Log.Info("the authoritative region lacks this kind of object, so it is not replicated", "what", k.name, "region", r.cfg.From,
					"err", err)
			}
			index, reported, wait = 0, absentKind, absentRetry
		default:
			if ctx.Err() == nil && err.Error() != reported {
				r.cfg.Log.Warn("replication from the authoritative region failed", "what", k.name, "region", r.cfg.From, "err", err)
				reported = err.Error()
			}
			index, sure = 0, false
			wait = again.Next()
			wait += rand.N(wait / 4)
		}
		backoff.Sleep(ctx, wait) // the loop ends with ctx
	}
}

// absentKind is what follow has reported about a kind that the authoritative region lacks.
const absentKind = "absent"

// absent reports whether the authoritative region does not have the methods of a kind.
func absent(err error) bool {
	return errors.Is(err, apierror.ErrNoMethod) || errors.Is(err, apierror.ErrUnknownMethod)
}

// query returns the options of all reads. They go to the leader of the authoritative region,
// because objects that another server does not have yet would be deleted here.
func (r *Replica) query() message.QueryOptions {
	return message.QueryOptions{Region: r.cfg.From, AuthToken: r.cfg.Token}
}

// permitted refuses a token that is not a management token. The type of a token never changes.
func (r *Replica) permitted(ctx context.Context) error {
	var who message.ACLWhoAmIResponse
	if err := r.cfg.RPC.Call(ctx, "ACL.WhoAmI", &message.GenericRequest{QueryOptions: r.query()}, &who); err != nil {
		return fmt.Errorf("look up acl.replication_token: %w", err)
	}
	if who.Identity == nil || !who.Identity.ACLToken.Management() {
		return errors.New("acl.replication_token must be a management token of the authoritative region")
	}
	return nil
}

// round waits for a change after index and replicates it. It returns the new index.
func (r *Replica) round(ctx context.Context, k kind, index uint64) (uint64, error) {
	q := r.query()
	q.MinQueryIndex, q.MaxQueryTime = index, waitFor
	there, next, err := k.list(ctx, r.cfg.RPC, q)
	if err != nil {
		return 0, fmt.Errorf("list %s: %w", k.name, err)
	}
	gone, differ := compare(there, k.local(r.cfg.Store().Snapshot()))
	var errs []error
	for _, id := range gone {
		if err := r.log(ctx, k.remove([]string{id})); err != nil { // an object in use stays, the others are removed
			errs = append(errs, fmt.Errorf("remove %s %s: %w", k.name, id, err))
		}
	}
	for batch := range slices.Chunk(differ, inOne) {
		if err := r.put(ctx, k, batch); err != nil {
			errs = append(errs, err)
		}
	}
	if n := len(gone) + len(differ); n > 0 && len(errs) == 0 {
		r.cfg.Log.Debug("copied from the authoritative region", "what", k.name, "count", n)
	}
	return max(next, 1), errors.Join(errs...) // a request with index 0 does not block
}

// put stores objects in one entry. If that fails, it stores them one by one, so that one
// invalid object does not block the others.
func (r *Replica) put(ctx context.Context, k kind, batch []object) error {
	err := r.store(ctx, k, batch)
	if err != nil && k.clashes {
		if err = r.makeRoom(ctx, k, batch); err == nil {
			err = r.store(ctx, k, batch)
		}
	}
	if err == nil || len(batch) == 1 || ctx.Err() != nil {
		return err
	}
	var errs []error
	for _, o := range batch {
		if err := r.store(ctx, k, []object{o}); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

func (r *Replica) store(ctx context.Context, k kind, batch []object) error {
	e, err := k.fetch(ctx, r.cfg.RPC, r.query(), batch)
	if err != nil {
		return fmt.Errorf("get %s: %w", k.name, err)
	}
	if err := r.log(ctx, e); err != nil {
		return fmt.Errorf("store %s: %w", k.name, err)
	}
	return nil
}

// makeRoom removes the local versions of the objects, because the name of one may conflict with
// another.
func (r *Replica) makeRoom(ctx context.Context, k kind, batch []object) error {
	for _, o := range k.local(r.cfg.Store().Snapshot()) {
		if slices.ContainsFunc(batch, func(b object) bool { return b.id == o.id }) {
			if err := r.log(ctx, k.remove([]string{o.id})); err != nil {
				return fmt.Errorf("remove conflicting %s %s: %w", k.name, o.id, err)
			}
		}
	}
	return nil
}

func (r *Replica) log(ctx context.Context, e entry) error {
	if e.payload == nil {
		return nil
	}
	return r.cfg.Apply(ctx, e.number, e.payload)
}

// compare returns the IDs that exist only here, and the objects that are missing here or
// differ, in the order of their changes there. An object that was deleted and created again
// with the same ID is in both.
func compare(there, here []object) (gone []string, differ []object) {
	old := map[string]object{}
	for _, o := range here {
		old[o.id] = o
	}
	for _, o := range there {
		was, known := old[o.id]
		delete(old, o.id)
		switch {
		case known && was.born != o.born:
			gone = append(gone, o.id)
			differ = append(differ, o)
		case !known || was.version != o.version:
			differ = append(differ, o)
		}
	}
	gone = append(gone, slices.Sorted(maps.Keys(old))...)
	slices.SortFunc(differ, func(a, b object) int { return cmp.Compare(a.modified, b.modified) })
	return gone, differ
}
