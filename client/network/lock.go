package network

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/internal/safefs"
	"github.com/open-nomad/open-nomad/internal/sockets"
)

// lockPoll is the interval of the attempts to take a lock file.
const lockPoll = 10 * time.Millisecond

// turn is the lock of an allocation in this agent.
type turn struct {
	users int           // guarded by Set.mu
	taken chan struct{} // has a value while an operation runs
}

// enter waits until no other operation of the allocation runs.
func (s *Set) enter(ctx context.Context, alloc string) (leave func(), err error) {
	s.mu.Lock()
	t := s.turns[alloc]
	if t == nil {
		t = &turn{taken: make(chan struct{}, 1)}
		s.turns[alloc] = t
	}
	t.users++
	s.mu.Unlock()
	forget := func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if t.users--; t.users == 0 {
			delete(s.turns, alloc)
		}
	}
	select {
	case t.taken <- struct{}{}:
		return func() { <-t.taken; forget() }, nil
	case <-ctx.Done():
		forget()
		return nil, fmt.Errorf("wait for another operation of the network of allocation %s: %w", alloc, ctx.Err())
	}
}

// operation is the work on the network of one allocation.
type operation struct {
	*Set
	dir      *safefs.Dir
	lockFile *os.File // the lock file, which the plugins inherit
}

// operate calls do while no other operation of the allocation runs, also of plugins that a killed agent has started.
func (s *Set) operate(ctx context.Context, alloc string, do func(*operation) error) (err error) {
	leave, err := s.enter(ctx, alloc)
	if err != nil {
		return err
	}
	defer leave()
	if err := os.MkdirAll(s.cfg.Dir, 0o700); err != nil {
		return fmt.Errorf("create the directory of networks: %w", err)
	}
	d, err := safefs.Open(s.cfg.Dir)
	if err != nil {
		return fmt.Errorf("open the directory of networks: %w", err)
	}
	defer d.Close()
	if err := s.readPorts(ctx, d); err != nil {
		return err
	}
	o := &operation{Set: s, dir: d}
	if o.lockFile, err = s.lock(ctx, d, alloc); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, o.unlock(alloc)) }()
	return do(o)
}

// lock takes the lock file of an allocation. A plugin that a killed agent has started still has the lock: it gets time
// to end, and is then killed.
func (s *Set) lock(ctx context.Context, d *safefs.Dir, alloc string) (*os.File, error) {
	f, err := d.Append(alloc+lockSuffix, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock the network of allocation %s: %w", alloc, err)
	}
	patient, cancel := context.WithTimeout(ctx, s.cfg.Limits.Lock)
	defer cancel()
	if err = poll(patient, f); errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		s.killHolders(ctx, f, alloc)
		again, cancel := context.WithTimeout(ctx, s.cfg.Limits.Lock)
		defer cancel()
		err = poll(again, f)
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("lock the network of allocation %s: a CNI plugin of an earlier agent still runs: %w", alloc, err)
	}
	return f, nil
}

// poll takes the lock of a file as soon as it is free.
func poll(ctx context.Context, f *os.File) error {
	for {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil || !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR) {
			return err
		}
		select {
		case <-time.After(lockPoll):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// killHolders kills the processes that have the lock file open: only plugins inherit it.
func (s *Set) killHolders(ctx context.Context, f *os.File, alloc string) {
	info, err := f.Stat()
	if err != nil {
		s.cfg.Log.Warn("find the CNI plugins of an earlier agent", "alloc", alloc, "err", err)
		return
	}
	pids, err := sockets.Processes()
	if err != nil {
		s.cfg.Log.Warn("find the CNI plugins of an earlier agent", "alloc", alloc, "err", err)
		return
	}
	for _, pid := range pids {
		if pid == os.Getpid() {
			continue
		}
		if p, ok := sockets.Holder(ctx, info, []int{pid}); ok {
			s.cfg.Log.Warn("kill a CNI plugin of an earlier agent that did not end", "alloc", alloc, "process", p.String(), "err",
				kill(ctx, p.PID, info))
		}
	}
}

// kill kills a process if it still has the file open: its ID may belong to another one.
func kill(ctx context.Context, pid int, info os.FileInfo) error {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if _, ok := sockets.Holder(ctx, info, []int{pid}); !ok {
		return nil
	}
	return unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0)
}

// unlock releases the lock, also for programs that a plugin has started and that have inherited the file.
func (o *operation) unlock(alloc string) error {
	var errs []error
	if r, err := load(o.dir, alloc); err == nil && r == nil { // while it is locked
		errs = append(errs, o.dir.Remove(alloc+lockSuffix))
	}
	errs = append(errs, unix.Flock(int(o.lockFile.Fd()), unix.LOCK_UN), o.lockFile.Close())
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("unlock the network of allocation %s: %w", alloc, err)
	}
	return nil
}

// plugins calls run, which runs plugins of a network, with a time limit. At most maxPlugins calls of a network run at
// once, so that a plugin that hangs delays no other network.
func (s *Set) plugins(ctx context.Context, network string, limit time.Duration, run func(context.Context) error) error {
	s.mu.Lock()
	slots := s.slots[network]
	if slots == nil {
		slots = make(chan struct{}, maxPlugins)
		s.slots[network] = slots
	}
	s.mu.Unlock()
	wait, cancel := context.WithTimeout(ctx, slotTimeout)
	defer cancel()
	select {
	case slots <- struct{}{}:
		defer func() { <-slots }()
	case <-wait.Done():
		return fmt.Errorf("wait for the CNI plugins of network %q, which run for %d other allocations: %w", network, maxPlugins, wait.Err())
	}
	ctx, cancel = context.WithTimeout(ctx, limit)
	defer cancel()
	return run(ctx)
}
