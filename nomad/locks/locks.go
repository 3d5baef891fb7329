// Package locks tracks the TTLs of variable locks on the leader and releases expired locks.
//
//	free ──Reset──▶ held ──Reset──▶ held
//	                 │ └────Clear────▶ free
//	                 └──TTL is over──▶ lost ──delay is over──▶ releasing ──written──▶ free
//	                                                              └──failed──▶ lost
//
// An expired lock cannot be renewed. Others can acquire it only after its delay, since work of its
// holder may still be in progress. After a leader election every lock gets its full TTL
// again, since the new leader does not know the last renewal.
//
// State stores the holders of locks; this package only tracks times. One goroutine waits for the
// nearest deadline, and a bounded number of others release locks.
package locks

import (
	"context"
	"iter"
	"log/slog"
	"sync"
	"time"

	"github.com/open-nomad/open-nomad/internal/wake"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/variable"
)

const (
	// releasers is the maximum number of concurrent releases.
	releasers = 8
	// releaseAgain is the delay after a failed release.
	releaseAgain = 5 * time.Second
	// releaseWithin bounds one release.
	releaseWithin = 30 * time.Second
	// interval is the minimum time between two scans of all locks.
	interval = 20 * time.Millisecond
)

// Timers track the TTLs of locks.
type Timers struct {
	rpc message.Caller
	log *slog.Logger

	mu     sync.Mutex
	timers map[string]*timer // by lock ID
	next   time.Time         // time of the next scan; zero for never
	wake   wake.Signal       // holds a value if next moved closer
}

// timer is one lock.
type timer struct {
	namespace, path string
	lock            variable.Lock
	due             time.Time
	lost            bool
}

// New returns Timers that release locks by RPC.
func New(rpc message.Caller, log *slog.Logger) *Timers {
	return &Timers{rpc: rpc, log: log, timers: map[string]*timer{}, wake: wake.New()}
}

// Run tracks locks until ctx ends. It starts with the held ones.
func (t *Timers) Run(ctx context.Context, timers iter.Seq[*variable.Encrypted]) error {
	for v := range timers {
		t.begin(&v.Metadata)
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

// begin tracks a lock from state, unless it is tracked already.
func (t *Timers) begin(v *variable.Metadata) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.timers[v.LockID()] == nil && v.Lock != nil {
		t.set(v)
	}
}

func (t *Timers) resign() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.timers = map[string]*timer{}
}

// Reset restarts the TTL of a variable's lock. It returns false if the lock has expired.
func (t *Timers) Reset(v *variable.Metadata) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if old := t.timers[v.LockID()]; v.Lock == nil || old != nil && old.lost {
		return false
	}
	t.set(v)
	return true
}

// set starts the TTL of a lock now. The caller holds t.mu.
func (t *Timers) set(v *variable.Metadata) {
	t.add(&timer{namespace: v.Namespace, path: v.Path, lock: *v.Lock, due: time.Now().Add(v.Lock.TTL)})
}

// add adds a timer. The caller holds t.mu.
func (t *Timers) add(one *timer) {
	t.timers[one.lock.ID] = one
	if t.next.IsZero() || one.due.Before(t.next) {
		t.next = one.due
		t.wake.Send()
	}
}

// Clear stops tracking a released lock.
func (t *Timers) Clear(lockID string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.timers, lockID)
}

// Active returns the number of tracked locks.
func (t *Timers) Active() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.timers)
}

// expire returns the locks whose delay is over, and starts the delay of those whose TTL has
// expired.
func (t *Timers) expire(now time.Time) (over []*timer) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.next = time.Time{}
	for _, one := range t.timers {
		if !one.lost && !one.due.After(now) {
			one.lost, one.due = true, one.due.Add(one.lock.LockDelay)
			t.log.Info("variable lock expired", "namespace", one.namespace, "path", one.path)
		}
		if one.lost && !one.due.After(now) {
			over = append(over, one)
			one.due = now.Add(releaseWithin + releaseAgain) // expired until it is released
		}
		if t.next.IsZero() || one.due.Before(t.next) {
			t.next = one.due
		}
	}
	return over
}

// pause waits for the nearest deadline.
func (t *Timers) pause(ctx context.Context) error {
	t.mu.Lock()
	next := t.next
	t.mu.Unlock()
	var due <-chan time.Time
	if !next.IsZero() {
		timer := time.NewTimer(max(time.Until(next), interval))
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

// release releases the lock of a variable, and retries after a failure.
func (t *Timers) release(ctx context.Context, over *timer) {
	v := &variable.Decrypted{Metadata: variable.Metadata{Namespace: over.namespace, Path: over.path,
		Lock: &variable.Lock{ID: over.lock.ID}}}
	req := &message.VariablesApplyRequest{Op: variable.OpLockRelease, Var: v, WriteRequest: message.WriteRequest{Namespace: over.namespace}}
	within, cancel := context.WithTimeout(ctx, releaseWithin)
	defer cancel()
	err := t.rpc.Call(within, "Variables.Apply", req, &message.VariablesApplyResponse{}) // a conflict means that another holder has it
	if err == nil {
		t.Clear(over.lock.ID)
		return
	}
	if ctx.Err() == nil {
		t.log.Warn("release variable lock", "namespace", over.namespace, "path", over.path, "err", err)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.timers[over.lock.ID] == over {
		over.due = time.Now().Add(releaseAgain)
		t.add(over)
	}
}
