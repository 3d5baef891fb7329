package consensus_test

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"github.com/open-nomad/open-nomad/internal/testpace"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/consensus"
	"github.com/open-nomad/open-nomad/nomad/consensus/logstore"
	"github.com/open-nomad/open-nomad/nomad/fsm"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// server is a log with a real FSM.
type server struct {
	*consensus.Raft
	fsm *fsm.FSM
}

func open(t testing.TB, dir string) server {
	t.Helper()
	s, err := tryOpen(t, dir)
	if err != nil {
		t.Fatalf("Open() = %v", err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func tryOpen(t testing.TB, dir string, edit ...func(*consensus.Config)) (server, error) {
	f := fsm.New(state.New(nil), nil, nil)
	c := consensus.Config{FSM: f, Dir: dir, Bootstrap: true, Address: "127.0.0.1:4647"}
	for _, do := range edit {
		do(&c)
	}
	r, err := consensus.Open(c)
	return server{r, f}, err
}

// lead waits until s is the leader and has applied its log.
func (s server) lead(t testing.TB) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for {
		select {
		case is := <-s.Leadership():
			if !is {
				continue
			}
			if err := s.Barrier(ctx); err != nil {
				t.Fatalf("Barrier() = %v", err)
			}
			return
		case <-ctx.Done():
			t.Fatal("no leadership")
		}
	}
}

func (s server) addNamespace(t testing.TB, name string) uint64 {
	t.Helper()
	return s.addDescribed(t, name, 0)
}

// addDescribed adds a namespace with a description of size bytes.
func (s server) addDescribed(t testing.TB, name string, size int) uint64 {
	t.Helper()
	index, err := s.Apply(t.Context(), message.NamespaceUpsertRequestType,
		&message.NamespaceUpsertRequest{Namespaces: []*nomad.Namespace{{Name: name, Description: strings.Repeat("d", size)}}})
	if err != nil {
		t.Fatalf("Apply(%s) = %v", name, err)
	}
	return index
}

// A single voter starts its election at once. Timers are ten times as long in this test, so an
// election by timer would take ten seconds.
func TestOpen_LeaderAtOnce(t *testing.T) {
	for name, dir := range map[string]string{"memory": "", "disk": t.TempDir()} {
		t.Run(name, func(t *testing.T) {
			testpace.Once(t, 9*time.Second, "the election", func() time.Duration {
				begun := time.Now()
				s, err := tryOpen(t, dir, func(c *consensus.Config) { c.Tuning.Multiplier = 10 })
				if err != nil {
					t.Fatalf("Open() = %v", err)
				}
				defer s.Close()
				s.lead(t)
				if addr, id := s.Leader(); addr != "127.0.0.1:4647" || id != s.ID() {
					t.Errorf("Leader() = %q, %q", addr, id)
				}
				return time.Since(begun)
			})
		})
	}
}

func TestDurability(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	s.lead(t)
	id := s.ID()
	index := s.addNamespace(t, "one")
	crashed := t.TempDir()
	copyTree(t, dir, crashed) // what a power failure would leave after the answer
	if err := s.Snapshot(); err != nil {
		t.Fatal(err)
	}
	s.addNamespace(t, "two")
	if err := s.Close(); err != nil {
		t.Fatalf("Close() = %v", err)
	}
	for _, c := range []struct {
		dir  string
		want []string
	}{{crashed, []string{"one"}}, {dir, []string{"one", "two"}}} {
		again := open(t, c.dir)
		again.lead(t)
		if again.ID() != id {
			t.Errorf("ID() = %s, want %s", again.ID(), id)
		}
		snap := again.fsm.State().Snapshot()
		for _, name := range c.want {
			if ns := snap.Namespace(nil, name); ns == nil {
				t.Errorf("namespace %s is lost", name)
			} else if name == "one" && ns.CreateIndex != index {
				t.Errorf("CreateIndex = %d, want %d", ns.CreateIndex, index)
			}
		}
	}
}

func TestPrivateFiles(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "server")
	s := open(t, dir)
	s.lead(t)
	s.addNamespace(t, "one")
	if err := s.Snapshot(); err != nil {
		t.Fatal(err)
	}
	files := 0
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		want := fs.FileMode(0o600)
		if d.IsDir() {
			want = 0o700
		} else {
			files++
		}
		if got := info.Mode().Perm(); got != want {
			t.Errorf("%s has mode %o, want %o", path, got, want)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if files < 5 { // node-id, version, log, its index, two files of a snapshot
		t.Errorf("only %d files below %s", files, dir)
	}
}

func TestOpen_InUse(t *testing.T) {
	dir := t.TempDir()
	first := open(t, dir)
	first.lead(t)
	first.addNamespace(t, "one")
	_, err := tryOpen(t, dir)
	if !errors.Is(err, logstore.ErrInUse) {
		t.Fatalf("Open() = %v, want ErrInUse", err)
	}
	if strings.Contains(err.Error(), "\n") {
		t.Errorf("error has several lines: %q", err)
	}
	first.addNamespace(t, "two") // the first continues
}

func TestDamage(t *testing.T) {
	damage := func(path, text string) func(*testing.T, string) {
		return func(t *testing.T, dir string) {
			if err := os.WriteFile(filepath.Join(dir, path), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	for name, c := range map[string]struct {
		damage func(*testing.T, string)
		want   string
	}{
		"version of the future": {damage("raft/version", "4"), "downgrade"},
		"version unreadable":    {damage("raft/version", "x"), "raft/version is damaged"},
		"node ID unreadable":    {damage("node-id", "nobody"), "node-id is damaged"},
		"other log store":       {damage("raft/raft.db", ""), "there are two logs"},
		"log index":             {damage("raft/wal/wal-meta.db", strings.Repeat("x", 1<<16)), "raft log is damaged"},
		"log index, pages":      {zeroPages, "raft log is damaged"},
		"log index missing": {func(t *testing.T, dir string) { remove(t, filepath.Join(dir, "raft/wal/wal-meta.db")) },
			"raft log is damaged"},
		"log segment missing":  {func(t *testing.T, dir string) { remove(t, segmentOf(t, dir)) }, "raft log is damaged"},
		"segment header":       {overwrite(0, "not a log segment, no"), "raft log is damaged"},
		"first frame's type":   {overwrite(32, "\x09"), "raft log is damaged"},
		"first frame zeroed":   {overwrite(32, strings.Repeat("\x00", 16)), "raft log is damaged"},
		"first frame's length": {overwrite(36, "\xff\xff\xff\x7f"), "raft log is damaged"},
		"one byte in an entry": {overwrite(80, "\xff"), "raft log is damaged"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			s := open(t, dir)
			s.lead(t)
			s.addNamespace(t, "one")
			s.Close()
			c.damage(t, dir)
			before := sizes(t, dir)
			_, err := tryOpen(t, dir)
			if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("Open() = %v, want one line with %q", err, c.want)
			}
			for path, size := range before {
				if got := sizes(t, dir)[path]; got != size {
					t.Errorf("%s has %d bytes, had %d", path, got, size)
				}
			}
		})
	}
}

func remove(t *testing.T, path string) {
	t.Helper()
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
}

// zeroPages overwrites all of the log's index except its header.
func zeroPages(t *testing.T, dir string) {
	t.Helper()
	path := filepath.Join(dir, "raft/wal/wal-meta.db")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	clear(text[2*os.Getpagesize():])
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
}

// segmentOf returns the only segment of the log.
func segmentOf(t *testing.T, dir string) string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(dir, "raft/wal/*.wal"))
	if err != nil || len(found) != 1 {
		t.Fatalf("segments are %v, %v", found, err)
	}
	return found[0]
}

// overwrite returns a function that writes text into the log at an offset.
func overwrite(at int64, text string) func(*testing.T, string) {
	return func(t *testing.T, dir string) {
		t.Helper()
		f, err := os.OpenFile(segmentOf(t, dir), os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if _, err := f.WriteAt([]byte(text), at); err != nil {
			t.Fatal(err)
		}
	}
}

// TestTornWrite truncates the last batch, like a crash. The server starts with everything
// before it.
func TestTornWrite(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	s.lead(t)
	s.addNamespace(t, "one")
	end := dataEnd(t, dir)
	s.addNamespace(t, "two")
	s.Close()
	overwrite(dataEnd(t, dir)-16, strings.Repeat("\x00", 16))(t, dir)
	if dataEnd(t, dir) <= end {
		t.Fatal("the second entry is completely missing")
	}
	again := open(t, dir)
	again.lead(t)
	snap := again.fsm.State().Snapshot()
	if snap.Namespace(nil, "one") == nil || snap.Namespace(nil, "two") != nil {
		t.Error("state differs from the complete entries of the log")
	}
}

// Only the commit frame of the batch before the last is damaged. Its entries were acknowledged,
// so this is not a torn write.
func TestDamagedCommit(t *testing.T) {
	for name, text := range map[string]string{"zeros": "\x00\x00\x00\x00\x00\x00\x00\x00", "type": "\x07",
		"an entry's": "\x01\x00\x00\x00\x10\x00\x00\x00", "a long entry's": "\x01\x00\x00\x00\x00\x00\x10\x00",
		"beyond the end": "\x01\x00\x00\x00\xff\xff\xff\xff"} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			s := open(t, dir)
			s.lead(t)
			s.addNamespace(t, "one")
			at := dataEnd(t, dir) - 8
			s.addNamespace(t, "two")
			s.Close()
			overwrite(at, text)(t, dir)
			if _, err := tryOpen(t, dir); !errors.Is(err, logstore.ErrDamaged) {
				t.Errorf("Open() = %v, want ErrDamaged", err)
			}
		})
	}
}

