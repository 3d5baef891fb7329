package supervise_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/open-nomad/open-nomad/internal/supervise"
	"github.com/open-nomad/open-nomad/internal/supervise/proc"
)

// meta is the file with the record of a task.
func (r *rig) meta(s *supervise.Spec) string {
	r.t.Helper()
	names, err := filepath.Glob(filepath.Join(r.dir, "tasks", "*", "meta"))
	if err != nil {
		r.t.Fatal(err)
	}
	for _, name := range names {
		var info proc.Task
		if raw, err := os.ReadFile(name); err == nil && json.Unmarshal(raw, &info) == nil && info.ID == s.ID {
			return name
		}
	}
	r.t.Fatalf("no record of %s", s.ID)
	return ""
}

// TestBrokenRecords has a supervisor find records that it cannot adopt: it starts and adopts the
// others. A task whose record can be read is not unknown, for it may run, and is adopted as soon
// as that is possible.
func TestBrokenRecords(t *testing.T) {
	r := newRig(t)
	c := r.client()
	good, unreadable, refused := r.spec("sleep 1000"), r.spec("sleep 1000"), r.spec("echo up; sleep 1000")
	for _, s := range []*supervise.Spec{good, unreadable, refused} {
		s.Group = nil
		r.start(c, s)
	}
	r.waitFor("output", func() bool { return r.stdout(refused) == "up\n" })
	lost, err := c.Task(t.Context(), unreadable.ID)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { end(t, lost.PID) })
	garbled, name := r.meta(unreadable), r.meta(refused)
	right, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	var info proc.Task
	if err := json.Unmarshal(right, &info); err != nil {
		t.Fatal(err)
	}
	info.Group = proc.Group{Parent: "..", Name: ".."} // which no control group is called
	wrong, err := json.Marshal(&info)
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
	r.crash()
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(garbled, "{")
	write(name, string(wrong))
	c = r.client()
	for range 2 { // the second supervisor finds them in quarantine
		if all, err := c.Tasks(t.Context()); err != nil || len(all) != 1 || all[0].ID != good.ID {
			t.Fatalf("Tasks() = %+v, %v, want the good one", all, err)
		}
		if _, err := c.Task(t.Context(), refused.ID); err == nil || errors.Is(err, proc.ErrUnknownTask) {
			t.Errorf("Task() of a quarantined one = %v, want an error that is not %v", err, proc.ErrUnknownTask)
		}
		c.Close()
		r.crash()
		c = r.client()
	}
	if _, err := c.Tasks(t.Context()); err != nil {
		t.Fatal(err)
	}
	write(filepath.Join(filepath.Dir(name)+".quarantined", "meta"), string(right))
	if task, err := c.Task(t.Context(), refused.ID); err != nil || task.PID != info.PID {
		t.Errorf("Task() when its record is right = %+v, %v, want pid %d", task, err, info.PID)
	}
	if exit, err := c.Kill(t.Context(), refused.ID); err != nil || exit.Code == 0 {
		t.Errorf("Kill() = %+v, %v", exit, err)
	}
	if err := c.Forget(t.Context(), refused.ID); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Dir(garbled) + ".quarantined"); err != nil {
		t.Errorf("the unreadable record: %v, want it kept", err)
	}
}

// end kills a process that no supervisor has any more.
func end(t *testing.T, pid int) {
	t.Helper()
	p, err := os.FindProcess(pid)
	if err == nil {
		err = p.Kill()
	}
	if err != nil {
		t.Error(err)
	}
}
