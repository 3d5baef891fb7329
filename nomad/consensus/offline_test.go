package consensus_test

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hashicorp/raft"

	"github.com/open-nomad/open-nomad/nomad/consensus"
	"github.com/open-nomad/open-nomad/nomad/consensus/logstore"
	"github.com/open-nomad/open-nomad/nomad/fsm"
)

func backend(name string) func(*consensus.Config) {
	return func(c *consensus.Config) { c.Backend.Name = name }
}

func bothBackends(t *testing.T, test func(t *testing.T, name string)) {
	for _, name := range []string{logstore.WAL, logstore.Bolt} {
		t.Run(name, func(t *testing.T) { test(t, name) })
	}
}

func openWith(t *testing.T, dir, name string) server {
	t.Helper()
	s, err := tryOpen(t, dir, backend(name))
	if err != nil {
		t.Fatalf("Open() = %v", err)
	}
	t.Cleanup(func() { s.Close() })
	s.lead(t)
	return s
}

// filled returns the directory of a stopped server with the namespaces ns-0 to ns-9: five of
// them in a snapshot, all in the log.
func filled(t *testing.T, name string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "server")
	s := openWith(t, dir, name)
	for i := range 10 {
		if i == 5 {
			if err := s.Snapshot(); err != nil {
				t.Fatal(err)
			}
		}
		s.addNamespace(t, fmt.Sprintf("ns-%d", i))
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return dir
}