// Data after the last complete batch is never taken for an entry, neither at this start nor at
// the next.
func TestDataAfterLastBatch(t *testing.T) {
	entry := "\x01\x00\x00\x00\x08\x00\x00\x00garbage!"
	commit := "\x03\x00\x00\x00oops"
	for name, text := range map[string]string{"random": "no frame at all, but bytes", "entry": entry, "commit": commit,
		"commits": entry + commit + entry + commit + commit, "cut": entry[:11]} {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // each waits for elections
			dir := t.TempDir()
			s := open(t, dir)
			s.lead(t)
			s.addNamespace(t, "one")
			s.Close()
			overwrite(dataEnd(t, dir), text)(t, dir)
			for _, next := range []string{"two", "three"} {
				again := open(t, dir)
				again.lead(t)
				again.addNamespace(t, next)
				again.Close()
			}
			last := open(t, dir)
			last.lead(t)
			for _, want := range []string{"one", "two", "three"} {
				if last.fsm.State().Snapshot().Namespace(nil, want) == nil {
					t.Errorf("namespace %s is lost", want)
				}
			}
		})
	}
}

// dataEnd returns where the written part of the log ends.
func dataEnd(t *testing.T, dir string) int64 {
	t.Helper()
	text, err := os.ReadFile(segmentOf(t, dir))
	if err != nil {
		t.Fatal(err)
	}
	return int64(len(strings.TrimRight(string(text), "\x00"))+7) &^ 7
}

