package logstore

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
	"github.com/hashicorp/raft-wal/migrate"
	"go.etcd.io/bbolt"

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

// Migrate copies the log in a raft directory into the other log store and renames the old log. The caller has locked the
// directory of the stopped server. If Migrate fails, the old log is unchanged. If it is killed between the last two
// steps, both logs exist and the server refuses to start.
//
//	one log ──copied to *.new──▶ one log ──renamed──▶ two complete logs ──old one renamed──▶ the other log
func Migrate(ctx context.Context, dir, from string, log hclog.Logger) (*Migration, error) {
	m := &Migration{From: from, To: Bolt}
	names := map[string]string{WAL: "wal", Bolt: boltFile}
	if from == Bolt {
		m.To = WAL
	}
	source, fresh := filepath.Join(dir, names[m.From]), filepath.Join(dir, names[m.To])
	m.OldLog = fmt.Sprintf("%s.migrated-%d", source, time.Now().Unix())
	if err := os.RemoveAll(fresh + ".new"); err != nil { // of an earlier attempt
		return nil, fmt.Errorf("remove an unfinished copy: %w", err)
	}
	var err error
	if m.Entries, err = m.copy(ctx, dir, fresh+".new", log); err != nil {
		return nil, errors.Join(fmt.Errorf("copy the raft log: %w", err), os.RemoveAll(fresh+".new"))
	}
	if m.To == WAL {
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

// copy copies the log and the vote in a raft directory into a new store at path. It returns the number of entries.
func (m *Migration) copy(ctx context.Context, dir, path string, log hclog.Logger) (n uint64, err error) {
	old, err := (Backend{Name: m.From}).Open(dir, log)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, old.Close()) }()
	var fresh Store
	if m.To == WAL {
		if err := os.Mkdir(path, 0o700); err != nil {
			return 0, err
		}
		fresh, err = openLog(path, 0, log)
	} else {
		fresh, err = openBolt(path, bbolt.Options{}, log)
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
