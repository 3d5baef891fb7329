package consensus

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
	wal "github.com/hashicorp/raft-wal"
	"github.com/hashicorp/raft-wal/fs"
	"github.com/hashicorp/raft-wal/metadb"
	"github.com/hashicorp/raft-wal/segment"
	"github.com/hashicorp/raft-wal/types"
	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/nomad"
)

// ErrInUse means that another server has the directory.
var ErrInUse = errors.New("directory is in use by another server")

// protocol is the Raft protocol version, which raft/version holds too.
const protocol = 3

// retained is the number of snapshots kept.
const retained = 2

// stores are where raft keeps its log, its vote and its snapshots.
type stores struct {
	log       raft.LogStore
	stable    raft.StableStore
	snapshots raft.SnapshotStore
	id        string
	close     func() error
}

// memoryStores return stores that end with the process.
func memoryStores(id string) *stores {
	if id == "" {
		id = nomad.NewID()
	}
	mem := raft.NewInmemStore()
	return &stores{log: mem, stable: mem, snapshots: &memorySnapshots{}, id: id, close: func() error { return nil }}
}

// diskStores open what is below dir, or create it.
func diskStores(dir, id string, log hclog.Logger) (*stores, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("create server directory: %w", err)
	}
	lock, err := lockDir(dir)
	if err != nil {
		return nil, err
	}
	s, err := openStores(dir, id, log)
	if err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	closeLog := s.close
	s.close = func() error { return errors.Join(closeLog(), lock.Close()) }
	return s, nil
}

// openStores is diskStores within the lock.
func openStores(dir, id string, log hclog.Logger) (*stores, error) {
	raftDir := filepath.Join(dir, "raft")
	walDir := filepath.Join(raftDir, "wal")
	if err := os.MkdirAll(walDir, 0o700); err != nil {
		return nil, fmt.Errorf("create raft directory: %w", err)
	}
	if err := checkVersion(filepath.Join(raftDir, "version")); err != nil {
		return nil, err
	}
	if _, err := os.Lstat(filepath.Join(raftDir, "raft.db")); err == nil {
		return nil, fmt.Errorf("%s holds the log of a server with raft_logstore backend \"boltdb\": this server has backend \"wal\" and does not replace it", raftDir)
	}
	id, err := nodeID(filepath.Join(dir, "node-id"), id)
	if err != nil {
		return nil, err
	}
	logs, err := openWAL(walDir, log)
	if err != nil {
		return nil, err
	}
	snaps, err := openSnapshots(raftDir, log)
	if err != nil {
		return nil, errors.Join(err, logs.Close())
	}
	return &stores{log: logs, stable: logs, snapshots: snaps, id: id, close: logs.Close}, nil
}

// cached is how many entries of the log are kept in memory.
const cached = 512

// cache keeps the latest entries of the log in memory, unless told not to.
func (s *stores) cache(off bool) error {
	if off {
		return nil
	}
	logs, err := raft.NewLogCache(cached, s.log)
	if err != nil {
		return fmt.Errorf("cache raft log: %w", err)
	}
	s.log = logs
	return nil
}

// lockDir takes the directory for this process. A server that is just ending
// is waited for, but not for long.
func lockDir(dir string) (*os.File, error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, fmt.Errorf("open server directory: %w", err)
	}
	for end := time.Now().Add(2 * time.Second); ; {
		err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return f, nil
		}
		if !errors.Is(err, unix.EWOULDBLOCK) || time.Now().After(end) {
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	if errors.Is(err, unix.EWOULDBLOCK) {
		err = ErrInUse
	}
	return nil, errors.Join(fmt.Errorf("lock %s: %w", dir, err), f.Close())
}

// checkVersion compares the protocol that the directory was written with, and
// notes ours in a new one.
func checkVersion(path string) error {
	text, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return writeFile(path, strconv.Itoa(protocol))
	}
	if err != nil {
		return fmt.Errorf("read raft version: %w", err)
	}
	stored, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return fmt.Errorf("%s is damaged: it holds no number", path)
	}
	if stored > protocol {
		return fmt.Errorf("%s says that the directory is of raft protocol %d, this server knows %d: a downgrade is not possible", path, stored, protocol)
	}
	return nil
}

// nodeID returns the server's UUID, which a new directory gets.
func nodeID(path, given string) (string, error) {
	text, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return "", fmt.Errorf("read node ID: %w", err)
	}
	stored := strings.ToLower(strings.TrimSpace(string(text)))
	switch {
	case stored != "" && !nomad.IsUUID(stored):
		return "", fmt.Errorf("%s is damaged: it holds no UUID", path)
	case stored != "" && given != "" && stored != given:
		return "", fmt.Errorf("%s holds the ID %s, not %s", path, stored, given)
	case stored != "":
		return stored, nil
	case given == "":
		given = nomad.NewID()
	}
	return given, writeFile(path, given)
}

