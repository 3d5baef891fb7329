package consensus

import (
	"cmp"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc64"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hashicorp/raft"
	"go.etcd.io/bbolt"
	"golang.org/x/sys/unix"
)

// Offline reads the log and the snapshots of a stopped server. It changes no file.
type Offline struct {
	// Dir is the raft directory.
	Dir string
	// Backend is the log store of the directory.
	Backend string

	lock *os.File
	bolt *boltLog
	wal  *walReader
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
	if backend == BackendBolt {
		o.bolt, err = openBolt(filepath.Join(dir, boltFile), bbolt.Options{ReadOnly: true}, raftLogger(nil))
	} else {
		o.wal, err = openWALReader(filepath.Join(dir, "wal"))
	}
	if err != nil {
		return nil, errors.Join(err, o.lock.Close())
	}
	return o, nil
}

// findRaft returns the raft directory in or at path.
func findRaft(path string) (dir, backend string, err error) {
	for _, below := range []string{"server/raft", "raft", "."} {
		dir = filepath.Join(path, below)
		if backend, err = backendOf(dir); err != nil || backend != "" {
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
		err = fmt.Errorf("%w: stop it first", ErrInUse)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("lock %s: %w", dir, err), f.Close())
	}
	return f, nil
}

// Close unlocks the directory.
func (o *Offline) Close() error {
	var err error
	if o.bolt != nil {
		err = o.bolt.Close()
	}
	if o.wal != nil {
		err = o.wal.close()
	}
	return errors.Join(err, o.lock.Close())
}

// Bounds returns the first and the last index of the log, or 0 if it is empty.
func (o *Offline) Bounds() (first, last uint64, err error) {
	if o.wal != nil {
		err = o.wal.entries(0, func(e *raft.Log) error {
			if last = e.Index; first == 0 {
				first = last
			}
			return nil
		})
		return first, last, err
	}
	first, err = o.bolt.FirstIndex()
	if err == nil {
		last, err = o.bolt.LastIndex()
	}
	return first, last, err
}

// Entries calls fn with the log entries from an index on, in order.
func (o *Offline) Entries(from uint64, fn func(*raft.Log) error) error {
	if o.wal != nil {
		return o.wal.entries(from, fn)
	}
	first, last, err := o.Bounds()
	for i := max(from, first); err == nil && i <= last && i > 0; i++ {
		var e raft.Log
		if err = o.bolt.GetLog(i, &e); err != nil {
			return fmt.Errorf("%w: entry %d of %s: %w", ErrDamaged, i, o.Dir, err)
		}
		err = fn(&e)
	}
	return err
}

// Vote returns the server's term, and the term and candidate of its last vote.
func (o *Offline) Vote() (term, votedIn uint64, votedFor string) {
	var order binary.ByteOrder = binary.BigEndian
	if o.wal != nil {
		order = binary.LittleEndian
	}
	number := func(key string) uint64 {
		if v := o.stable(key); len(v) == 8 {
			return order.Uint64(v)
		}
		return 0
	}
	return number(string(termKey)), number(keyVoteTerm), string(o.stable(keyVote))
}

// stable returns a value of the stable store, or nil if the key is missing.
func (o *Offline) stable(key string) []byte {
	if o.wal != nil {
		return o.wal.stable[key]
	}
	v, err := o.bolt.Get([]byte(key))
	if err != nil {
		return nil // the only error of an open database is a missing key
	}
	return v
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
		return nil, fmt.Errorf("%w: %s: %w", ErrDamaged, path, err)
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
		err = fmt.Errorf("%w: snapshot %s does not match its checksum", ErrDamaged, id)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}
