package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"
)

// Defaults of locks.
const (
	// DefaultLockTTL is the default time until a lock ends without a renewal.
	DefaultLockTTL = 15 * time.Second
	// DefaultLockDelay is the default time after the end of a lock in which nobody acquires it.
	DefaultLockDelay = 15 * time.Second
)

// LockNoPathErr means that the variable of a lock has no path.
//
//lint:ignore ST1012 the name is that of the official SDK
var LockNoPathErr = errors.New("missing path of the variable of a lock")

// Locker is a lock that a LockLeaser holds.
type Locker interface {
	// Acquire acquires the lock and returns the path of its variable. It returns ErrLockConflict
	// if the lock has another holder.
	Acquire(ctx context.Context) (string, error)
	// Release releases the lock.
	Release(ctx context.Context) error
	// Renew holds the lock for another TTL.
	Renew(ctx context.Context) error
	// LockTTL returns the time until the lock ends without a renewal.
	LockTTL() time.Duration
}

// Locks is the lock of one variable. It is not safe for concurrent use.
type Locks struct {
	WriteOptions
	vars     *Variables
	variable *Variable
	ttl      time.Duration
	retries  int64
}

// LocksOption is an option of Client.Locks.
type LocksOption = func(l *Locks)

// LocksOptionWithMaxRetries sets how often a request is sent again after a fault of the network or
// of the server.
func LocksOptionWithMaxRetries(maxRetries int64) LocksOption {
	return func(l *Locks) { l.retries = maxRetries }
}

// Locks returns the lock of a variable. Without a lock in v, the TTL and the delay are the defaults.
func (c *Client) Locks(wo WriteOptions, v Variable, opts ...LocksOption) (*Locks, error) {
	if v.Path == "" {
		return nil, LockNoPathErr
	}
	l := &Locks{WriteOptions: wo, vars: c.Variables(), variable: v.Copy(), ttl: DefaultLockTTL}
	if l.variable.Lock == nil {
		l.variable.Lock = &VariableLock{TTL: DefaultLockTTL.String(), LockDelay: DefaultLockDelay.String()}
	}
	if text := l.variable.Lock.TTL; text != "" {
		ttl, err := time.ParseDuration(text)
		if err != nil {
			return nil, fmt.Errorf("invalid TTL of a lock: %w", err)
		}
		l.ttl = ttl
	}
	for _, option := range opts {
		option(l)
	}
	return l, nil
}

// LockTTL returns the time until the lock ends without a renewal.
func (l *Locks) LockTTL() time.Duration { return l.ttl }

// Acquire acquires the lock and returns the path of its variable.
func (l *Locks) Acquire(ctx context.Context) (string, error) {
	var got *Variable
	err := l.retry(ctx, func(o *WriteOptions) (err error) {
		got, _, err = l.vars.AcquireLock(l.variable, o)
		return err
	})
	if err != nil {
		return "", err
	}
	l.variable.Lock = got.Lock
	return got.Path, nil
}

// Release releases the lock.
func (l *Locks) Release(ctx context.Context) error {
	err := l.retry(ctx, func(o *WriteOptions) error {
		_, _, err := l.vars.ReleaseLock(l.variable, o)
		return err
	})
	if err == nil {
		l.variable.Lock.ID = ""
	}
	return err
}

// Renew holds the lock for another TTL.
func (l *Locks) Renew(ctx context.Context) error {
	return l.retry(ctx, func(o *WriteOptions) error {
		_, _, err := l.vars.RenewLock(l.variable, o)
		return err
	})
}

// retry calls do until it succeeds, fails for a reason that remains, or has been retried enough.
func (l *Locks) retry(ctx context.Context, do func(o *WriteOptions) error) error {
	wait := 100 * time.Millisecond
	for n := int64(0); ; n++ {
		err := do(l.WriteOptions.WithContext(ctx))
		if code := StatusCode(err); err == nil || errors.Is(err, ErrLockConflict) || n >= l.retries ||
			code >= 400 && code < http.StatusInternalServerError {
			return err
		}
		select {
		case <-ctx.Done():
			return errors.Join(ctx.Err(), err)
		case <-time.After(wait):
			wait = min(2*wait, 5*time.Second)
		}
	}
}

// LockLeaser runs functions while it holds a lock, for example in the leader of several processes.
type LockLeaser struct {
	Name string // for the caller

	locker Locker
	wait   time.Duration // between two attempts to acquire the lock
	early  bool          // return when another has the lock
}

// LockLeaserOption is an option of Client.NewLockLeaser.
type LockLeaserOption = func(l *LockLeaser)

// LockLeaserOptionWithEarlyReturn makes Start return nil when the lock has another holder.
func LockLeaserOptionWithEarlyReturn(er bool) LockLeaserOption {
	return func(l *LockLeaser) { l.early = er }
}

// LockLeaserOptionWithWaitPeriod sets the time between two attempts to acquire the lock.
func LockLeaserOptionWithWaitPeriod(wp time.Duration) LockLeaserOption {
	return func(l *LockLeaser) { l.wait = wp }
}

// NewLockLeaser returns a LockLeaser of a lock. The time between two attempts is 1.1 times the TTL,
// unless an option sets it.
func (c *Client) NewLockLeaser(l Locker, opts ...LockLeaserOption) *LockLeaser {
	out := &LockLeaser{locker: l, wait: l.LockTTL() + l.LockTTL()/10}
	for _, option := range opts {
		option(out)
	}
	return out
}

// Start acquires the lock, runs all functions at once, and renews the lock. The context of the
// functions ends when one of them returns, when the lock is lost, or when ctx ends. Start releases
// the lock after the last function has returned, and returns the first error.
func (ll *LockLeaser) Start(ctx context.Context, protectedFuncs ...func(ctx context.Context) error) error {
	for {
		_, err := ll.locker.Acquire(ctx)
		if err == nil {
			return ll.lead(ctx, protectedFuncs)
		}
		if !errors.Is(err, ErrLockConflict) {
			return fmt.Errorf("acquire lock: %w", err)
		}
		if ll.early {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(ll.wait):
		}
	}
}

// lead runs the functions while the lock is held.
func (ll *LockLeaser) lead(ctx context.Context, functions []func(ctx context.Context) error) error {
	leading, stop := context.WithCancelCause(ctx)
	ended := make(chan error, len(functions))
	for _, f := range functions {
		go func() { ended <- f(leading) }()
	}
	renewed := make(chan error, 1)
	go func() { renewed <- ll.renew(leading) }()

	var first error
	running := len(functions)
	select {
	case first = <-ended:
		running--
	case first = <-renewed:
		renewed <- nil
	}
	stop(first)
	for ; running > 0; running-- {
		first = errors.Join(first, <-ended)
	}
	<-renewed
	// The lock is released although ctx may have ended.
	release, done := context.WithTimeout(context.WithoutCancel(ctx), ll.locker.LockTTL())
	defer done()
	if err := ll.locker.Release(release); err != nil && !errors.Is(err, ErrLockConflict) {
		return errors.Join(first, fmt.Errorf("release lock: %w", err))
	}
	return first
}

// renew renews the lock until ctx ends. It returns an error when the lock is lost.
func (ll *LockLeaser) renew(ctx context.Context) error {
	tick := time.NewTicker(ll.locker.LockTTL() / 2)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		if err := ll.locker.Renew(ctx); err != nil && ctx.Err() == nil {
			return fmt.Errorf("renew lock: %w", err)
		}
	}
}
