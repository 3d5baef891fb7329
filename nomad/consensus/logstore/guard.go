package logstore

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
	wal "github.com/hashicorp/raft-wal"
	"github.com/hashicorp/raft-wal/metadb"
	"golang.org/x/sys/unix"
)

// termKey is the key of raft's term. Raft panics if the term cannot be written.
var termKey = []byte("CurrentTerm")

// retryAfter is the pause after a failed write. remindAfter is the interval between log
// messages about a lasting failure.
const (
	retryAfter  = time.Second
	remindAfter = time.Minute
)

// guardedLog stores the log and the vote of a server and tolerates a failing disk. After a
// failed write, the memory of raft-wal and the disk differ. It would refuse every later write,
// or accept an entry that is lost at the next start. So the log is reopened before the next
// write.
//
//	written ──a write fails──▶ broken: writes fail, reads work ──▶ every second:
//	   ▲                                                                    │
//	   └──remove entries unknown to raft, repeat failed removals ◀──reopen──┘
//
// A leader gets the error and steps down. A follower waits for writes that raft cannot do
// without: the removal of entries that the leader does not have, the entries that replace them,
// the vote and the term. While it waits it answers nobody.
type guardedLog struct {
	dir     string
	size    int
	log     hclog.Logger
	meta    *metadb.BoltMetaDB
	ended   sync.Once
	retry   time.Duration
	closing chan struct{} // closed when all waits must end

	write     sync.Mutex // one writer at a time; guards the fields below
	last      uint64     // the last entry that raft regards as written
	toRemove  *span      // entries that still must be removed
	truncated bool       // the tail was removed, its replacement is not written yet
	broken    error      // why the log must be reopened
	tried     time.Time
	reminded  time.Time

	failing atomic.Pointer[error] // copy of broken for readers without the lock

	mu  sync.RWMutex // read-locked while wal is used
	wal *wal.WAL
}

// span is a range of log entries, both ends included.
type span struct{ min, max uint64 }

// StoreLog implements raft.LogStore.
func (g *guardedLog) StoreLog(entry *raft.Log) error { return g.StoreLogs([]*raft.Log{entry}) }

// StoreLogs implements raft.LogStore.
func (g *guardedLog) StoreLogs(entries []*raft.Log) error {
	if len(entries) == 0 {
		return nil
	}
	g.write.Lock()
	defer g.write.Unlock()
	return g.change(g.truncated, func() error {
		if err := g.wal.StoreLogs(entries); err != nil {
			return err
		}
		g.last, g.truncated = entries[len(entries)-1].Index, false
		return nil
	})
}

// DeleteRange implements raft.LogStore. Raft removes entries before a snapshot, and entries
// that the leader does not have.
func (g *guardedLog) DeleteRange(first, last uint64) error {
	g.write.Lock()
	defer g.write.Unlock()
	begin, err := g.FirstIndex()
	if err != nil {
		return err
	}
	tail := first > begin && last >= g.last && first <= g.last
	g.toRemove = &span{first, last}
	err = g.change(tail, g.remove)
	g.truncated = g.truncated || tail && err == nil
	return err
}

// remove removes the owed entries. If entries are removed before raft-wal has created its next
// segment, raft-wal confuses the two segments. It then refuses the entry without a predecessor,
// but only after the new segment exists.
func (g *guardedLog) remove() (err error) {
	if g.toRemove == nil {
		return nil
	}
	if g.last > 0 {
		_ = g.wal.StoreLog(&raft.Log{Index: g.last + 2})
	}
	if err := g.wal.DeleteRange(g.toRemove.min, g.toRemove.max); err != nil {
		return err
	}
	g.toRemove = nil
	g.last, err = g.wal.LastIndex()
	return err
}

// change runs a write. It first reopens the log if the previous write failed. A write with must
// set is repeated until it succeeds.
func (g *guardedLog) change(must bool, write func() error) error {
	for {
		err := g.try(write)
		if err == nil || !must {
			return err
		}
		select {
		case <-g.closing:
			return err
		case <-time.After(g.retry):
		}
	}
}

// try runs a write once.
func (g *guardedLog) try(write func() error) error {
	if g.broken != nil {
		if time.Since(g.tried) < g.retry {
			return g.broken
		}
		if err := g.reopen(); err != nil {
			return g.fail(err)
		}
	}
	err := write()
	if errors.Is(err, wal.ErrSealed) { // the next segment could not be created; change returns the reason
		if err = g.reopen(); err == nil {
			err = write()
		}
	}
	if err != nil {
		return g.fail(err)
	}
	if g.broken != nil {
		g.log.Warn("the raft log can be written again", "dir", g.dir)
		g.broken = nil
		g.failing.Store(nil)
	}
	return nil
}

