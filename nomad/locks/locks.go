// Package locks counts down the locks of variables on the leader, and releases those
// whose holder is silent.
//
//	free ──Reset──▶ held ──Reset──▶ held
//	                 │ └────Clear────▶ free
//	                 └──TTL is over──▶ lost ──delay is over──▶ releasing ──written──▶ free
//	                                                              └──failed──▶ lost
//
// A lost lock is renewed no more, yet nobody else gets it before its delay is over:
// what its holder began may still be under way. After a change of leaders every lock
// has its whole TTL again, since the new leader does not know when it was renewed last.
//
// Who holds what is in state; here are only the times. One goroutine waits for the
// nearest, a few more release.
package locks

import (
	"context"
	"iter"
	"log/slog"
	"sync"
	"time"

	"github.com/open-nomad/open-nomad/nomad"
)

const (
	// releasers bounds how many locks are released at once.
	releasers = 8
	// releaseAgain is the wait after a release failed.
	releaseAgain = 5 * time.Second
	// releaseWithin bounds one release.
	releaseWithin = 30 * time.Second
	// apart is the least time between two looks at all locks.
	apart = 20 * time.Millisecond
)

// Caller calls RPC methods.
type Caller interface {
	Call(ctx context.Context, method string, req, resp any) error
}

// Timers count down the locks.
type Timers struct {
	rpc Caller
	log *slog.Logger

	mu   sync.Mutex
	held map[string]*timer // by lock ID
	next time.Time         // when Run looks again; zero for never
	wake chan struct{}     // holds a value when next moved closer
}

// timer is one lock.
type timer struct {
	namespace, path string
	lock            nomad.VariableLock
	due             time.Time
	lost            bool
}

// New returns Timers that release by rpc.
func New(rpc Caller, log *slog.Logger) *Timers {
	return &Timers{rpc: rpc, log: log, held: map[string]*timer{}, wake: make(chan struct{}, 1)}
}

// Run counts until ctx ends, beginning with the locks that are held.
func (t *Timers) Run(ctx context.Context, held iter.Seq[*nomad.VariableEncrypted]) error {
	for v := range held {
		t.begin(&v.VariableMetadata)
	}
	defer t.resign()
	var releases sync.WaitGroup
	defer releases.Wait()
	slots := make(chan struct{}, releasers)
	for {
		for _, over := range t.expire(time.Now()) {
			select {
			case slots <- struct{}{}:
			case <-ctx.Done():
				return ctx.Err()
			}
			releases.Go(func() {
				defer func() { <-slots }()
				t.release(ctx, over)
			})
		}
		if err := t.pause(ctx); err != nil {
			return err
		}
	}
}

// begin counts a lock that is in state, unless it is counted already.
func (t *Timers) begin(v *nomad.VariableMetadata) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.held[v.LockID()] == nil && v.Lock != nil {
		t.set(v)
	}
}

func (t *Timers) resign() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.held = map[string]*timer{}
}

// Reset counts the TTL of a variable's lock anew. It says no when the lock is lost.
func (t *Timers) Reset(v *nomad.VariableMetadata) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if old := t.held[v.LockID()]; v.Lock == nil || old != nil && old.lost {
		return false
	}
	t.set(v)
	return true
}

// set counts a lock from now. t.mu is held.
func (t *Timers) set(v *nomad.VariableMetadata) {
	t.add(&timer{namespace: v.Namespace, path: v.Path, lock: *v.Lock, due: time.Now().Add(v.Lock.TTL)})
}

// add counts a timer. t.mu is held.
func (t *Timers) add(one *timer) {
	t.held[one.lock.ID] = one
	if t.next.IsZero() || one.due.Before(t.next) {
		t.next = one.due
		select {
		case t.wake <- struct{}{}:
		default: // a value is there already
		}
	}
}

// Clear stops counting for a lock that was released.
func (t *Timers) Clear(lockID string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.held, lockID)
}

// Active returns the number of locks that are counted.
func (t *Timers) Active() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.held)
}

// expire returns the locks whose delay is over, and begins the delay of those whose TTL
// is.
func (t *Timers) expire(now time.Time) (over []*timer) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.next = time.Time{}
	for _, one := range t.held {
		if !one.lost && !one.due.After(now) {
			one.lost, one.due = true, one.due.Add(one.lock.LockDelay)
			t.log.Info("a lock was not renewed in time", "namespace", one.namespace, "path", one.path)
		}
		if one.lost && !one.due.After(now) {
			over = append(over, one)
			one.due = now.Add(releaseWithin + releaseAgain) // it is lost until it was released
		}
		if t.next.IsZero() || one.due.Before(t.next) {
			t.next = one.due
		}
	}
	return over
}

// pause waits for the nearest time.
func (t *Timers) pause(ctx context.Context) error {
	t.mu.Lock()
	next := t.next
	t.mu.Unlock()
	var due <-chan time.Time
	if !next.IsZero() {
		timer := time.NewTimer(max(time.Until(next), apart))
		defer timer.Stop()
		due = timer.C
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.wake:
	case <-due:
	}
	return nil
}

// release frees a variable. If that fails it is tried again.
func (t *Timers) release(ctx context.Context, over *timer) {
	v := &nomad.VariableDecrypted{VariableMetadata: nomad.VariableMetadata{Namespace: over.namespace, Path: over.path,
		Lock: &nomad.VariableLock{ID: over.lock.ID}}}
	req := &nomad.VariablesApplyRequest{Op: nomad.VarOpLockRelease, Var: v, WriteRequest: nomad.WriteRequest{Namespace: over.namespace}}
	within, cancel := context.WithTimeout(ctx, releaseWithin)
	defer cancel()
	err := t.rpc.Call(within, "Variables.Apply", req, &nomad.VariablesApplyResponse{}) // a conflict: another holds it by now
	if err == nil {
		t.Clear(over.lock.ID)
		return
	}
	if ctx.Err() == nil {
		t.log.Warn("release a lock", "namespace", over.namespace, "path", over.path, "err", err)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.held[over.lock.ID] == over {
		over.due = time.Now().Add(releaseAgain)
		t.add(over)
	}
}
