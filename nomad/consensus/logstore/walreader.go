package logstore

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime/debug"

	"github.com/hashicorp/raft"
	wal "github.com/hashicorp/raft-wal"
	"github.com/hashicorp/raft-wal/fs"
	"github.com/hashicorp/raft-wal/metadb"
	"github.com/hashicorp/raft-wal/segment"
	"github.com/hashicorp/raft-wal/types"
	"go.etcd.io/bbolt"
)

// walReader reads the index and the segments of a log of WAL directly. The library's log
// repairs and truncates files when it opens them.
type walReader struct {
	dir    string
	db     *bbolt.DB
	state  types.PersistentState
	stable map[string][]byte
}

func openWALReader(dir string) (r *walReader, err error) {
	index := filepath.Join(dir, metadb.FileName)
	if _, err := scanLog(dir, index); err != nil {
		return nil, err
	}
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if found := recover(); found != nil {
			r, err = nil, fmt.Errorf("%w: %s cannot be opened: %v", ErrDamaged, dir, found)
		}
	}()
	r = &walReader{dir: dir, stable: map[string][]byte{}}
	// It stays open, and so stays locked against writers.
	if r.db, err = bbolt.Open(index, 0o600, &bbolt.Options{ReadOnly: true, Timeout: boltWait}); err != nil {
		return nil, boltError(index, err)
	}
	if err := r.db.View(r.load); err != nil {
		return nil, errors.Join(fmt.Errorf("%w: %s: %w", ErrDamaged, index, err), r.db.Close())
	}
	return r, nil
}

// load reads the index and the vote.
func (r *walReader) load(tx *bbolt.Tx) error {
	meta, stable := tx.Bucket([]byte(metadb.MetaBucket)), tx.Bucket([]byte(metadb.StableBucket))
	if meta == nil || stable == nil {
		return errors.New("a bucket is missing")
	}
	err := stable.ForEach(func(k, v []byte) error {
		r.stable[string(k)] = append([]byte{}, v...)
		return nil
	})
	raw := meta.Get([]byte(metadb.MetaKey))
	if err != nil || raw == nil {
		return err
	}
	return json.Unmarshal(raw, &r.state)
}

// Close implements Reader.
func (r *walReader) Close() error { return r.db.Close() }

// Bounds implements Reader.
func (r *walReader) Bounds() (first, last uint64, err error) {
	err = r.Entries(0, func(e *raft.Log) error {
		if last = e.Index; first == 0 {
			first = last
		}
		return nil
	})
	return first, last, err
}

// Vote implements Reader.
func (r *walReader) Vote() (term, votedIn uint64, votedFor string) {
	return vote(binary.LittleEndian, func(key string) []byte { return r.stable[key] })
}

// errEnough stops the reading of a segment.
var errEnough = errors.New("enough")

// Entries implements Reader.
func (r *walReader) Entries(from uint64, fn func(*raft.Log) error) error {
	for _, s := range r.state.Segments {
		if s.MaxIndex != 0 && s.MaxIndex < from {
			continue
		}
		files := &openedFiles{VFS: fs.New()}
		first := max(from, s.MinIndex)
		err := segment.NewFiler(r.dir, files).DumpSegment(s.BaseIndex, s.ID, max(first, 1)-1, 0,
			func(_ types.SegmentInfo, e types.LogEntry) (bool, error) {
				if s.MaxIndex != 0 && e.Index > s.MaxIndex {
					return false, errEnough // removed by a truncation
				}
				var entry raft.Log
				if err := (&wal.BinaryCodec{}).Decode(e.Data, &entry); err != nil {
					return false, fmt.Errorf("%w: entry %d: %w", ErrDamaged, e.Index, err)
				}
				if entry.Index != e.Index {
					return false, fmt.Errorf("%w: entry %d has index %d", ErrDamaged, e.Index, entry.Index)
				}
				return true, fn(&entry)
			})
		closed := files.close()
		// The first segment of a log may not be written yet.
		if err != nil && !errors.Is(err, errEnough) && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("read raft log: %w", err)
		}
		if closed != nil {
			return closed
		}
	}
	return nil
}

// openedFiles opens files for reading and records them, because DumpSegment does not close
// them.
type openedFiles struct {
	types.VFS
	open []io.Closer
}

// OpenReader implements types.VFS.
func (f *openedFiles) OpenReader(dir, name string) (types.ReadableFile, error) {
	file, err := f.VFS.OpenReader(dir, name)
	if err == nil {
		f.open = append(f.open, file)
	}
	return file, err
}

func (f *openedFiles) close() error {
	var errs []error
	for _, file := range f.open {
		errs = append(errs, file.Close())
	}
	return errors.Join(errs...)
}
