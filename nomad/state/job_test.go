package state_test

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/message"
)

func TestJobVersions(t *testing.T) {
	w := newWorld(t)
	first := w.job("j")
	if first.Version != 0 || first.CreateIndex != first.ModifyIndex || first.NodePool != "default" {
		t.Errorf("new job is %+v", first)
	}
	for n := range 8 {
		j := w.job("j")
		if j.Version != uint64(n+1) || j.CreateIndex != first.CreateIndex || j.JobModifyIndex != w.index {
			t.Errorf("version %d is %d, created %d, modified %d", n+1, j.Version, j.CreateIndex, j.JobModifyIndex)
		}
	}
	var kept []uint64
	for _, v := range w.snap().JobVersions(nil, "default", "j") {
		kept = append(kept, v.Version)
	}
	if fmt.Sprint(kept) != "[8 7 6 5 4 3]" {
		t.Errorf("kept versions are %v", kept)
	}
	if w.snap().JobVersion(nil, "default", "j", 2) != nil || w.snap().JobVersion(nil, "default", "j", 3) == nil {
		t.Error("the wrong versions are kept")
	}
}

func TestJobSubmission(t *testing.T) {
	w := newWorld(t)
	for n := range 8 {
		w.ok(w.RegisterJob(w.next(), &message.JobRegisterRequest{Job: &nomad.Job{ID: "j", Namespace: "default"},
			Submission: &nomad.JobSubmission{Source: fmt.Sprint("source ", n), Namespace: "evil", Version: 99}}))
	}
	if s := w.snap().JobSubmission(nil, "default", "j", 7); s == nil || s.Source != "source 7" || s.JobModifyIndex != w.index {
		t.Errorf("submission is %+v", s)
	}
	if w.snap().JobSubmission(nil, "default", "j", 1) != nil {
		t.Error("the source of a deleted version is kept")
	}
	w.ok(w.DeregisterJob(w.next(),
		&message.JobDeregisterRequest{JobID: "j", Purge: true, WriteRequest: message.WriteRequest{Namespace: "default"}}))
	if w.snap().JobSubmission(nil, "default", "j", 7) != nil {
		t.Error("the source of a purged job is kept")
	}
}

func TestEnforceIndex(t *testing.T) {
	w := newWorld(t)
	register := func(index uint64) error {
		_, err := w.RegisterJob(w.next(), &message.JobRegisterRequest{Job: &nomad.Job{ID: "j", Namespace: "default"},
			EnforceIndex: true, JobModifyIndex: index})
		return err
	}
	for _, c := range []struct {
		index func() uint64
		want  string
	}{
		{func() uint64 { return 7 }, "Enforcing job modify index 7: job does not exist"},
		{func() uint64 { return 0 }, ""},
		{func() uint64 { return 0 }, "Enforcing job modify index 0: job already exists"},
		{func() uint64 { return 1 }, "Enforcing job modify index 1: job exists with conflicting job modify index: "},
		{func() uint64 { return w.snap().Job(nil, "default", "j").JobModifyIndex }, ""},
	} {
		index := c.index()
		err := register(index)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.HasPrefix(err.Error(), c.want)) {
			t.Errorf("RegisterJob() with index %d = %v, want %q", index, err, c.want)
		}
	}
}

func TestUnknownNamespace(t *testing.T) {
	w := newWorld(t)
	if _, err := w.RegisterJob(w.next(), &message.JobRegisterRequest{Job: &nomad.Job{ID: "j", Namespace: "none"}}); err == nil {
		t.Error("a job of a namespace that does not exist is registered")
	}
}