// writeFile writes a small file whole or not at all.
func writeFile(path, text string) error {
	tmp := path + ".tmp"
	f, err := os.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	_, err = f.WriteString(text)
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = os.Rename(tmp, path)
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}

// walStore is a log with the database that holds its index and the vote. The
// log does not close it.
type walStore struct {
	*wal.WAL
	meta *metadb.BoltMetaDB
}

// Close closes both.
func (w walStore) Close() error { return errors.Join(w.WAL.Close(), w.meta.Close()) }

// openWAL opens the log. An error names what is damaged; nothing is repaired by
// throwing away.
func openWAL(dir string, log hclog.Logger) (walStore, error) {
	metaFile := filepath.Join(dir, metadb.FileName)
	if err := probeLock(metaFile); err != nil {
		return walStore{}, err
	}
	if err := scanLog(dir, metaFile); err != nil {
		return walStore{}, err
	}
	w, err := openDamageable(dir, log)
	if err != nil {
		return walStore{}, err
	}
	if err := os.Chmod(metaFile, 0o600); err != nil {
		return walStore{}, errors.Join(fmt.Errorf("protect raft log: %w", err), w.Close())
	}
	return w, nil
}

// openDamageable opens the log and its index. bbolt panics, or touches pages
// that are not there, when its file is damaged: that is an error like another.
func openDamageable(dir string, log hclog.Logger) (w walStore, err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if found := recover(); found != nil {
			w, err = walStore{}, fmt.Errorf("%w: %s cannot be opened: %v", ErrDamaged, dir, found)
		}
	}()
	w.meta = &metadb.BoltMetaDB{}
	if err := checkFirst(dir, w.meta); err != nil {
		return walStore{}, errors.Join(err, w.meta.Close())
	}
	files := segmentFiles{segment.NewFiler(dir, privateFiles{fs.New()})}
	w.WAL, err = wal.Open(dir, wal.WithSegmentFiler(files), wal.WithMetaStore(w.meta), wal.WithLogger(log.Named("wal")))
	if err != nil {
		return walStore{}, errors.Join(fmt.Errorf("%w: %s cannot be opened: %w", ErrDamaged, dir, err), w.meta.Close())
	}
	return w, nil
}

// probeLock fails when another program has the database open: opening it would
// wait without end.
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
	return f.Close() // the lock goes with it
}

// segmentFiles opens segments that were closed by a truncation. A follower that has
// entries which the leader does not have removes them; the log then closes the
// segment they were in without writing an index, and could not read it after the
// next start. Its frames tell all that the index would.
type segmentFiles struct{ *segment.Filer }

// Open implements types.SegmentFiler.
func (s segmentFiles) Open(info types.SegmentInfo) (types.SegmentReader, error) {
	if info.IndexStart == 0 {
		return s.RecoverTail(info)
	}
	return s.Filer.Open(info)
}

// privateFiles makes log segments that only their owner can read.
type privateFiles struct{ types.VFS }

// Create implements types.VFS.
func (p privateFiles) Create(dir, name string, size uint64) (types.WritableFile, error) {
	f, err := p.VFS.Create(dir, name, size)
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(filepath.Join(dir, name), 0o600); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// openSnapshots opens the snapshots below the raft directory.
func openSnapshots(raftDir string, log hclog.Logger) (raft.SnapshotStore, error) {
	dir := filepath.Join(raftDir, "snapshots")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("create snapshot directory: %w", err)
	}
	files, err := raft.NewFileSnapshotStoreWithLogger(raftDir, retained, log.Named("snapshot"))
	if err != nil {
		return nil, fmt.Errorf("open snapshots: %w", err)
	}
	return privateSnapshots{files, dir}, nil
}

// privateSnapshots makes snapshots that only their owner can read: they hold
// keys.
type privateSnapshots struct {
	*raft.FileSnapshotStore
	dir string
}

// Create implements raft.SnapshotStore.
func (p privateSnapshots) Create(version raft.SnapshotVersion, index, term uint64, conf raft.Configuration,
	confIndex uint64, trans raft.Transport) (raft.SnapshotSink, error) {
	sink, err := p.FileSnapshotStore.Create(version, index, term, conf, confIndex, trans)
	if err != nil {
		return nil, err
	}
	// Both files exist already; closing the sink rewrites them in place.
	tmp := filepath.Join(p.dir, sink.ID()+".tmp")
	err = os.Chmod(tmp, 0o700)
	for _, name := range []string{"state.bin", "meta.json"} {
		err = errors.Join(err, os.Chmod(filepath.Join(tmp, name), 0o600))
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("protect snapshot: %w", err), sink.Cancel())
	}
	return sink, nil
}
