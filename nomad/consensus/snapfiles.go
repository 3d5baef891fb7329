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

	"github.com/open-nomad/open-nomad/nomad/consensus/logstore"
)

// retained is the number of snapshots kept.
const retained = 2

// unfinished is the suffix of a snapshot directory during writing.
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

// tidy removes the remains of snapshots that were being written or removed during a crash,
// because they may be as large as the state. It fails if a snapshot to be kept has no valid
// meta.json.
func tidy(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return compareNames(b.Name(), a.Name()) })
	complete := 0 // number of complete snapshots so far, newest first
	for _, e := range entries {
		if !e.IsDir() {
			continue
		}
		path := filepath.Join(dir, e.Name())
		remove := strings.HasSuffix(e.Name(), unfinished)
		if !remove {
			err = checkMeta(filepath.Join(path, "meta.json"))
			remove = complete >= retained && errors.Is(err, fs.ErrNotExist)
		}
		switch {
		case remove:
			err = os.RemoveAll(path)
		case err == nil:
			complete++
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// compareNames orders snapshot names, TERM-INDEX-MILLISECONDS, by age. Other names count as
// newest.
func compareNames(a, b string) int {
	return slices.Compare(nameNumbers(a), nameNumbers(b))
}

// nameNumbers parses the name of a snapshot. Other names get the largest number.
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

// checkMeta fails if raft would ignore a snapshot because of its meta.json.
func checkMeta(path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var meta raft.SnapshotMeta
	if err := json.Unmarshal(text, &meta); err != nil {
		return fmt.Errorf("%w: %s: %w", logstore.ErrDamaged, path, err)
	}
	if meta.Version < raft.SnapshotVersionMin || meta.Version > raft.SnapshotVersionMax {
		return fmt.Errorf("%s has version %d, but this server supports %d to %d", path, meta.Version, raft.SnapshotVersionMin,
			raft.SnapshotVersionMax)
	}
	return nil
}

// privateSnapshots creates snapshots that only their owner can read, because they contain keys.
type privateSnapshots struct {
	*raft.FileSnapshotStore
	dir string

	mu     sync.Mutex
	failed error // error of the last opening of a snapshot
}

// failure returns the error of the last opening of a snapshot, or nil.
func (p *privateSnapshots) failure() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.failed
}

// List implements raft.SnapshotStore. It returns only the latest snapshot. If raft cannot read
// that one, it would start from an older one and lose acknowledged entries.
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

// sweep removes the remains of a snapshot that could not be created.
func (p *privateSnapshots) sweep(name string) error {
	left, err := filepath.Glob(filepath.Join(p.dir, name+unfinished))
	for _, path := range left {
		err = errors.Join(err, os.RemoveAll(path))
	}
	return err
}

// privateSink is a snapshot that is being written. If it fails, it removes its files, because
// they may be what fills the disk.
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
