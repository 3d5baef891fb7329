package state_test

import (
	"crypto/rand"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/client/state"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/idtoken"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

func open(t *testing.T, dir string) *state.DB {
	t.Helper()
	db, err := state.Open(state.Config{Dir: dir, NoSync: true, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatalf("Open() = %v", err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

// reopen closes and opens the database, like a restarted agent.
func reopen(t *testing.T, db *state.DB, dir string) *state.DB {
	t.Helper()
	if err := db.Close(); err != nil {
		t.Fatalf("Close() = %v", err)
	}
	return open(t, dir)
}

func TestAllocationSurvivesRestart(t *testing.T) {
	dir := t.TempDir()
	db := open(t, dir)
	alloc := &nomad.Allocation{ID: nomad.NewID(), NodeID: "n", Namespace: "default", JobID: "web", AllocModifyIndex: 7,
		Job: &nomad.Job{ID: "web"}}
	db.PutAllocWithNext(alloc)
	want := state.Task{
		Local: &state.LocalState{
			Hooks:      map[string]*state.HookState{"identity": {PrestartDone: true, Data: map[string]string{"a": "b"}}},
			TaskHandle: &drivers.TaskHandle{Driver: "exec2", Version: 1, TaskID: "x", State: []byte{1, 2}},
		},
		State: &nomad.TaskState{State: nomad.TaskStateRunning, StartedAt: time.Now().UTC()},
	}
	if err := db.PutTask(alloc.ID, "main", want); err != nil {
		t.Fatal(err)
	}
	ids := []*message.SignedWorkloadIdentity{{JWT: "a.b.c", Expiration: time.Unix(99, 0).UTC()}}
	if err := db.PutIdentities(alloc.ID, ids); err != nil {
		t.Fatal(err)
	}

	db = reopen(t, db, dir)
	allocs, errs := db.Allocs()
	if len(errs) > 0 || len(allocs) != 1 || allocs[0].ID != alloc.ID || allocs[0].AllocModifyIndex != 7 || allocs[0].Job.ID != "web" {
		t.Fatalf("Allocs() = %+v, %v", allocs, errs)
	}
	tasks, err := db.Tasks(alloc.ID)
	if err != nil || !reflect.DeepEqual(tasks, map[string]state.Task{"main": want}) {
		t.Fatalf("Tasks() = %+v, %v, want %+v", tasks, err, want)
	}
	got, err := db.Identities(alloc.ID)
	if err != nil || len(got) != 1 || got[0].JWT != "a.b.c" || !got[0].Expiration.Equal(ids[0].Expiration) {
		t.Fatalf("Identities() = %+v, %v", got, err)
	}

	if err := db.DeleteAlloc(alloc.ID); err != nil {
		t.Fatal(err)
	}
	allocs, errs = db.Allocs()
	if tasks, err := db.Tasks(alloc.ID); len(allocs) != 0 || len(errs) != 0 || len(tasks) != 0 || err != nil {
		t.Fatalf("after DeleteAlloc: allocs %v, %v, tasks %v, %v", allocs, errs, tasks, err)
	}
}

func TestPutTaskKeepsTheOtherField(t *testing.T) {
	db := open(t, t.TempDir())
	if err := db.PutTask("a", "main", state.Task{Local: &state.LocalState{RunComplete: true}}); err != nil {
		t.Fatal(err)
	}
	if err := db.PutTask("a", "main", state.Task{State: &nomad.TaskState{State: nomad.TaskStateDead}}); err != nil {
		t.Fatal(err)
	}
	tasks, err := db.Tasks("a")
	if err != nil || tasks["main"].Local == nil || !tasks["main"].Local.RunComplete || tasks["main"].State == nil {
		t.Fatalf("Tasks() = %+v, %v", tasks, err)
	}
}

func TestNodeStateSurvivesRestart(t *testing.T) {
	dir := t.TempDir()
	db := open(t, dir)
	if tok, err := db.NodeIdentity(); err != nil || !tok.IsZero() {
		t.Fatalf("NodeIdentity() of an empty database = %v, %v", tok, err)
	}
	if reg, err := db.NodeRegistration(); err != nil || reg != nil {
		t.Fatalf("NodeRegistration() of an empty database = %v, %v", reg, err)
	}
	if err := db.PutNodeIdentity(idtoken.New("h.p.s", "k")); err != nil {
		t.Fatal(err)
	}
	if err := db.PutNodeRegistration(&nomad.NodeRegistration{HasRegistered: true}); err != nil {
		t.Fatal(err)
	}
	db = reopen(t, db, dir)
	if tok, err := db.NodeIdentity(); err != nil || tok.Reveal() != "h.p.s" {
		t.Errorf("NodeIdentity() = %v, %v", tok, err)
	}
	if reg, err := db.NodeRegistration(); err != nil || reg == nil || !reg.HasRegistered {
		t.Errorf("NodeRegistration() = %v, %v", reg, err)
	}
}

// Put returns after its commit, also with many concurrent writers. The last write of a caller
// wins.
func TestManyWriters(t *testing.T) {
	dir := t.TempDir()
	db := open(t, dir)
	var wg sync.WaitGroup
	for _, task := range strings.Split("abcdefgh", "") {
		wg.Go(func() {
			for n := range uint64(50) {
				if err := db.PutTaskLater("alloc", task, state.Task{State: &nomad.TaskState{Restarts: 1000 + n}}); err != nil {
					t.Error(err)
				}
				if err := db.PutTask("alloc", task, state.Task{State: &nomad.TaskState{Restarts: n}}); err != nil {
					t.Error(err)
				}
				tasks, err := db.Tasks("alloc")
				if err != nil || tasks[task].State.Restarts != n {
					t.Errorf("task %s: Restarts = %d, %v, want %d", task, tasks[task].State.Restarts, err, n)
				}
			}
		})
	}
	wg.Wait()
}

func TestQueuedIsCommittedByClose(t *testing.T) {
	dir := t.TempDir()
	db := open(t, dir)
	for range 100 {
		id := nomad.NewID()
		db.PutAllocWithNext(&nomad.Allocation{ID: id, NodeID: "n"})
		if err := db.PutTaskLater(id, "main", state.Task{State: &nomad.TaskState{}}); err != nil {
			t.Fatal(err)
		}
	}
	db.PutAllocWithNext(&nomad.Allocation{ID: nomad.NewID(), NodeID: "n"})
	db = reopen(t, db, dir)
	if allocs, errs := db.Allocs(); len(allocs) != 101 || len(errs) != 0 {
		t.Fatalf("%d allocations, %v, want 101", len(allocs), errs)
	}
}

// Writes with WithNext are visible, in order, after the next write.
func TestWithNext(t *testing.T) {
	db := open(t, t.TempDir())
	for n := range uint64(3) {
		if err := db.PutTaskWithNext("alloc", "main", state.Task{State: &nomad.TaskState{Restarts: n}}); err != nil {
			t.Fatal(err)
		}
	}
	if tasks, err := db.Tasks("alloc"); err != nil || len(tasks) != 0 {
		t.Fatalf("Tasks() = %v, %v: a write with WithNext started a commit", tasks, err)
	}
	if err := db.PutTask("alloc", "main", state.Task{Local: &state.LocalState{RunComplete: true}}); err != nil {
		t.Fatal(err)
	}
	tasks, err := db.Tasks("alloc")
	if err != nil || tasks["main"].State == nil || tasks["main"].State.Restarts != 2 || !tasks["main"].Local.RunComplete {
		t.Fatalf("Tasks() = %+v, %v, want both writes", tasks, err)
	}
}

// An allocation is marked until a commit contains it, so that the agent after a killed one knows of it.
func TestUncommitted(t *testing.T) {
	db := open(t, t.TempDir())
	id := nomad.NewID()
	for _, put := range []func(){
		func() { db.PutAllocWithNext(&nomad.Allocation{ID: id, NodeID: "n"}) },
		func() { db.PutAllocWithNext(&nomad.Allocation{ID: id, NodeID: "n", ModifyIndex: 2}) },
	} {
		put()
		if got, err := db.Uncommitted(); err != nil || !slices.Equal(got, []string{id}) {
			t.Errorf("Uncommitted() = %v, %v, want %s", got, err, id)
		}
		if err := db.PutBoot("boot"); err != nil {
			t.Fatal(err)
		}
		if got, err := db.Uncommitted(); err != nil || len(got) != 0 {
			t.Errorf("Uncommitted() after a commit = %v, %v, want none", got, err)
		}
	}
}

// BenchmarkStart measures the writes before a process may start: one commit.
func BenchmarkStart(b *testing.B) {
	db, err := state.Open(state.Config{Dir: b.TempDir(), Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		b.Fatal(err)
	}
	defer db.Close()
	for n := 0; b.Loop(); n++ {
		id := strconv.Itoa(n % 100)
		db.PutAllocWithNext(&nomad.Allocation{ID: id, NodeID: "n"})
		err := errors.Join(
			db.PutTaskWithNext(id, "main", state.Task{State: &nomad.TaskState{State: nomad.TaskStatePending}}),
			db.PutTaskWithNext(id, "main", state.Task{State: &nomad.TaskState{State: nomad.TaskStatePending}}),
			db.PutTask(id, "main", state.Task{Local: &state.LocalState{}}))
		if err != nil {
			b.Fatal(err)
		}
	}
}

func TestPutAfterClose(t *testing.T) {
	db := open(t, t.TempDir())
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if err := db.PutAlloc(&nomad.Allocation{ID: "a"}); !errors.Is(err, state.ErrClosed) {
		t.Fatalf("PutAlloc() = %v, want ErrClosed", err)
	}
}

func TestModes(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "client")
	open(t, dir)
	for name, want := range map[string]os.FileMode{dir: 0o700, filepath.Join(dir, "state.db"): 0o600} {
		info, err := os.Stat(name)
		if err != nil || info.Mode().Perm() != want {
			t.Errorf("mode of %s = %v, %v, want %v", name, info.Mode().Perm(), err, want)
		}
	}
}

func TestSecondAgentFailsFast(t *testing.T) {
	dir := t.TempDir()
	open(t, dir)
	begun := time.Now()
	db, err := state.Open(state.Config{Dir: dir, Log: slog.New(slog.DiscardHandler)})
	if !errors.Is(err, state.ErrInUse) {
		t.Fatalf("Open() = %v, %v, want ErrInUse", db, err)
	}
	if took := time.Since(begun); took > time.Minute {
		t.Errorf("failed after %v", took)
	}
	if strings.Contains(err.Error(), "\n") {
		t.Errorf("more than one line: %q", err)
	}
}

// A damaged file is refused with a one-line error and stays unchanged.
func TestCorruptFile(t *testing.T) {
	intact := func(t *testing.T) []byte {
		dir := t.TempDir()
		db := open(t, dir)
		for range 200 {
			if err := db.PutAlloc(&nomad.Allocation{ID: nomad.NewID(), NodeID: "n", Name: strings.Repeat("x", 500)}); err != nil {
				t.Fatal(err)
			}
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(filepath.Join(dir, "state.db"))
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	cases := map[string]func(b []byte) []byte{
		"garbage":       func([]byte) []byte { return []byte(strings.Repeat("not a database file\n", 1000)) },
		"truncated":     func(b []byte) []byte { return b[:len(b)/2] },
		"one page":      func(b []byte) []byte { return b[:4096] },
		"zeroed middle": func(b []byte) []byte { clear(b[4*4096 : len(b)*3/4]); return b },
		"cut in a page": func(b []byte) []byte { return b[:len(b)/2/4096*4096+100] },
		"short":         func(b []byte) []byte { return b[:100] },
		"half zero":     func(b []byte) []byte { clear(b[2*4096:]); return b },
		"random pages":  func(b []byte) []byte { rand.Read(b[4*4096 : len(b)*3/4]); return b },
		"all random":    func(b []byte) []byte { rand.Read(b); return b },
		"metas gone":    func(b []byte) []byte { clear(b[:2*4096]); return b },
	}
	for name, damage := range cases {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, "state.db")
			damaged := damage(intact(t))
			if err := os.WriteFile(path, damaged, 0o600); err != nil {
				t.Fatal(err)
			}
			db, err := state.Open(state.Config{Dir: dir, Log: slog.New(slog.DiscardHandler)})
			if !errors.Is(err, state.ErrCorrupt) {
				t.Fatalf("Open() = %v, %v, want ErrCorrupt", db, err)
			}
			if strings.Contains(err.Error(), "\n") {
				t.Errorf("more than one line: %q", err)
			}
			after, err := os.ReadFile(path)
			if err != nil || string(after) != string(damaged) {
				t.Errorf("the file was changed: %v", err)
			}
		})
	}
}

func TestUnwritableDirectory(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "plain")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	db, err := state.Open(state.Config{Dir: filepath.Join(file, "client"), Log: slog.New(slog.DiscardHandler)})
	if err == nil || strings.Contains(err.Error(), "\n") {
		t.Fatalf("Open() = %v, %v, want an error of one line", db, err)
	}
}

func BenchmarkPut(b *testing.B) {
	db, err := state.Open(state.Config{Dir: b.TempDir(), Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		b.Fatal(err)
	}
	defer db.Close()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if err := db.PutTask("alloc", "task", state.Task{State: &nomad.TaskState{State: nomad.TaskStateRunning}}); err != nil {
				b.Error(err)
			}
		}
	})
}