func TestJobStatus(t *testing.T) {
	w := newWorld(t)
	expect := func(when, job, want string) {
		t.Helper()
		if got := w.status(job); got != want {
			t.Errorf("%s: job %s is %s, want %s", when, job, got, want)
		}
	}
	j := w.job("j", func(j *nomad.Job) { j.Type = nomad.JobTypeBatch })
	expect("registered", "j", "pending")
	w.place(j, nil, "a1", "a2")
	expect("placed", "j", "running")
	w.finish()
	w.report("a1", nomad.AllocClientStatusComplete)
	expect("one ended", "j", "running")
	w.report("a2", nomad.AllocClientStatusComplete)
	expect("all ended", "j", "dead")
	w.job("j", func(j *nomad.Job) { j.Type = nomad.JobTypeBatch })
	expect("registered again", "j", "pending")

	w.job("empty", func(j *nomad.Job) { j.TaskGroups[0].Count = 0 })
	w.finish()
	expect("nothing to place", "empty", "dead")

	homeless := w.job("homeless")
	w.finish()
	expect("no place, and no evaluation that waits for one", "homeless", "dead")
	w.place(homeless, nil, "h1", "h2")
	w.finish()
	w.report("h1", nomad.AllocClientStatusFailed)
	w.report("h2", nomad.AllocClientStatusFailed)
	expect("failed for good", "homeless", "dead")

	w.job("blocked")
	e := w.eval("blocked")
	e.Status = nomad.EvalStatusBlocked
	w.ok(w.UpsertEvals(w.next(), &message.EvalUpdateRequest{Evals: []*nomad.Evaluation{e}}))
	expect("blocked", "blocked", "pending")

	sys := w.job("sys", func(j *nomad.Job) { j.Type = nomad.JobTypeSystem })
	expect("system without a node", "sys", "running")
	w.finish()
	if now := w.snap().Job(nil, "default", "sys"); now.ModifyIndex != sys.ModifyIndex {
		t.Errorf("the evaluation of a system job moved its ModifyIndex from %d to %d", sys.ModifyIndex, now.ModifyIndex)
	}
	stop := &message.JobDeregisterRequest{JobID: "sys", WriteRequest: message.WriteRequest{Namespace: "default"}, Eval: w.eval("sys")}
	c := w.ok(w.DeregisterJob(w.next(), stop))
	if fmt.Sprint(c.Removed) != "[default/sys]" {
		t.Errorf("removed are %v", c.Removed)
	}
	expect("stopped, evaluation pending", "sys", "dead")
	if sys := w.snap().Job(nil, "default", "sys"); !sys.Stop || sys.Version != 1 {
		t.Errorf("stopped job has version %d, stop %t", sys.Version, sys.Stop)
	}

	w.job("cron", func(j *nomad.Job) { j.Periodic = &nomad.PeriodicConfig{} })
	expect("periodic", "cron", "running")

	rolling := w.job("rolling")
	w.ok(w.ApplyPlanResults(w.next(),
		&message.ApplyPlanResultsRequest{Job: rolling, Deployment: &nomad.Deployment{ID: "d", Namespace: "default",
			JobID: "rolling", Status: nomad.DeploymentStatusRunning}}))
	w.finish()
	expect("active deployment without allocations", "rolling", "running")

	w.ok(w.RegisterJob(w.next(), &message.JobRegisterRequest{Job: &nomad.Job{ID: "quiet", Namespace: "default", Type: nomad.JobTypeBatch}}))
	expect("never evaluated", "quiet", "pending")
	w.ok(w.Reap(w.next(), &message.EvalReapRequest{Evals: []string{w.oneEval("empty")}}))
	expect("evaluations collected", "empty", "dead")
}

// A version is stored with the status of its job at that time. A version that becomes stable gets
// the current status.
func TestVersionStatus(t *testing.T) {
	w := newWorld(t)
	j := w.job("j")
	expect := func(when string, version uint64, want string) {
		t.Helper()
		if got := w.snap().JobVersion(nil, "default", "j", version).Status; got != want {
			t.Errorf("%s: version %d is %s, want %s", when, version, got, want)
		}
	}
	expect("registered", 0, "pending")
	w.place(j, nil, "a1")
	expect("placed", 0, "pending")
	w.ok(w.SetJobStability(w.next(),
		&message.JobStabilityRequest{JobID: "j", Stable: true, WriteRequest: message.WriteRequest{Namespace: "default"}}))
	expect("stable", 0, "running")
	if now, v := w.snap().Job(nil, "default", "j"), w.snap().JobVersion(nil, "default", "j", 0); now.ModifyIndex != w.index ||
		v.ModifyIndex != w.index {
		t.Errorf("the job was modified at %d, its version at %d, want %d", now.ModifyIndex, v.ModifyIndex, w.index)
	}
	w.job("j")
	expect("registered while an allocation runs", 1, "running")
}

func TestParentCountsChildren(t *testing.T) {
	w := newWorld(t)
	w.job("tmpl", func(j *nomad.Job) { j.ParameterizedJob = &nomad.ParameterizedJobConfig{} })
	expect := func(when string, pending, running, dead int64) {
		t.Helper()
		want := nomad.JobChildrenSummary{Pending: pending, Running: running, Dead: dead}
		if got := w.snap().JobSummary(nil, "default", "tmpl").Children; *got != want {
			t.Errorf("%s: children are %+v, want %+v", when, *got, want)
		}
	}
	expect("none", 0, 0, 0)
	child := w.job("tmpl/dispatch-1", func(j *nomad.Job) { j.ParentID, j.Type = "tmpl", nomad.JobTypeBatch })
	expect("dispatched", 1, 0, 0)
	w.place(child, nil, "a1")
	w.finish()
	expect("placed", 0, 1, 0)
	w.report("a1", nomad.AllocClientStatusComplete)
	expect("ended", 0, 0, 1)
	w.ok(w.ReconcileJobSummaries(w.next()))
	expect("recounted", 0, 0, 1)
	w.ok(w.DeregisterJob(w.next(),
		&message.JobDeregisterRequest{JobID: child.ID, Purge: true, WriteRequest: message.WriteRequest{Namespace: "default"}}))
	expect("purged", 0, 0, 1)
	if got := ids(w.snap().JobChildren(nil, "default", "tmpl"), func(j *nomad.Job) string { return j.ID }); got != "[]" {
		t.Errorf("children are %s", got)
	}
	w.ok(w.ReconcileJobSummaries(w.next()))
	expect("recounted after the purge", 0, 0, 0)
}