// contents returns the checksums, modes and times of all files in a directory.
func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		out[path] = fmt.Sprint(info.Mode(), info.ModTime(), info.Size())
		if d.Type().IsRegular() {
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			out[path] += fmt.Sprintf("%x", sha256.Sum256(text))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestOffline_ReadOnly(t *testing.T) {
	bothBackends(t, func(t *testing.T, name string) {
		dir := filled(t, name)
		before := contents(t, dir)
		for _, path := range []string{filepath.Dir(dir), dir, filepath.Join(dir, "raft")} {
			o, err := consensus.OpenOffline(path)
			if err != nil {
				t.Fatalf("OpenOffline(%s) = %v", path, err)
			}
			first, last, err := o.Bounds()
			if err != nil || first != 1 || last < 12 || o.Backend != name {
				t.Errorf("Bounds() = %d, %d, %v of %s", first, last, err, o.Backend)
			}
			if term, in, who := o.Vote(); term == 0 || in != term || who == "" {
				t.Errorf("Vote() = %d, %d, %q", term, in, who)
			}
			commands := 0
			count := func(l *raft.Log) error {
				if l.Type == raft.LogCommand {
					if _, _, err := fsm.DecodeCommand(l.Data); err != nil {
						t.Error(err)
					}
					commands++
				}
				return nil
			}
			if err := o.Entries(0, count); err != nil || commands != 10 {
				t.Errorf("%d commands, %v", commands, err)
			}
			commands = 0
			if err := o.Entries(last, count); err != nil || commands != 1 {
				t.Errorf("from the last on: %d commands, %v", commands, err)
			}
			snaps, err := o.Snapshots()
			if err != nil || len(snaps) != 1 {
				t.Fatalf("Snapshots() = %v, %v", snaps, err)
			}
			r, err := o.OpenSnapshot(snaps[0].ID)
			if err != nil {
				t.Fatal(err)
			}
			store, err := fsm.ReadSnapshot(r, slog.New(slog.DiscardHandler))
			if err != nil || store.Snapshot().Namespace(nil, "ns-4") == nil || store.Snapshot().Namespace(nil, "ns-5") != nil {
				t.Errorf("the snapshot has other contents: %v", err)
			}
			r.Close()
			if err := o.Close(); err != nil {
				t.Error(err)
			}
		}
		if after := contents(t, dir); !maps.Equal(before, after) {
			t.Errorf("the directory changed:\n%v\n%v", before, after)
		}
		openWith(t, dir, name) // the directory is unlocked again
	})
}

func TestOffline_Refused(t *testing.T) {
	bothBackends(t, func(t *testing.T, name string) {
		if _, err := consensus.OpenOffline(t.TempDir()); err == nil || !strings.Contains(err.Error(), "contains no Raft log") {
			t.Errorf("an empty directory: %v", err)
		}
		dir := filled(t, name)
		s := openWith(t, dir, name)
		if _, err := consensus.OpenOffline(dir); !errors.Is(err, logstore.ErrInUse) {
			t.Errorf("running server: %v", err)
		}
		if _, err := consensus.Migrate(t.Context(), dir, nil); !errors.Is(err, logstore.ErrInUse) {
			t.Errorf("Migrate() of a running server: %v", err)
		}
		s.Close()
		o, err := consensus.OpenOffline(dir)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := consensus.Migrate(t.Context(), dir, nil); !errors.Is(err, logstore.ErrInUse) {
			t.Errorf("Migrate() of an open directory: %v", err)
		}
		snaps, err := o.Snapshots()
		if err != nil {
			t.Fatal(err)
		}
		spoil(t, filepath.Join(dir, "raft/snapshots", snaps[0].ID, "state.bin"), 20)
		if _, err := o.OpenSnapshot(snaps[0].ID); !errors.Is(err, logstore.ErrDamaged) {
			t.Errorf("OpenSnapshot() of a damaged one = %v", err)
		}
		o.Close()
		index := map[string]string{logstore.WAL: "raft/wal/wal-meta.db", logstore.Bolt: "raft/raft.db"}[name]
		if err := os.WriteFile(filepath.Join(dir, index), []byte(strings.Repeat("x", 1<<16)), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := consensus.OpenOffline(dir); !errors.Is(err, logstore.ErrDamaged) {
			t.Errorf("a damaged log: %v", err)
		}
		if _, err := tryOpen(t, dir, backend(name)); !errors.Is(err, logstore.ErrDamaged) {
			t.Errorf("Open() of a damaged log = %v", err)
		}
	})
}

// spoil changes one byte of a file.
func spoil(t *testing.T, path string, at int64) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	b := make([]byte, 1)
	if _, err := f.ReadAt(b, at); err != nil && !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
	b[0] ^= 0xff
	if _, err := f.WriteAt(b, at); err != nil {
		t.Fatal(err)
	}
}

// A log that is migrated to the other store and back is unchanged, and the server continues
// with it.
func TestMigrate(t *testing.T) {
	bothBackends(t, func(t *testing.T, name string) {
		dir := filled(t, name)
		was := entriesOf(t, dir)
		m, err := consensus.Migrate(t.Context(), filepath.Dir(dir), nil)
		if err != nil {
			t.Fatalf("Migrate() = %v", err)
		}
		if m.From != name || m.To == name || m.Entries != uint64(len(was)) {
			t.Errorf("Migrate() = %+v, the log had %d entries", m, len(was))
		}
		if is := entriesOf(t, dir); fmt.Sprint(is) != fmt.Sprint(was) {
			t.Errorf("the log has changed:\n%v\n%v", was, is)
		}
		if _, err := os.Stat(m.OldLog); err != nil {
			t.Errorf("the old log is not kept: %v", err)
		}
		if _, err := tryOpen(t, dir, backend(name)); err == nil || !strings.Contains(err.Error(), "migrate-backend") {
			t.Errorf("Open() with the old store = %v", err)
		}
		s := openWith(t, dir, m.To)
		if s.fsm.State().Snapshot().Namespace(nil, "ns-9") == nil {
			t.Error("state is lost")
		}
		s.addNamespace(t, "after")
		s.Close()
		if err := os.Rename(m.OldLog, strings.Split(m.OldLog, ".migrated")[0]); err != nil {
			t.Fatal(err)
		}
		older := map[string]string{logstore.WAL: "move wal away", logstore.Bolt: "move raft.db away"}[name]
		for _, try := range []string{logstore.WAL, logstore.Bolt} {
			_, err := tryOpen(t, dir, backend(try))
			if !errors.Is(err, logstore.ErrTwoLogs) || !strings.Contains(err.Error(), older) ||
				!strings.Contains(err.Error(), "migrate-backend was killed") {
				t.Errorf("Open() with %s and two logs = %v, want %q and the reason", try, err, older)
			}
		}
	})
}

// entriesOf lists every entry of a log, the term and the vote.
func entriesOf(t *testing.T, dir string) []string {
	t.Helper()
	o, err := consensus.OpenOffline(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer o.Close()
	var out []string
	err = o.Entries(0, func(l *raft.Log) error {
		out = append(out, fmt.Sprintf("%d %d %v %x %s", l.Index, l.Term, l.Type, l.Data, l.AppendedAt.UTC()))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	term, in, who := o.Vote()
	out[0] += fmt.Sprint(term, in, who)
	return out
}
