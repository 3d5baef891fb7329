package consensus

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

// termKey is where raft keeps its term. It panics when that cannot be written.
var termKey = []byte("CurrentTerm")

// retryAfter is how long the disk is left alone after a failed write; remindAfter,
// how often the failure is told again.
const (
	retryAfter  = time.Second
	remindAfter = time.Minute
)

// guardedLog is the log and the vote of a server on a disk that can fail. After a
// failed write raft-wal holds in memory what it does not have on disk, and the other
// way round: it would refuse every later write, or take one that the next start
// forgets. So the log is opened anew before it is written again.
//
//	written ──a write fails──▶ broken: writes are refused, entries are read ──▶ every second:
//	   ▲                                                                       │
//	   └──what raft does not know is removed, what it wanted removed too ◀──opened anew
//
// A leader hears of the failure and steps down. A follower waits where raft's memory
// would be wrong otherwise: for the removal of entries that the leader does not have,
// for the entries in their place, for the vote and the term. It answers nobody
// meanwhile.
type guardedLog struct {
	dir     string
	size    int
	log     hclog.Logger
	meta    *metadb.BoltMetaDB
	ended   sync.Once
	retry   time.Duration
	closing chan struct{} // closed when nothing is waited for any more

	write  sync.Mutex // one writer at a time; the rest is under it
	last   uint64     // the last entry that raft knows to be written
	owed   *span      // entries that raft wanted removed
	cut    bool       // the tail is removed, what replaces it is not written yet
	broken error      // why the log must be opened anew
	tried  time.Time
	told   time.Time

	failing atomic.Pointer[error] // broken, for who may not wait

	mu  sync.RWMutex // held for reading while wal is used
	wal *wal.WAL
}

// span are entries of the log, both ends included.
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
	return g.change(g.cut, func() error {
		if err := g.wal.StoreLogs(entries); err != nil {
			return err
		}
		g.last, g.cut = entries[len(entries)-1].Index, false
		return nil
	})
}

// DeleteRange implements raft.LogStore: entries before a snapshot, or those that the
// leader does not have.
func (g *guardedLog) DeleteRange(first, last uint64) error {
	g.write.Lock()
	defer g.write.Unlock()
	begin, err := g.FirstIndex()
	if err != nil {
		return err
	}
	tail := first > begin && last >= g.last && first <= g.last
	g.owed = &span{first, last}
	err = g.change(tail, g.remove)
	g.cut = g.cut || tail && err == nil
	return err
}

// remove removes what is owed. raft-wal mistakes a new segment for the full one when
// entries are removed before it has made that: the entry without a predecessor is
// refused, but only after the new segment is there.
func (g *guardedLog) remove() (err error) {
	if g.owed == nil {
		return nil
	}
	if g.last > 0 {
		_ = g.wal.StoreLog(&raft.Log{Index: g.last + 2})
	}
	if err := g.wal.DeleteRange(g.owed.min, g.owed.max); err != nil {
		return err
	}
	g.owed = nil
	g.last, err = g.wal.LastIndex()
	return err
}

// change runs a write, with the log opened anew when the one before it failed. One
// that raft can't do without is tried until it succeeds.
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
	if errors.Is(err, wal.ErrSealed) { // the next segment could not be made: that tells why
		if err = g.reopen(); err == nil {
			err = write()
		}
	}
	if err != nil {
		return g.fail(err)
	}
	if g.broken != nil {
		g.log.Warn("the raft log is written again", "dir", g.dir)
		g.broken = nil
		g.failing.Store(nil)
	}
	return nil
}

// fail notes that the log must be opened anew, and says so now and then.
func (g *guardedLog) fail(err error) error {
	hint := "it is tried again"
	if errors.Is(err, unix.ENOSPC) {
		hint = "it goes on by itself when there is space"
	}
	g.tried = time.Now()
	failed := fmt.Errorf("write raft log in %s: %w: %s", g.dir, err, hint)
	g.broken = failed
	g.failing.Store(&failed)
	g.tell(failed)
	return failed
}

// unwritable says why the log cannot be written at present, nil when it can.
func (g *guardedLog) unwritable() error {
	if err := g.failing.Load(); err != nil {
		return *err
	}
	return nil
}

// tell logs a failure that lasts, not too often.
func (g *guardedLog) tell(err error) {
	if time.Since(g.told) > remindAfter {
		g.told = time.Now()
		g.log.Error("the raft log cannot be written", "err", err)
	}
}

// reopen puts a log in place of the one in use that has in memory what is on disk,
// and what raft knows on disk. The one in use serves readers until then.
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

// match removes from a log that was opened anew what raft was told is not written.
func (g *guardedLog) match(fresh *wal.WAL) error {
	last, err := fresh.LastIndex()
	switch {
	case err != nil:
		return err
	case last > g.last:
		return fresh.DeleteRange(g.last+1, last)
	case last < g.last && (g.owed == nil || g.owed.max < g.last):
		return fmt.Errorf("%w: it ends at entry %d, %d was written", ErrDamaged, last, g.last)
	}
	g.last = last
	return nil
}

// read gives what is in use to fn.
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

// IsMonotonic implements raft.MonotonicLogStore: entries follow each other.
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

// Set implements raft.StableStore. It waits for the disk: raft panics without its
// term. When the server ends meanwhile a term is passed over, which leads to nothing:
// it is not voted in, and no entry is taken.
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

// interrupt ends all waiting.
func (g *guardedLog) interrupt() { g.ended.Do(func() { close(g.closing) }) }

// Close closes log and index.
func (g *guardedLog) Close() error {
	g.interrupt()
	g.write.Lock()
	defer g.write.Unlock()
	return errors.Join(g.wal.Close(), g.meta.Close())
}