// fail records that the log must be reopened, and logs the error at intervals.
func (g *guardedLog) fail(err error) error {
	hint := "retrying"
	if errors.Is(err, unix.ENOSPC) {
		hint = "writing resumes when there is free space"
	}
	g.tried = time.Now()
	failed := fmt.Errorf("write raft log in %s: %w: %s", g.dir, err, hint)
	g.broken = failed
	g.failing.Store(&failed)
	g.remind(failed)
	return failed
}

// Unwritable returns why the log cannot be written at the moment, or nil.
func (g *guardedLog) Unwritable() error {
	if err := g.failing.Load(); err != nil {
		return *err
	}
	return nil
}

// remind logs a lasting failure at intervals.
func (g *guardedLog) remind(err error) {
	if time.Since(g.reminded) > remindAfter {
		g.reminded = time.Now()
		g.log.Error("the raft log cannot be written", "err", err)
	}
}

// reopen opens the log again, so that its memory matches the disk, and makes it match what raft
// regards as written. Readers use the old log until then.
func (g *guardedLog) reopen() error {
	fresh, err := g.openSegments()
	if err != nil {
		return err
	}
	if err := g.match(fresh); err != nil {
		return errors.Join(err, fresh.Close())
	}
	g.mu.Lock()
	old := g.wal
	g.wal = fresh
	g.mu.Unlock()
	return errors.Join(old.Close(), g.remove())
}

// match removes entries from a reopened log that raft regards as not written.
func (g *guardedLog) match(fresh *wal.WAL) error {
	last, err := fresh.LastIndex()
	switch {
	case err != nil:
		return err
	case last > g.last:
		return fresh.DeleteRange(g.last+1, last)
	case last < g.last && (g.toRemove == nil || g.toRemove.max < g.last):
		return fmt.Errorf("%w: it ends at entry %d, %d was written", ErrDamaged, last, g.last)
	}
	g.last = last
	return nil
}

// read calls fn with the current log.
func (g *guardedLog) read(fn func(*wal.WAL) error) error {
	g.mu.RLock()
	defer g.mu.RUnlock()
	return fn(g.wal)
}

// FirstIndex implements raft.LogStore.
func (g *guardedLog) FirstIndex() (index uint64, err error) {
	err = g.read(func(w *wal.WAL) error { index, err = w.FirstIndex(); return err })
	return index, err
}

// LastIndex implements raft.LogStore.
func (g *guardedLog) LastIndex() (index uint64, err error) {
	err = g.read(func(w *wal.WAL) error { index, err = w.LastIndex(); return err })
	return index, err
}

// GetLog implements raft.LogStore.
func (g *guardedLog) GetLog(index uint64, into *raft.Log) error {
	return g.read(func(w *wal.WAL) error { return w.GetLog(index, into) })
}

// IsMonotonic implements raft.MonotonicLogStore: the indexes of entries have no gaps.
func (g *guardedLog) IsMonotonic() bool { return true }

// Get implements raft.StableStore.
func (g *guardedLog) Get(key []byte) ([]byte, error) { return g.meta.GetStable(key) }

// GetUint64 implements raft.StableStore.
func (g *guardedLog) GetUint64(key []byte) (n uint64, err error) {
	err = g.read(func(w *wal.WAL) error { n, err = w.GetUint64(key); return err })
	return n, err
}

// SetUint64 implements raft.StableStore.
func (g *guardedLog) SetUint64(key []byte, n uint64) error {
	return g.Set(key, binary.LittleEndian.AppendUint64(nil, n))
}

// Set implements raft.StableStore. It waits for the disk, because raft panics if the term
// cannot be written. If the server is closed during the wait, Set skips the write. That is
// safe: the server does not vote in the term and accepts no entries.
func (g *guardedLog) Set(key, value []byte) error {
	for {
		err := g.meta.SetStable(key, value)
		if err == nil {
			return nil
		}
		err = fmt.Errorf("write %s of the raft log in %s: %w", key, g.dir, err)
		g.log.Error("the raft log cannot be written", "err", err)
		select {
		case <-g.closing:
			if string(key) == string(termKey) {
				return nil
			}
			return err
		case <-time.After(10 * g.retry):
		}
	}
}

// Interrupt ends all waits.
func (g *guardedLog) Interrupt() { g.ended.Do(func() { close(g.closing) }) }

// Close closes the log and its index.
func (g *guardedLog) Close() error {
	g.Interrupt()
	g.write.Lock()
	defer g.write.Unlock()
	return errors.Join(g.wal.Close(), g.meta.Close())
}
