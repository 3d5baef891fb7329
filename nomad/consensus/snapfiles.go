package consensus

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
)

// retained is the number of snapshots kept.
const retained = 2

// unfinished is how the directory of a snapshot ends while it is written.
const unfinished = ".tmp"

// openSnapshots opens the snapshots below the raft directory.
func openSnapshots(raftDir string, log hclog.Logger) (*privateSnapshots, error) {
	dir := filepath.Join(raftDir, "snapshots")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("create snapshot directory: %w", err)
	}
	if err := tidy(dir); err != nil {
		return nil, fmt.Errorf("open snapshot: %w", err)
	}
	files, err := raft.NewFileSnapshotStoreWithLogger(raftDir, retained, log.Named("snapshot"))
	if err != nil {
		return nil, fmt.Errorf("open snapshots: %w", err)
	}
	return &privateSnapshots{FileSnapshotStore: files, dir: dir}, nil
}

// tidy removes what a crash left of a snapshot that was being written or removed: it may
// hold as much as the whole state. It fails when one that counts is not described.
func tidy(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return compareNames(b.Name(), a.Name()) })
	whole := 0 // of those seen so far, the newest first
	for _, e := range entries {
		if !e.IsDir() {
			continue
		}
		path := filepath.Join(dir, e.Name())
		remove := strings.HasSuffix(e.Name(), unfinished)
		if !remove {
			err = checkMeta(filepath.Join(path, "meta.json"))
			remove = whole >= retained && errors.Is(err, fs.ErrNotExist)
		}
		switch {
		case remove:
			err = os.RemoveAll(path)
		case err == nil:
			whole++
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// compareNames orders the names of snapshots, TERM-INDEX-MILLISECONDS, by age; what
// is named otherwise counts as the newest.
func compareNames(a, b string) int {
	return slices.Compare(nameNumbers(a), nameNumbers(b))
}

// nameNumbers reads the name of a snapshot; the largest number when it is none.
func nameNumbers(name string) []uint64 {
	parts := strings.Split(name, "-")
	numbers := make([]uint64, len(parts))
	for i, part := range parts {
		n, err := strconv.ParseUint(part, 10, 64)
		if err != nil {
			return []uint64{math.MaxUint64}
		}
		numbers[i] = n
	}
	return numbers
}

// checkMeta fails when a snapshot would be passed over because it is not described.
func checkMeta(path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var meta raft.SnapshotMeta
	if err := json.Unmarshal(text, &meta); err != nil {
		return fmt.Errorf("%w: %s: %w", ErrDamaged, path, err)
	}
	if meta.Version < raft.SnapshotVersionMin || meta.Version > raft.SnapshotVersionMax {
		return fmt.Errorf("%s is of version %d, this server reads %d to %d", path, meta.Version, raft.SnapshotVersionMin, raft.SnapshotVersionMax)
	}
	return nil
}

// privateSnapshots makes snapshots that only their owner can read: they hold
// keys.
type privateSnapshots struct {
	*raft.FileSnapshotStore
	dir string

	mu     sync.Mutex
	failed error // why a snapshot could not be opened the last time
}

// failure returns why a snapshot could not be opened, nil when all could.
func (p *privateSnapshots) failure() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.failed
}

// List implements raft.SnapshotStore: the last snapshot. Raft would start from the
// one before it when it cannot be read, and forget what was acknowledged between.
func (p *privateSnapshots) List() ([]*raft.SnapshotMeta, error) {
	all, err := p.FileSnapshotStore.List()
	return all[:min(len(all), 1)], err
}

// Open implements raft.SnapshotStore.
func (p *privateSnapshots) Open(id string) (*raft.SnapshotMeta, io.ReadCloser, error) {
	meta, state, err := p.FileSnapshotStore.Open(id)
	if err != nil {
		err = fmt.Errorf("snapshot %s: %w", filepath.Join(p.dir, id), err)
		p.mu.Lock()
		p.failed = err
		p.mu.Unlock()
	}
	return meta, state, err
}

// Create implements raft.SnapshotStore.
func (p *privateSnapshots) Create(version raft.SnapshotVersion, index, term uint64, conf raft.Configuration,
	confIndex uint64, trans raft.Transport) (raft.SnapshotSink, error) {
	sink, err := p.FileSnapshotStore.Create(version, index, term, conf, confIndex, trans)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("create snapshot: %w", err), p.sweep(fmt.Sprintf("%d-%d-*", term, index)))
	}
	// Both files exist already; closing the sink rewrites them in place.
	tmp := filepath.Join(p.dir, sink.ID()+unfinished)
	err = os.Chmod(tmp, 0o700)
	for _, name := range []string{"state.bin", "meta.json"} {
		err = errors.Join(err, os.Chmod(filepath.Join(tmp, name), 0o600))
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("protect snapshot: %w", err), sink.Cancel())
	}
	return &privateSink{sink, tmp}, nil
}

// sweep removes what a snapshot left that could not even be begun.
func (p *privateSnapshots) sweep(name string) error {
	left, err := filepath.Glob(filepath.Join(p.dir, name+unfinished))
	for _, path := range left {
		err = errors.Join(err, os.RemoveAll(path))
	}
	return err
}

// privateSink is a snapshot while it is written. One that fails leaves nothing
// behind: on a full disk that would be what fills it.
type privateSink struct {
	raft.SnapshotSink
	tmp string
}

// Close implements raft.SnapshotSink.
func (s *privateSink) Close() error {
	if err := s.SnapshotSink.Close(); err != nil {
		return errors.Join(err, os.RemoveAll(s.tmp))
	}
	return nil
}

// Cancel implements raft.SnapshotSink.
func (s *privateSink) Cancel() error {
	return errors.Join(s.SnapshotSink.Cancel(), os.RemoveAll(s.tmp))
}

// watchedFSM records the error of a failed restore, which raft does not return. It also reports
// the commit index: raft applies only committed entries.
type watchedFSM struct {
	raft.BatchingFSM
	commits *commits
	failed  error
}

// Raft checks for this interface at run time. Without it entries are applied one by one.
var _ raft.BatchingFSM = (*watchedFSM)(nil)

// ApplyBatch implements raft.BatchingFSM.
func (w *watchedFSM) ApplyBatch(entries []*raft.Log) []any {
	w.commits.advance(entries[len(entries)-1].Index)
	return w.BatchingFSM.ApplyBatch(entries)
}

// Restore implements raft.FSM.
func (w *watchedFSM) Restore(state io.ReadCloser) error {
	w.failed = w.BatchingFSM.Restore(state)
	return w.failed
}