func TestPurge(t *testing.T) {
	w := newWorld(t)
	j := w.job("j")
	w.place(j, nil, "a1")
	purge := &message.JobDeregisterRequest{JobID: "j", Purge: true, WriteRequest: message.WriteRequest{Namespace: "default"},
		Eval: w.eval("j")}
	w.ok(w.DeregisterJob(w.next(), purge))
	s := w.snap()
	if s.Job(nil, "default", "j") != nil || len(s.JobVersions(nil, "default", "j")) != 0 || s.JobSummary(nil, "default", "j") != nil {
		t.Error("something of a purged job is left")
	}
	if e := s.Eval(nil, purge.Eval.ID); e == nil || e.JobModifyIndex != w.index {
		t.Errorf("evaluation of the purge is %+v", e)
	}
	w.ok(w.DeregisterJob(w.next(), purge)) // again is no error
	stop := *purge
	stop.Purge = false
	if _, err := w.DeregisterJob(w.next(), &stop); err == nil {
		t.Error("a deleted job can be stopped")
	}
	again := w.job("j")
	w.report("a1", nomad.AllocClientStatusFailed)
	if again.Version != 0 {
		t.Errorf("version is %d", again.Version)
	}
	if got := w.snap().JobSummary(nil, "default", "j").Summary["g"]; got != (nomad.TaskGroupSummary{}) {
		t.Errorf("an allocation from before the purge is counted: %+v", got)
	}
}

func TestSummary(t *testing.T) {
	w := newWorld(t)
	j := w.job("j")
	expect := func(when string, want nomad.TaskGroupSummary) {
		t.Helper()
		if got := w.snap().JobSummary(nil, "default", "j").Summary["g"]; got != want {
			t.Errorf("%s: %+v, want %+v", when, got, want)
		}
	}
	expect("registered", nomad.TaskGroupSummary{})
	e := w.eval("j")
	e.QueuedAllocations = map[string]int{"g": 3, "other": 4}
	w.ok(w.UpsertEvals(w.next(), &message.EvalUpdateRequest{Evals: []*nomad.Evaluation{e}}))
	expect("queued", nomad.TaskGroupSummary{Queued: 3})
	w.place(j, nil, "a1", "a2")
	expect("placed", nomad.TaskGroupSummary{Queued: 1, Starting: 2})
	w.report("a1", nomad.AllocClientStatusRunning)
	w.report("a1", nomad.AllocClientStatusRunning)
	expect("running", nomad.TaskGroupSummary{Queued: 1, Starting: 1, Running: 1})
	w.report("a1", nomad.AllocClientStatusFailed)
	w.report("a2", nomad.AllocClientStatusComplete)
	expect("ended", nomad.TaskGroupSummary{Queued: 1, Failed: 1, Complete: 1})
	w.place(j, nil, "a3")
	w.ok(w.ApplyPlanResults(w.next(),
		&message.ApplyPlanResultsRequest{AllocsStopped: []*nomad.AllocationDiff{{ID: "a3", ClientStatus: "lost"}}}))
	expect("lost", nomad.TaskGroupSummary{Failed: 1, Complete: 1, Lost: 1})
	w.report("a3", nomad.AllocClientStatusRunning) // it was only silent
	expect("back", nomad.TaskGroupSummary{Failed: 1, Complete: 1, Running: 1})
	w.ok(w.ReconcileJobSummaries(w.next()))
	expect("counted anew", nomad.TaskGroupSummary{Queued: 3, Failed: 1, Complete: 1, Running: 1})
}

// TestSummaryOfGroups checks that a summary has a row for each group that the job ever had, in any
// order, before and after a restore.
func TestSummaryOfGroups(t *testing.T) {
	w := newWorld(t)
	groups := func(names ...string) func(*nomad.Job) {
		return func(j *nomad.Job) {
			j.TaskGroups = nil
			for _, name := range names {
				j.TaskGroups = append(j.TaskGroups, &nomad.TaskGroup{Name: name, Count: 1})
			}
		}
	}
	w.job("j", groups("m", "z", "a"))
	before := w.snap().JobSummary(nil, "default", "j")
	w.job("j", groups("m", "b"))
	e := w.eval("j")
	e.QueuedAllocations = map[string]int{"b": 2, "m": 1}
	w.ok(w.UpsertEvals(w.next(), &message.EvalUpdateRequest{Evals: []*nomad.Evaluation{e}}))
	want := map[string]nomad.TaskGroupSummary{"a": {}, "b": {Queued: 2}, "m": {Queued: 1}, "z": {}}
	for when, in := range map[string]*world{"written": w, "restored": w.restored()} {
		got := in.snap().JobSummary(nil, "default", "j")
		if !maps.Equal(got.Summary, want) || got.CreateIndex != before.CreateIndex || got.ModifyIndex != w.index {
			t.Errorf("%s: %+v, want the groups %v, created at %d, modified at %d", when, got, want, before.CreateIndex, w.index)
		}
	}
	if len(before.Summary) != 3 {
		t.Errorf("the summary of before has changed: %v", before.Summary)
	}
}
