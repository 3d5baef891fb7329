package server_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/open-nomad/open-nomad/internal/supervise"
	"github.com/open-nomad/open-nomad/internal/supervise/proc"
	"github.com/open-nomad/open-nomad/internal/testpace"
)

// meta returns the file with the record of a task.
func (r *rig) meta(s *proc.Spec) string {
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

// read returns the content of a file.
func (r *rig) read(name string) string {
	r.t.Helper()
	raw, err := os.ReadFile(name)
	if err != nil {
		r.t.Fatal(err)
	}
	return string(raw)
}

func (r *rig) write(name, text string) {
	r.t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		r.t.Fatal(err)
	}
}

// listed returns the IDs of Tasks.
func (r *rig) listed(c *supervise.Client) []string {
	r.t.Helper()
	all, err := c.Tasks(r.t.Context())
	if err != nil {
		r.t.Fatal(err)
	}
	ids := make([]string, 0, len(all))
	for i := range all {
		ids = append(ids, all[i].ID)
	}
	slices.Sort(ids)
	return ids
}

// mayRun fails the test if the supervisor reports that a task does not exist.
func (r *rig) mayRun(c *supervise.Client, id string) {
	r.t.Helper()
	if _, err := c.Task(r.t.Context(), id); err == nil || errors.Is(err, proc.ErrUnknownTask) {
		r.t.Errorf("Task(%s) = %v, want an error that is not %v", id, err, proc.ErrUnknownTask)
	}
}

// unknown fails the test unless the supervisor reports that a task does not exist.
func (r *rig) unknown(c *supervise.Client, id string) {
	r.t.Helper()
	if _, err := c.Task(r.t.Context(), id); !errors.Is(err, proc.ErrUnknownTask) {
		r.t.Errorf("Task(%s) = %v, want %v", id, err, proc.ErrUnknownTask)
	}
}

// aside returns the name of a file of a quarantined record.
func aside(name string) string {
	return filepath.Join(filepath.Dir(name)+".quarantined", filepath.Base(name))
}

// refusedRecord returns the record of a task with an impossible control group.
func refusedRecord(t *testing.T, text string) string {
	t.Helper()
	var info proc.Task
	if err := json.Unmarshal([]byte(text), &info); err != nil {
		t.Fatal(err)
	}
	info.Group = proc.Group{Parent: "..", Name: ".."}
	wrong, err := json.Marshal(&info)
	if err != nil {
		t.Fatal(err)
	}
	return string(wrong)
}

// TestBrokenRecords checks that a supervisor starts despite records that it cannot adopt, and
// adopts the others. A task with a readable record is listed, cannot be started again, and is
// adopted as soon as possible.
func TestBrokenRecords(t *testing.T) {
	r := newRig(t)
	c := r.client()
	good, over, refused := r.spec("sleep 1000"), r.spec("exit 7"), r.spec("echo up; sleep 1000")
	var pid int
	for _, s := range []*proc.Spec{good, over, refused} {
		s.Group = nil
		pid = r.start(c, s).PID
	}
	r.wait(c, over.ID)
	testpace.Until(r.t, "output", func() bool { return r.stdout(refused) == "up\n" })
	meta, exit := r.meta(refused), filepath.Join(filepath.Dir(r.meta(over)), "exit")
	rightMeta, rightExit := r.read(meta), r.read(exit)
	c.Close()
	r.crash()
	r.write(meta, refusedRecord(t, rightMeta))
	r.write(exit, "{")
	for range 2 { // the second supervisor finds them in quarantine
		c = r.client()
		want := []string{good.ID, over.ID, refused.ID}
		if got := r.listed(c); !slices.Equal(got, want) {
			t.Fatalf("Tasks() = %q, want %q", got, want)
		}
		for _, s := range []*proc.Spec{over, refused} {
			r.mayRun(c, s.ID)
			if task, err := c.Start(t.Context(), s); err == nil {
				t.Errorf("Start() of a quarantined task = %+v, want an error", task)
			}
		}
		r.unknown(c, "no such task")
		c.Close()
		r.crash()
	}
	c = r.client()
	r.listed(c)
	r.write(aside(meta), rightMeta)
	r.write(aside(exit), rightExit)
	if task, err := c.Task(t.Context(), refused.ID); err != nil || task.PID != pid {
		t.Errorf("Task() after its record is repaired = %+v, %v, want pid %d", task, err, pid)
	}
	if exit, err := c.Wait(t.Context(), over.ID); err != nil || exit.Code != 7 {
		t.Errorf("Wait() after its record is repaired = %+v, %v, want code 7", exit, err)
	}
	if exit, err := c.Kill(t.Context(), refused.ID); err != nil || exit.Code == 0 {
		t.Errorf("Kill() = %+v, %v", exit, err)
	}
	if err := c.Forget(t.Context(), refused.ID); err != nil {
		t.Error(err)
	}
}

// TestUnreadableRecord checks a record that does not even name its task. Any unknown task may be
// that one, until the record becomes readable or is removed.
func TestUnreadableRecord(t *testing.T) {
	r := newRig(t)
	c := r.client()
	good, first, second := r.spec("sleep 1000"), r.spec("sleep 1000"), r.spec("sleep 1000")
	pids := map[string]int{}
	for _, s := range []*proc.Spec{good, first, second} {
		s.Group = nil
		pids[s.ID] = r.start(c, s).PID
	}
	t.Cleanup(func() { end(t, pids[second.ID]) })
	meta, removed := r.meta(first), r.meta(second)
	right := r.read(meta)
	c.Close()
	r.crash()
	r.write(meta, "{")
	r.write(removed, "")
	for range 2 {
		c = r.client()
		r.mayRun(c, first.ID)
		r.mayRun(c, second.ID)
		if task, err := c.Task(t.Context(), good.ID); err != nil || task.PID != pids[good.ID] {
			t.Errorf("Task() of another = %+v, %v, want pid %d", task, err, pids[good.ID])
		}
		c.Close()
		r.crash()
	}
	c = r.client()
	r.mayRun(c, first.ID)
	other := r.spec("true") // not started yet
	r.start(c, other)
	r.write(aside(meta), right)
	if task, err := c.Task(t.Context(), first.ID); err != nil || task.PID != pids[first.ID] {
		t.Errorf("Task() after its record is repaired = %+v, %v, want pid %d", task, err, pids[first.ID])
	}
	r.mayRun(c, second.ID)
	if err := os.RemoveAll(filepath.Dir(aside(removed))); err != nil {
		t.Fatal(err)
	}
	r.unknown(c, second.ID)
}

// TestRecordOfEarlierBoot checks that an unreadable record from an earlier boot, as after a power
// failure, is removed.
func TestRecordOfEarlierBoot(t *testing.T) {
	r := newRig(t)
	c := r.client()
	s := r.spec("sleep 1000")
	s.Group = nil
	pid := r.start(c, s).PID
	meta := r.meta(s)
	c.Close()
	r.crash()
	end(t, pid)
	r.write(meta, "")
	boot := r.read("/proc/sys/kernel/random/boot_id")
	if got := r.read(filepath.Join(r.dir, "lock")); got+"\n" != boot {
		t.Fatalf("the lock file holds %q, want the boot ID %q", got, boot)
	}
	r.write(filepath.Join(r.dir, "lock"), "00000000-0000-0000-0000-000000000000")
	r.unknown(r.client(), s.ID)
	if _, err := os.Stat(filepath.Dir(meta)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the record of an earlier boot: %v, want it removed", err)
	}
}

// end kills a process without a supervisor.
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
