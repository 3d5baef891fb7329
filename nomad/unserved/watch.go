package unserved

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/open-nomad/open-nomad/nomad/state"
)

// listEvery is the interval between two lists while the region has servers of another build.
// Only those store jobs that this version refuses.
const listEvery = 5 * time.Minute

// Config configures a Watcher.
type Config struct {
	Store    func() *state.Store    // the current store: a restore replaces it
	CaughtUp <-chan struct{}        // closed once the log that existed at the start is in state
	Moved    func() <-chan struct{} // the channel is closed at the next change of the members
	Others   func() []string        // names of the region's servers of another build, sorted
	// Served returns the names of features that this server supports because of its configuration. It may be nil.
	Served func(*state.Snapshot) []string
	Log    *slog.Logger
}

// Watcher logs the unsupported features: before this server joins others (Report), after the
// start, after a restore, when a server of another build joins, and periodically while the region
// has such servers. It logs again only after the list changed or another such server joined.
type Watcher struct {
	cfg Config

	mu        sync.Mutex
	store     *state.Store // the store of the cached messages
	index     uint64
	sentences []string
	logged    []string // the messages of the last list
	named     []string // the servers of another build that the last logged list had
}

// New returns a Watcher.
func New(c Config) *Watcher { return &Watcher{cfg: c} }

// Run logs until ctx ends.
func (w *Watcher) Run(ctx context.Context) error {
	caughtUp := w.cfg.CaughtUp
	for {
		moved, store, others := w.cfg.Moved(), w.cfg.Store(), w.cfg.Others()
		w.report(others)
		var again <-chan time.Time
		if len(others) > 0 {
			again = time.After(listEvery)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-caughtUp:
			caughtUp = nil
		case <-moved:
		case <-store.Abandoned():
		case <-again:
		}
	}
}

// Report logs the list unless Run or Report has logged it before.
func (w *Watcher) Report() { w.report(w.cfg.Others()) }

func (w *Watcher) report(others []string) {
	if sentences := w.Sentences(); w.isNew(sentences, others) {
		w.log(sentences, others)
	}
}

// isNew reports whether a list differs from the last one or has other servers. It records both.
func (w *Watcher) isNew(sentences, others []string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	differs := len(sentences) > 0 && (!slices.Equal(sentences, w.logged) || !subset(others, w.named))
	if differs {
		w.named = others
	}
	w.logged = sentences
	return differs
}

func (w *Watcher) log(sentences, others []string) {
	log := w.cfg.Log.With("features", strings.Join(sentences, "; "))
	if len(others) > 0 {
		log = log.With("servers_of_other_builds", strings.Join(others, ", "))
	}
	log.Warn("this version does not support stored features")
}

// Sentences returns the messages for the currently stored features. It caches them until jobs
// change or a snapshot is restored.
func (w *Watcher) Sentences() []string {
	snap := w.cfg.Store().Snapshot()
	index := snap.TableIndex(state.TableJobs, state.TableJobVersion)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.store != snap.Store() || w.index != index {
		w.store, w.index, w.sentences = snap.Store(), index, sentencesOf(w.list(snap))
	}
	return w.sentences
}

// sentencesOf returns the messages of the features, in order.
func sentencesOf(features []Feature) []string {
	var out []string
	for _, f := range features {
		out = append(out, f.Effect)
	}
	return out
}

// subset reports whether all of a are in b.
func subset(a, b []string) bool {
	return !slices.ContainsFunc(a, func(s string) bool { return !slices.Contains(b, s) })
}

// list returns the features of a snapshot that this server does not support.
func (w *Watcher) list(snap *state.Snapshot) []Feature {
	out := List(snap)
	if w.cfg.Served == nil {
		return out
	}
	served := w.cfg.Served(snap)
	return slices.DeleteFunc(out, func(f Feature) bool { return slices.Contains(served, f.Name) })
}
