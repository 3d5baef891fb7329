package allocs_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/zclconf/go-cty/cty"
	bolt "go.etcd.io/bbolt"
	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/client"
	"github.com/open-nomad/open-nomad/client/clienttest"
	"github.com/open-nomad/open-nomad/drivers/exec2"
	"github.com/open-nomad/open-nomad/drivers/rawexec"
	"github.com/open-nomad/open-nomad/internal/companion"
	"github.com/open-nomad/open-nomad/internal/supervise"
	"github.com/open-nomad/open-nomad/nomad"
)

func TestMain(m *testing.M) {
	companion.Main()
	os.Exit(m.Run())
}

// startProcesses runs a client whose tasks are processes under a separate supervisor.
func startProcesses(t *testing.T, cfg client.Config) *clienttest.Node {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root: control groups")
	}
	log := clienttest.Log()
	super := supervise.NewClient(filepath.Join(cfg.StateDir, "supervise"), log)
	t.Cleanup(func() {
		super := supervise.NewClient(filepath.Join(cfg.StateDir, "supervise"), log)
		defer super.Close()
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := super.Shutdown(ctx); err != nil {
			t.Errorf("Shutdown() = %v", err)
		}
	})
	raw := rawexec.New(rawexec.Name, super)
	if err := raw.SetConfig(cty.ObjectVal(map[string]cty.Value{"enabled": cty.True})); err != nil {
		t.Fatal(err)
	}
	n := clienttest.StartWith(t, cfg, raw, exec2.New(exec2.Config{Name: exec2.Name, Log: log, Supervisor: super}))
	t.Cleanup(func() { super.Close() })
	return n
}

// process returns an allocation with one raw_exec task that writes its process ID to dir.
func process(dir string) *nomad.Allocation {
	a := clienttest.Alloc(map[string]any{"command": "/bin/sh", "args": []any{"-c", `echo $$ >> ` + dir + `/$NOMAD_ALLOC_ID; exec sleep 600`}})
	a.Job.TaskGroups[0].Tasks[0].Driver, a.Job.TaskGroups[0].Tasks[0].Privileged = rawexec.Name, true
	return a
}

// pids returns the processes that an allocation of process has started so far.
func pids(t *testing.T, dir string, a *nomad.Allocation) (list []int) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, a.ID))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	for _, word := range strings.Fields(string(text)) {
		pid, err := strconv.Atoi(word)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, pid)
	}
	return list
}

func lives(pid int) bool { return unix.Kill(pid, 0) == nil }

// edit changes the bucket of an allocation in the state of a stopped client.
func edit(t *testing.T, cfg client.Config, a *nomad.Allocation, change func(allocs, b *bolt.Bucket) error) {
	t.Helper()
	db, err := bolt.Open(filepath.Join(cfg.StateDir, "state.db"), 0o600, &bolt.Options{Timeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	err = db.Update(func(tx *bolt.Tx) error {
		allocs := tx.Bucket([]byte("allocations"))
		return change(allocs, allocs.Bucket([]byte(a.ID)))
	})
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
}

// Processes of allocations that could not be restored are ended; all others keep running. An
// allocation that the servers still list is run again.
func TestOrphans(t *testing.T) {
	f, dir, notes := clienttest.StartServer(t), clienttest.Dir(t), t.TempDir()
	cfg := clienttest.Config(dir, f.Addr())
	n := startProcesses(t, cfg)
	kept, unreadable, damaged, forgotten, unlisted := process(notes), process(notes), process(notes), process(notes), process(notes)
	all := []*nomad.Allocation{kept, unreadable, damaged, forgotten, unlisted}
	for _, a := range all {
		f.Place(a)
	}
	f.Until(t, "all run", func() bool {
		for _, a := range all {
			if f.Status(a) != nomad.AllocClientStatusRunning || len(pids(t, notes, a)) != 1 {
				return false
			}
		}
		return true
	})
	if err := n.Stop(); err != nil {
		t.Fatal(err)
	}
	junk := []byte("\xc1junk")
	for _, a := range []*nomad.Allocation{unreadable, unlisted} {
		edit(t, cfg, a, func(_, b *bolt.Bucket) error { return b.Put([]byte("alloc"), junk) })
	}
	edit(t, cfg, damaged, func(_, b *bolt.Bucket) error { return b.Bucket([]byte("task-main")).Put([]byte("local_state"), junk) })
	edit(t, cfg, forgotten, func(allocs, _ *bolt.Bucket) error { return allocs.DeleteBucket([]byte(forgotten.ID)) })
	f.Edit(func() {
		delete(f.Allocs, forgotten.ID)
		delete(f.Allocs, unlisted.ID)
		clear(f.Updated)
	})

	startProcesses(t, cfg)
	f.Until(t, "the damaged allocation is reported as failed", func() bool { return f.Status(damaged) == nomad.AllocClientStatusFailed })
	f.Until(t, "the listed allocation runs again", func() bool {
		return len(pids(t, notes, unreadable)) == 2 && f.Status(unreadable) == nomad.AllocClientStatusRunning
	})
	for name, a := range map[string]*nomad.Allocation{"unreadable": unreadable, "damaged": damaged, "forgotten": forgotten,
		"unlisted": unlisted} {
		if pid := pids(t, notes, a)[0]; lives(pid) {
			t.Errorf("process %d of the %s allocation still runs", pid, name)
		}
	}
	// Directories, with the secrets in them, and stored states of allocations that do not run are removed. The directory
	// without a stored state may belong to another agent that shares alloc_dir.
	f.Until(t, "the directories of the allocations that are not restored are gone", func() bool {
		entries, err := os.ReadDir(cfg.AllocDir)
		if err != nil {
			t.Fatal(err)
		}
		left := map[string]bool{}
		for _, e := range entries {
			left[e.Name()] = true
		}
		return !left[damaged.ID] && !left[unlisted.ID] && left[unreadable.ID] && left[kept.ID] && left[forgotten.ID]
	})
	if got := pids(t, notes, kept); len(got) != 1 || !lives(got[0]) {
		t.Errorf("processes of the restored allocation: %v, want one running process", got)
	}
}

// A client that never had a task does not start a supervisor to list processes.
func TestOrphans_NoSupervisorWithoutTasks(t *testing.T) {
	f := clienttest.StartServer(t)
	cfg := clienttest.Config(clienttest.Dir(t), f.Addr())
	n := startProcesses(t, cfg)
	<-n.Ready()
	if _, err := os.Stat(filepath.Join(cfg.StateDir, "supervise", "lock")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a supervisor was started: %v", err)
	}
}