func TestApply_Errors(t *testing.T) {
	s := open(t, "")
	s.lead(t)
	_, err := s.Apply(t.Context(), message.NamespaceDeleteRequestType, &message.NamespaceDeleteRequest{Namespaces: []string{"none"}})
	if err == nil || !strings.Contains(err.Error(), "not found") {
		t.Errorf("Apply() = %v, want the FSM's error", err)
	}
	s.Close()
	_, err = s.Apply(t.Context(), message.NamespaceDeleteRequestType, &message.NamespaceDeleteRequest{})
	if err == nil {
		t.Error("Apply() after Close() succeeds")
	}
}

func TestNotLeader(t *testing.T) {
	_, trans := raft.NewInmemTransport("")
	r, err := consensus.Open(consensus.Config{FSM: fsm.New(state.New(nil), nil, nil), Transport: trans})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	_, err = r.Apply(t.Context(), message.NamespaceUpsertRequestType, &message.NamespaceUpsertRequest{})
	if !errors.Is(err, apierror.ErrNoLeader) {
		t.Errorf("Apply() = %v, want ErrNoLeader", err)
	}
	if errors.Is(err, consensus.ErrMaybeApplied) {
		t.Errorf("Apply() = %v, which means that the command may have been applied", err)
	}
}

// sizes returns the size of every file below dir.
func sizes(t *testing.T, dir string) map[string]int64 {
	t.Helper()
	out := map[string]int64{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err == nil {
			out[path] = info.Size()
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// copyTree copies a directory as it is now.
func copyTree(t *testing.T, from, to string) {
	t.Helper()
	err := filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(from, path)
		target := filepath.Join(to, rel)
		if d.IsDir() {
			return os.MkdirAll(target, 0o700)
		}
		in, err := os.Open(path)
		if err != nil {
			return err
		}
		defer in.Close()
		out, err := os.Create(target)
		if err != nil {
			return err
		}
		_, err = io.Copy(out, in)
		return errors.Join(err, out.Close())
	})
	if err != nil {
		t.Fatal(err)
	}
}

func BenchmarkApplyDisk(b *testing.B) {
	s := open(b, b.TempDir())
	s.lead(b)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			s.addNamespace(b, "one")
		}
	})
}

// A writer always gets a result when raft shuts down, even if raft never read its command.
func TestApply_Closing(t *testing.T) {
	s := open(t, "")
	s.lead(t)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	contacted := make(chan error)
	const writers = 300 // more than raft accepts at once
	for range writers {
		go func() {
			var err error
			for err == nil {
				_, err = s.Apply(context.Background(), message.ReconcileJobSummariesRequestType, &message.GenericRequest{})
			}
			contacted <- err
		}()
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	for range writers {
		select {
		case err := <-contacted:
			if !errors.Is(err, consensus.ErrMaybeApplied) && !errors.Is(err, apierror.ErrNoLeader) {
				t.Errorf("Apply() = %v", err)
			}
		case <-ctx.Done():
			t.Fatal("a caller never returns")
		}
	}
}
