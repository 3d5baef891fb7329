package consensus

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/hashicorp/raft"
	"github.com/hashicorp/raft-wal/migrate"
	"go.etcd.io/bbolt"
	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/internal/safefs"
)

// migrateBatch is the approximate number of bytes written at a time.
const migrateBatch = 4 << 20

// Migration is the conversion of a log from one store to the other.
type Migration struct {
	From, To string // log stores
	Entries  uint64
	// OldLog is the path of the renamed old log.
	OldLog string
}

// Migrate copies the log of a stopped server into the other log store and renames the old log.
// If it fails, the old log is unchanged. If it is killed between the last two steps, both logs
// exist and the server refuses to start.
//
//	one log ──copied to *.new──▶ one log ──renamed──▶ two complete logs ──old one renamed──▶ the other log
func Migrate(ctx context.Context, path string, log *slog.Logger) (*Migration, error) {
	dir, from, err := findRaft(path)
	if err != nil {
		return nil, err
	}
	lock, err := lockStopped(filepath.Dir(dir), unix.LOCK_EX)
	if err != nil {
		return nil, err
	}
	defer lock.Close() // locked only
	m := &Migration{From: from, To: BackendBolt}
	names := map[string]string{BackendWAL: "wal", BackendBolt: boltFile}
	if from == BackendBolt {
		m.To = BackendWAL
	}
	source, fresh := filepath.Join(dir, names[m.From]), filepath.Join(dir, names[m.To])
	m.OldLog = fmt.Sprintf("%s.migrated-%d", source, time.Now().Unix())
	if err := os.RemoveAll(fresh + ".new"); err != nil { // of an earlier attempt
		return nil, fmt.Errorf("remove an unfinished copy: %w", err)
	}
	if m.Entries, err = copyStore(ctx, dir, m, fresh+".new", log); err != nil {
		return nil, errors.Join(fmt.Errorf("copy the raft log: %w", err), os.RemoveAll(fresh+".new"))
	}
	if m.To == BackendWAL {
		if err := os.Remove(fresh); err != nil && !errors.Is(err, os.ErrNotExist) { // an empty directory at most
			return nil, fmt.Errorf("make room for the raft log: %w", err)
		}
	}
	for _, step := range [][2]string{{fresh + ".new", fresh}, {source, m.OldLog}} {
		if err := errors.Join(os.Rename(step[0], step[1]), safefs.SyncDir(dir)); err != nil {
			return nil, fmt.Errorf("put the raft log in its place: %w", err)
		}
	}
	return m, nil
}

// copyStore copies the log and the vote into a new store at path.
func copyStore(ctx context.Context, dir string, m *Migration, path string, log *slog.Logger) (n uint64, err error) {
	old, err := (Backend{Name: m.From}).open(dir, raftLogger(log))
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, old.Close()) }()
	var fresh logStore
	if m.To == BackendWAL {
		if err := os.Mkdir(path, 0o700); err != nil {
			return 0, err
		}
		fresh, err = openLog(path, 0, raftLogger(log))
	} else {
		fresh, err = openBolt(path, bbolt.Options{}, raftLogger(log))
	}
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, fresh.Close()) }()
	if err := copyVote(fresh, old); err != nil {
		return 0, err
	}
	first, err := old.FirstIndex()
	if err != nil || first == 0 {
		return 0, err
	}
	if err := migrate.CopyLogs(ctx, fresh, old, migrateBatch, nil); err != nil {
		return 0, err
	}
	last, err := fresh.LastIndex()
	return last - first + 1, err
}

// copyVote copies the term and the vote.
func copyVote(to, from raft.StableStore) error {
	for _, key := range []string{string(termKey), keyVoteTerm} { // the stores encode numbers in different byte orders
		n, err := from.GetUint64([]byte(key))
		if absent(err) || err == nil && n == 0 {
			continue
		}
		if err == nil {
			err = to.SetUint64([]byte(key), n)
		}
		if err != nil {
			return fmt.Errorf("copy %s: %w", key, err)
		}
	}
	v, err := from.Get([]byte(keyVote))
	if absent(err) || err == nil && len(v) == 0 {
		return nil
	}
	if err == nil {
		err = to.Set([]byte(keyVote), v)
	}
	if err != nil {
		return fmt.Errorf("copy %s: %w", keyVote, err)
	}
	return nil
}

// absent reports whether a store has no such key. Raft compares the same text.
func absent(err error) bool { return err != nil && err.Error() == "not found" }
