package consensus

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/internal/safefs"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/consensus/logstore"
)

// ErrNoID means that a directory with a log contains no server ID.
var ErrNoID = errors.New("the server has lost its ID")

// protocol is the Raft protocol version, which is also stored in raft/version.
const protocol = 3

// stores holds raft's log, vote and snapshots.
type stores struct {
	log       raft.LogStore
	stable    raft.StableStore
	snapshots raft.SnapshotStore
	id        string
	interrupt func() // ends waits for a disk that cannot be written
	close     func() error

	unwritable func() error // returns why the log cannot be written at the moment
}

// memoryStores returns stores in memory.
func memoryStores(id string) *stores {
	if id == "" {
		id = nomad.NewID()
	}
	mem := raft.NewInmemStore()
	return &stores{log: mem, stable: mem, snapshots: &memorySnapshots{}, id: id,
		interrupt: func() {}, close: func() error { return nil }, unwritable: func() error { return nil }}
}

// place is a server's directory on disk.
type place struct {
	dir, id string
	backend logstore.Backend
	log     hclog.Logger
	synced  func(dir string) // called with each directory that was synced, or nil
}

// stores opens or creates the stores in the directory.
func (p place) stores() (*stores, error) {
	dir := p.dir
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("create server directory: %w", err)
	}
	lock, err := lockDir(dir)
	if err != nil {
		return nil, err
	}
	s, err := p.open()
	if err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	closeLog := s.close
	s.close = func() error { return errors.Join(closeLog(), lock.Close()) }
	return s, nil
}

// open is stores after the directory was locked.
func (p place) open() (*stores, error) {
	raftDir := filepath.Join(p.dir, "raft")
	if err := os.MkdirAll(raftDir, 0o700); err != nil {
		return nil, fmt.Errorf("create raft directory: %w", err)
	}
	if err := checkVersion(filepath.Join(raftDir, "version")); err != nil {
		return nil, err
	}
	found, err := logstore.Stored(raftDir)
	if err != nil {
		return nil, err
	}
	if found != "" && found != p.backend.Kind() {
		return nil, fmt.Errorf("%s holds the log of a server with raft_logstore backend %q: this server is "+
			"configured with backend %q (convert the log with nomad operator raft migrate-backend)",
			raftDir, found, p.backend.Kind())
	}
	id, err := nodeID(filepath.Join(p.dir, "node-id"), p.id, raftDir)
	if err != nil {
		return nil, err
	}
	logs, err := p.backend.Open(raftDir, p.log)
	if err != nil {
		return nil, err
	}
	snaps, err := openSnapshots(raftDir, p.log)
	if err != nil {
		return nil, errors.Join(err, logs.Close())
	}
	for _, d := range []string{filepath.Dir(p.dir), p.dir, raftDir, filepath.Join(raftDir, "wal"), filepath.Join(raftDir, "snapshots")} {
		if err := p.keep(d); err != nil {
			return nil, errors.Join(err, logs.Close())
		}
	}
	return &stores{log: logs, stable: logs, snapshots: snaps, id: id, interrupt: logs.Interrupt, close: logs.Close,
		unwritable: logs.Unwritable}, nil
}

// keep syncs a directory. Bolt has no directory wal.
func (p place) keep(dir string) error {
	if err := safefs.SyncDir(dir); errors.Is(err, os.ErrNotExist) {
		return nil
	} else if err != nil {
		return fmt.Errorf("sync directory: %w", err)
	}
	if p.synced != nil {
		p.synced(dir)
	}
	return nil
}

// cached is the number of log entries in the cache.
const cached = 512

// cache adds a cache of the latest log entries, unless off is set.
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

// lockPatience is how long a server waits for another one that is about to exit.
const lockPatience = 2 * time.Second

// lockDir locks the directory for this process. It waits up to lockPatience for another
// server.
func lockDir(dir string) (*os.File, error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, fmt.Errorf("open server directory: %w", err)
	}
	if err = safefs.Lock(f, lockPatience); err == nil {
		return f, nil
	}
	if errors.Is(err, unix.EWOULDBLOCK) {
		err = logstore.ErrInUse
	}
	return nil, errors.Join(fmt.Errorf("lock %s: %w", dir, err), f.Close())
}

// checkVersion compares the protocol version of the directory with ours. It writes ours to a
// new directory.
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
		return fmt.Errorf("%s is damaged: it contains no number", path)
	}
	if stored > protocol {
		return fmt.Errorf("%s contains raft protocol %d, but this server supports %d: a downgrade is not possible", path, stored, protocol)
	}
	return nil
}

// nodeID returns the server's UUID and creates it in a new directory. A directory with a log or
// a snapshot belongs to the server with the stored ID and never gets a new one.
func nodeID(path, given, raftDir string) (string, error) {
	text, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return "", fmt.Errorf("read node ID: %w", err)
	}
	stored := strings.ToLower(strings.TrimSpace(string(text)))
	switch {
	case stored != "" && !nomad.IsUUID(stored):
		return "", fmt.Errorf("%s is damaged: it contains no UUID", path)
	case stored != "" && given != "" && stored != given:
		return "", fmt.Errorf("%s contains the ID %s, not %s", path, stored, given)
	case stored != "":
		return stored, nil
	case given != "":
		return given, writeFile(path, given)
	}
	used, err := holdsState(raftDir)
	switch {
	case err != nil:
		return "", err
	case used:
		return "", fmt.Errorf("%w: %s is missing or empty, but %s holds the Raft log of a server: write the ID of "+
			"this server into the file again "+
			"(nomad operator raft info %s shows the servers of the log), or move %s away to join as a new server",
			ErrNoID, path, raftDir, filepath.Dir(path), filepath.Dir(path))
	}
	id := nomad.NewID()
	return id, writeFile(path, id)
}

// holdsState reports whether a raft directory contains a log or a snapshot.
func holdsState(raftDir string) (bool, error) {
	backend, err := logstore.Stored(raftDir)
	if err != nil || backend != "" {
		return backend != "", err
	}
	snaps, err := os.ReadDir(filepath.Join(raftDir, "snapshots"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return false, fmt.Errorf("look for snapshots: %w", err)
	}
	return slices.ContainsFunc(snaps, func(e os.DirEntry) bool { return e.IsDir() && !strings.HasSuffix(e.Name(), unfinished) }), nil
}

// writeFile writes a small file atomically and syncs its directory.
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
	if err == nil {
		err = safefs.SyncDir(filepath.Dir(path))
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}
