package logstore

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime/debug"
	"sync"

	"github.com/hashicorp/go-hclog"
	wal "github.com/hashicorp/raft-wal"
	"github.com/hashicorp/raft-wal/fs"
	"github.com/hashicorp/raft-wal/metadb"
	"github.com/hashicorp/raft-wal/segment"
	"github.com/hashicorp/raft-wal/types"
	"golang.org/x/sys/unix"
)

// segmentSize is the default size of a log segment.
const segmentSize = 64 << 20

// reserved is the space reserved for the index of the log, so that a vote and a term can be
// written on a full disk. The index needs a tenth of it.
const reserved = 256 << 10

// openLog opens the log. If it is damaged, openLog returns an error and repairs nothing.
func openLog(dir string, size int, log hclog.Logger) (*guardedLog, error) {
	metaFile := filepath.Join(dir, metadb.FileName)
	if err := probeLock(metaFile); err != nil {
		return nil, err
	}
	found, err := scanLog(dir, metaFile)
	if err != nil {
		return nil, err
	}
	if size == 0 {
		size = segmentSize
	}
	g := &guardedLog{dir: dir, size: size, log: log, retry: retryAfter, closing: make(chan struct{}), meta: &metadb.BoltMetaDB{}}
	if err := g.openDamageable(found); err != nil {
		return nil, errors.Join(err, g.meta.Close())
	}
	if err := g.prepare(metaFile); err != nil {
		return nil, errors.Join(err, g.Close())
	}
	return g, nil
}

// openDamageable opens the log and its index. A damaged bbolt file causes a panic or a fault,
// which openDamageable turns into an error.
func (g *guardedLog) openDamageable(found map[string]extent) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if found := recover(); found != nil {
			err = fmt.Errorf("%w: %s cannot be opened: %v", ErrDamaged, g.dir, found)
		}
	}()
	if err := checkSegments(g.dir, g.meta, found); err != nil {
		return err
	}
	g.wal, err = g.openSegments()
	return err
}

// openSegments opens the log with its index.
func (g *guardedLog) openSegments() (*wal.WAL, error) {
	files := &privateFiles{VFS: fs.New(), opened: []io.Closer{}}
	w, err := wal.Open(g.dir, wal.WithSegmentFiler(segmentFiles{segment.NewFiler(g.dir, segmentVFS{files})}), wal.WithMetaStore(g.meta),
		wal.WithSegmentSize(g.size), wal.WithLogger(g.log.Named("wal")))
	files.release(err)
	switch {
	case errors.Is(err, unix.ENOSPC):
		return nil, fmt.Errorf("open raft log in %s: %w: free the %d MiB of its next segment", g.dir, err, g.size>>20)
	case err != nil:
		return nil, fmt.Errorf("%w: %s cannot be opened: %w", ErrDamaged, g.dir, err)
	}
	return w, nil
}

// prepare ensures that the index can be written, even when the disk is full.
func (g *guardedLog) prepare(metaFile string) error {
	if err := os.Chmod(metaFile, 0o600); err != nil {
		return fmt.Errorf("protect raft log: %w", err)
	}
	f, err := os.OpenFile(metaFile, os.O_WRONLY, 0)
	if err != nil {
		return fmt.Errorf("open index of the raft log: %w", err)
	}
	for err = unix.EINTR; err == unix.EINTR; { // Go's own signals interrupt fallocate on a slow disk
		err = unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_KEEP_SIZE, 0, reserved)
	}
	if errors.Is(err, unix.EOPNOTSUPP) {
		err = nil // the file system cannot reserve space
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("reserve space for %s: %w", metaFile, err)
	}
	term, err := g.meta.GetStable(termKey)
	if err == nil && term != nil {
		err = g.meta.SetStable(termKey, term)
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", metaFile, err)
	}
	g.last, err = g.wal.LastIndex()
	return err
}

// probeLock fails if another program has locked the database. Opening it would wait forever.
func probeLock(path string) error {
	f, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("open raft log: %w", err)
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return errors.Join(fmt.Errorf("lock %s: %w", path, ErrInUse), f.Close())
	}
	return f.Close() // closing releases the lock
}

// segmentFiles opens segments that a truncation has closed. A follower removes entries that the
// leader does not have. raft-wal then closes their segment without writing an index and cannot
// read it after the next start. The frames contain the same information as the index.
type segmentFiles struct{ *segment.Filer }

// Open implements types.SegmentFiler.
func (s segmentFiles) Open(info types.SegmentInfo) (types.SegmentReader, error) {
	if info.IndexStart == 0 {
		return s.RecoverTail(info)
	}
	return s.Filer.Open(info)
}

// privateFiles creates log segments that only their owner can read. If there is no space for a
// segment, it removes the file, because raft-wal will create it again under the same name.
type privateFiles struct {
	types.VFS

	mu     sync.Mutex
	opened []io.Closer // files of an opening that may still fail; nil afterwards
}

// Create implements types.VFS.
func (p *privateFiles) Create(dir, name string, size uint64) (types.WritableFile, error) {
	path := filepath.Join(dir, name)
	f, err := p.VFS.Create(dir, name, size)
	if errors.Is(err, os.ErrExist) {
		return nil, err
	}
	if err != nil {
		_ = os.Remove(path) // it may not exist
		return nil, err
	}
	if err := os.Chmod(path, 0o600); err != nil {
		return nil, errors.Join(err, f.Close(), os.Remove(path))
	}
	p.keep(f)
	return f, nil
}

// OpenReader implements types.VFS.
func (p *privateFiles) OpenReader(dir, name string) (types.ReadableFile, error) {
	f, err := p.VFS.OpenReader(dir, name)
	if err == nil {
		p.keep(f)
	}
	return f, err
}

// OpenWriter implements types.VFS.
func (p *privateFiles) OpenWriter(dir, name string) (types.WritableFile, error) {
	f, err := p.VFS.OpenWriter(dir, name)
	if err == nil {
		p.keep(f)
	}
	return f, err
}

// keep records a file while the log is being opened.
func (p *privateFiles) keep(f io.Closer) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.opened != nil {
		p.opened = append(p.opened, f)
	}
}

// release passes the files to the log, or closes them if the opening failed.
func (p *privateFiles) release(opened error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if opened != nil {
		for _, f := range p.opened {
			_ = f.Close() // read only, or about to be recreated
		}
	}
	p.opened = nil
}
