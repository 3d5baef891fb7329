package consensus

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc64"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hashicorp/raft"
	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/nomad/consensus/logstore"
)

// Offline reads the log and the snapshots of a stopped server. It changes no file.
type Offline struct {
	// Dir is the raft directory.
	Dir string
	// Backend is the log store of the directory.
	Backend string

	logstore.Reader
	lock *os.File
}

// OpenOffline opens the directory of a stopped server: its data_dir, or server or raft in it.
// It fails while the server runs.
func OpenOffline(path string) (*Offline, error) {
	dir, backend, err := findRaft(path)
	if err != nil {
		return nil, err
	}
	o := &Offline{Dir: dir, Backend: backend}
	if o.lock, err = lockStopped(filepath.Dir(dir), unix.LOCK_SH); err != nil {
		return nil, err
	}
	o.Reader, err = logstore.OpenReader(dir, backend)
	if err != nil {
		return nil, errors.Join(err, o.lock.Close())
	}
	return o, nil
}

// findRaft returns the raft directory in or at path.
func findRaft(path string) (dir, backend string, err error) {
	for _, below := range []string{"server/raft", "raft", "."} {
		dir = filepath.Join(path, below)
		if backend, err = logstore.Stored(dir); err != nil || backend != "" {
			return dir, backend, err
		}
	}
	return "", "", fmt.Errorf("%s contains no Raft log: pass the data_dir of a server", path)
}

// lockStopped locks the directory of a stopped server.
func lockStopped(dir string, how int) (*os.File, error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, fmt.Errorf("open server directory: %w", err)
	}
	err = unix.Flock(int(f.Fd()), how|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		err = fmt.Errorf("%w: stop it first", logstore.ErrInUse)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("lock %s: %w", dir, err), f.Close())
	}
	return f, nil
}

// Close closes the log and unlocks the directory.
func (o *Offline) Close() error { return errors.Join(o.Reader.Close(), o.lock.Close()) }

// Migrate copies the log of a stopped server into the other log store and renames the old log. Path is as for
// OpenOffline.
func Migrate(ctx context.Context, path string, log *slog.Logger) (*logstore.Migration, error) {
	dir, from, err := findRaft(path)
	if err != nil {
		return nil, err
	}
	lock, err := lockStopped(filepath.Dir(dir), unix.LOCK_EX)
	if err != nil {
		return nil, err
	}
	defer lock.Close() // locked only
	return logstore.Migrate(ctx, dir, from, raftLogger(log))
}

// snapshotMeta is the meta.json of a snapshot.
type snapshotMeta struct {
	raft.SnapshotMeta
	CRC []byte
}

// Snapshots lists the snapshots, newest first.
func (o *Offline) Snapshots() ([]*raft.SnapshotMeta, error) {
	found, err := filepath.Glob(filepath.Join(o.Dir, "snapshots", "*", "meta.json"))
	if err != nil {
		return nil, fmt.Errorf("list raft snapshots: %w", err)
	}
	var out []*raft.SnapshotMeta
	for _, path := range found {
		if strings.HasSuffix(filepath.Dir(path), ".tmp") {
			continue // unfinished
		}
		meta, err := readSnapshotMeta(path)
		if err != nil {
			return nil, err
		}
		out = append(out, &meta.SnapshotMeta)
	}
	slices.SortFunc(out, func(a, b *raft.SnapshotMeta) int {
		return -cmp.Or(cmp.Compare(a.Term, b.Term), cmp.Compare(a.Index, b.Index), strings.Compare(a.ID, b.ID))
	})
	return out, nil
}

func readSnapshotMeta(path string) (*snapshotMeta, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read raft snapshot: %w", err)
	}
	meta := &snapshotMeta{}
	if err := json.Unmarshal(text, meta); err != nil {
		return nil, fmt.Errorf("%w: %s: %w", logstore.ErrDamaged, path, err)
	}
	return meta, nil
}

// OpenSnapshot opens the state of a snapshot after verifying its checksum.
func (o *Offline) OpenSnapshot(id string) (io.ReadCloser, error) {
	dir := filepath.Join(o.Dir, "snapshots", filepath.Base(id))
	meta, err := readSnapshotMeta(filepath.Join(dir, "meta.json"))
	if err != nil {
		return nil, err
	}
	f, err := os.Open(filepath.Join(dir, "state.bin"))
	if err != nil {
		return nil, fmt.Errorf("read raft snapshot: %w", err)
	}
	sum := crc64.New(crc64.MakeTable(crc64.ECMA))
	if _, err = io.Copy(sum, f); err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	if err == nil && !slices.Equal(sum.Sum(nil), meta.CRC) {
		err = fmt.Errorf("%w: snapshot %s does not match its checksum", logstore.ErrDamaged, id)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}
