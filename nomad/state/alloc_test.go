package state_test

import (
	"fmt"
	"iter"
	"testing"
	"time"

	memdb "github.com/hashicorp/go-memdb"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/codec"
	"github.com/open-nomad/open-nomad/nomad/message"
)

func TestPlanResults(t *testing.T) {
	w := newWorld(t)
	w.node("n1")
	j := w.job("j")
	e := w.eval("j")
	w.ok(w.UpsertEvals(w.next(), &message.EvalUpdateRequest{Evals: []*nomad.Evaluation{e}}))
	wire := *j // as it comes out of the log: another pointer, the same content
	c := w.ok(w.ApplyPlanResults(w.next(),
		&message.ApplyPlanResultsRequest{Job: &wire, EvalID: e.ID, UpdatedAt: 3, AllocsUpdated: []*nomad.Allocation{
			{ID: "a1", Namespace: "default", JobID: "j", TaskGroup: "g", NodeID: "n1", ClientStatus: "pending", SigningKeyID: "k1",
				SignedIdentities: map[string]string{"t": "x"}}}}))
	if len(c.Evals) != 0 {
		t.Error("the evaluation of a plan is reported as new work")
	}
	a := w.snap().Alloc(nil, "a1")
	if a.Job != j || a.CreateIndex != w.index || a.AllocModifyIndex != w.index {
		t.Errorf("allocation is %+v", a)
	}
	if got := w.snap().Eval(nil, e.ID); got.ModifyIndex != w.index || got.Status != "pending" {
		t.Errorf("evaluation is %+v", got)
	}
	w.report("a1", "running", func(a *nomad.Allocation) { a.TaskStates = map[string]*nomad.TaskState{"t": {State: "running"}} })
	created := a.CreateIndex

	w.place(j, func(a *nomad.Allocation) { a.NodeID = "n1"; a.CreateTime = 99 }, "a1") // in place
	a = w.snap().Alloc(nil, "a1")
	if a.ClientStatus != "running" || a.TaskStates["t"] == nil || a.CreateIndex != created || a.CreateTime != 0 || a.SigningKeyID != "k1" ||
		a.SignedIdentities["t"] != "x" {
		t.Errorf("after an update in place the allocation is %+v", a)
	}

	w.place(j, func(a *nomad.Allocation) { a.PreviousAllocation = "a1" }, "a2")
	if next := w.snap().Alloc(nil, "a1").NextAllocation; next != "a2" {
		t.Errorf("next allocation is %q", next)
	}
	c = w.ok(w.ApplyPlanResults(w.next(), &message.ApplyPlanResultsRequest{
		AllocsStopped: []*nomad.AllocationDiff{{ID: "a1", DesiredDescription: "why", ClientStatus: "lost", ModifyTime: 7,
			FollowupEvalID: "f"}, {ID: "gone"}},
		AllocsPreempted: []*nomad.AllocationDiff{{ID: "a2", PreemptedByAllocation: "a9"}},
		PreemptionEvals: []*nomad.Evaluation{{ID: "pe", Namespace: "default", JobID: "j", Status: "pending"}}}))
	a = w.snap().Alloc(nil, "a1")
	if a.DesiredStatus != "stop" || a.DesiredDescription != "why" || a.ClientStatus != "lost" || a.FollowupEvalID != "f" ||
		a.ModifyTime != 7 || a.NextAllocation != "a2" {
		t.Errorf("stopped allocation is %+v", a)
	}
	if a = w.snap().Alloc(nil, "a2"); a.DesiredStatus != "evict" || a.PreemptedByAllocation != "a9" ||
		a.DesiredDescription != "Preempted by alloc ID a9" {
		t.Errorf("preempted allocation is %+v", a)
	}
	if len(c.Stopped) != 0 || len(c.Evals) != 1 || c.Evals[0].ID != "pe" {
		t.Errorf("changes are %+v", c)
	}
}

func TestPlanWithoutJob(t *testing.T) {
	w := newWorld(t)
	j := w.job("j")
	w.ok(w.ApplyPlanResults(w.next(),
		&message.ApplyPlanResultsRequest{AllocsUpdated: []*nomad.Allocation{{ID: "a1", Namespace: "default", JobID: "j"}}}))
	if w.snap().Alloc(nil, "a1").Job != j {
		t.Error("the allocation did not get the job of state")
	}
	_, err := w.ApplyPlanResults(w.next(),
		&message.ApplyPlanResultsRequest{AllocsUpdated: []*nomad.Allocation{{ID: "a2", Namespace: "default", JobID: "none"}}})
	if err == nil || w.snap().Alloc(nil, "a2") != nil {
		t.Errorf("ApplyPlanResults() = %v for an allocation without a job", err)
	}
}

func TestClientOwnsItsFieldsOnly(t *testing.T) {
	w := newWorld(t)
	j := w.job("j")
	w.place(j, nil, "a1")
	healthy := true
	before := w.snap().Alloc(nil, "a1")
	c := w.report("a1", "running", func(a *nomad.Allocation) {
		a.NodeID, a.JobID, a.Namespace, a.DesiredStatus, a.SigningKeyID = "evil", "evil", "evil", "stop", "evil"
		a.Job = &nomad.Job{ID: "evil"}
		a.DeploymentStatus = &nomad.AllocDeploymentStatus{Healthy: &healthy, Canary: true}
		a.NetworkStatus = &nomad.AllocNetworkStatus{Address: "10.0.0.1"}
	})
	a := w.snap().Alloc(nil, "a1")
	if a.NodeID != "n1" || a.JobID != "j" || a.Namespace != "default" || a.DesiredStatus != "run" || a.SigningKeyID != "" || a.Job != j {
		t.Errorf("the client changed fields of the servers: %+v", a)
	}
	if a.ClientStatus != "running" || a.ModifyTime != 9 || a.NetworkStatus.Address != "10.0.0.1" || !*a.DeploymentStatus.Healthy ||
		a.DeploymentStatus.Canary {
		t.Errorf("allocation is %+v", a)
	}
	if a.ModifyIndex != w.index || a.AllocModifyIndex != before.AllocModifyIndex {
		t.Error("an update of a client must not make it fetch the allocation again")
	}
	if before.ClientStatus != "pending" {
		t.Error("a row was written to")
	}
	if len(c.Allocs) != 1 || len(c.Stopped) != 0 {
		t.Errorf("changes are %+v", c)
	}
	if c := w.report("a1", "running",
		func(a *nomad.Allocation) { a.DeploymentStatus = &nomad.AllocDeploymentStatus{Healthy: &healthy} }); len(c.Allocs) != 0 {
		t.Error("an update without changes is reported")
	}
	w.report("none", "running") // collected meanwhile: no error
	if c := w.report("a1", "complete"); len(c.Stopped) != 1 {
		t.Error("freed capacity is not reported")
	}
}

func TestDesiredTransition(t *testing.T) {
	w := newWorld(t)
	w.place(w.job("j"), nil, "a1")
	yes, no := true, false
	transition := func(d nomad.DesiredTransition) {
		w.ok(w.UpdateDesiredTransitions(w.next(), &message.AllocUpdateDesiredTransitionRequest{
			Allocs: map[string]*nomad.DesiredTransition{"a1": &d, "none": &d}, Evals: []*nomad.Evaluation{w.eval("j")}}))
	}
	transition(nomad.DesiredTransition{Migrate: &yes, Reschedule: &yes})
	transition(nomad.DesiredTransition{Reschedule: &no, NoShutdownDelay: &yes})
	d := w.snap().Alloc(nil, "a1").DesiredTransition
	if !*d.Migrate || *d.Reschedule || !*d.NoShutdownDelay || d.ForceReschedule != nil {
		t.Errorf("transition is %+v", d)
	}
}

func TestDeployment(t *testing.T) {
	w := newWorld(t)
	j := w.job("j")
	in := func(id string) func(*nomad.Allocation) { return func(a *nomad.Allocation) { a.DeploymentID = id } }
	w.ok(w.ApplyPlanResults(w.next(),
		&message.ApplyPlanResultsRequest{Job: j, Deployment: &nomad.Deployment{ID: "d1", Namespace: "default", JobID: "j",
			JobVersion: 0, Status: "running",
			TaskGroups: map[string]*nomad.DeploymentState{"g": {DesiredTotal: 2, ProgressDeadline: time.Minute}}}}))
	expect := func(when string, placed, healthy, unhealthy int, by time.Time) {
		t.Helper()
		g := w.snap().Deployment(nil, "d1").TaskGroups["g"]
		if g.PlacedAllocs != placed || g.HealthyAllocs != healthy || g.UnhealthyAllocs != unhealthy || !g.RequireProgressBy.Equal(by) {
			t.Errorf("%s: group is %+v, want progress by %v", when, g, by)
		}
	}
	health := func(h bool, at int64) func(*nomad.Allocation) {
		return func(a *nomad.Allocation) {
			a.DeploymentStatus = &nomad.AllocDeploymentStatus{Healthy: &h, Timestamp: time.Unix(at, 0)}
		}
	}
	first := w.snap().Deployment(nil, "d1")
	w.place(j, in("d1"), "a1", "a2")
	expect("placed", 2, 0, 0, time.Unix(65, 0))
	if d := w.snap().Deployment(nil, "d1"); d.ModifyTime != 5e9 {
		t.Errorf("the deployment was modified at %d, want the time of the allocations", d.ModifyTime)
	}
	w.report("a1", "running", health(true, 10))
	expect("one healthy", 2, 1, 0, time.Unix(70, 0))
	w.report("a1", "running", health(true, 10))
	expect("reported again", 2, 1, 0, time.Unix(70, 0))
	w.report("a1", "failed", health(false, 30))
	expect("sick", 2, 0, 1, time.Unix(70, 0))
	w.place(j, func(a *nomad.Allocation) { in("d1")(a); a.ModifyTime = 90e9 }, "a1") // in place, the same deployment: health stays
	expect("in place", 2, 0, 1, time.Unix(70, 0))
	w.ok(w.SetAllocHealth(w.next(), &message.ApplyDeploymentAllocHealthRequest{Timestamp: time.Unix(40, 0),
		DeploymentAllocHealthRequest: message.DeploymentAllocHealthRequest{DeploymentID: "d1", HealthyAllocationIDs: []string{"a1", "a2"}}}))
	expect("judged", 2, 2, 0, time.Unix(100, 0))
	if first.TaskGroups["g"].PlacedAllocs != 0 {
		t.Error("a row was written to")
	}
	if got := ids(w.snap().AllocsByDeployment(nil, "d1"), allocID); got != "[a1 a2]" {
		t.Errorf("allocations of the deployment are %s", got)
	}

	status := func(to string, at int64) {
		w.ok(w.UpdateDeploymentStatus(w.next(),
			&message.DeploymentStatusUpdateRequest{DeploymentUpdate: &nomad.DeploymentStatusUpdate{DeploymentID: "d1", Status: to, UpdatedAt: at}}))
	}
	before := w.snap().Deployment(nil, "d1").TaskGroups["g"]
	status("paused", 200e9)
	expect("paused", 2, 2, 0, time.Unix(260, 0))
	status("paused", 250e9)
	expect("paused again", 2, 2, 0, time.Unix(260, 0))
	status("running", 300e9)
	expect("resumed", 2, 2, 0, time.Unix(360, 0))
	status("running", 350e9)
	expect("still running", 2, 2, 0, time.Unix(360, 0))
	status("paused", 0)
	expect("paused without a time", 2, 2, 0, time.Unix(360, 0))
	if !before.RequireProgressBy.Equal(time.Unix(100, 0)) {
		t.Error("a row was written to")
	}

	end := &message.DeploymentStatusUpdateRequest{DeploymentUpdate: &nomad.DeploymentStatusUpdate{DeploymentID: "d1", Status: "successful",
		UpdatedAt: 5}, Eval: w.eval("j")}
	w.ok(w.UpdateDeploymentStatus(w.next(), end))
	if d := w.snap().Deployment(nil, "d1"); d.Status != "successful" || d.ModifyTime != 5 {
		t.Errorf("deployment is %+v", d)
	}
	if !w.snap().Job(nil, "default", "j").Stable || !w.snap().JobVersion(nil, "default", "j", 0).Stable {
		t.Error("success did not make the version stable")
	}
	if _, err := w.UpdateDeploymentStatus(w.next(), end); err == nil {
		t.Error("a deployment that has ended can change")
	}
	end.DeploymentUpdate.DeploymentID = "none"
	if _, err := w.UpdateDeploymentStatus(w.next(), end); err == nil {
		t.Error("a deployment that does not exist can change")
	}
	w.ok(w.ApplyPlanResults(w.next(),
		&message.ApplyPlanResultsRequest{Job: j, Deployment: &nomad.Deployment{ID: "c2", Namespace: "default", JobID: "j", Status: "running"}}))
	if d := w.snap().LatestDeployment(nil, "default", "j"); d.ID != "c2" {
		t.Errorf("latest deployment is %s", d.ID)
	}
	w.ok(w.DeleteDeployments(w.next(), &message.DeploymentDeleteRequest{Deployments: []string{"d1", "none"}}))
	if w.snap().Deployment(nil, "d1") != nil {
		t.Error("the deployment is not deleted")
	}
}

// A deployment that is resumed before its first allocation is placed has a deadline, which moves
// at the placement. A group without a deadline gets none.
func TestDeploymentResumedBeforePlacement(t *testing.T) {
	w := newWorld(t)
	j := w.job("j")
	w.ok(w.ApplyPlanResults(w.next(),
		&message.ApplyPlanResultsRequest{Job: j, Deployment: &nomad.Deployment{ID: "d1", Namespace: "default", JobID: "j",
			Status: "paused", TaskGroups: map[string]*nomad.DeploymentState{"g": {DesiredTotal: 2, ProgressDeadline: time.Minute},
				"h": {DesiredTotal: 1}}}}))
	w.ok(w.UpdateDeploymentStatus(w.next(),
		&message.DeploymentStatusUpdateRequest{DeploymentUpdate: &nomad.DeploymentStatusUpdate{DeploymentID: "d1", Status: "running",
			UpdatedAt: 300e9}}))
	expect := func(when string, by time.Time) {
		t.Helper()
		groups := w.snap().Deployment(nil, "d1").TaskGroups
		if !groups["g"].RequireProgressBy.Equal(by) || !groups["h"].RequireProgressBy.IsZero() {
			t.Errorf("%s: groups are %+v and %+v, want progress of the first by %v", when, groups["g"], groups["h"], by)
		}
	}
	expect("resumed", time.Unix(360, 0))
	at := func(seconds int64) func(*nomad.Allocation) {
		return func(a *nomad.Allocation) { a.DeploymentID, a.ModifyTime = "d1", seconds*1e9 }
	}
	w.place(j, at(330), "a1")
	expect("placed", time.Unix(390, 0))
	w.place(j, at(350), "a2")
	expect("the second is placed", time.Unix(390, 0))
}

func TestEvalsCancelBlocked(t *testing.T) {
	w := newWorld(t)
	w.job("j")
	blocked, other := w.eval("j"), w.eval("k")
	blocked.ID, blocked.Status, other.ID, other.Status = "b1", "blocked", "b2", "blocked"
	w.ok(w.UpsertEvals(w.next(), &message.EvalUpdateRequest{Evals: []*nomad.Evaluation{blocked, other}}))
	done := w.eval("j")
	done.ID, done.Status, done.ModifyTime = "d1", "complete", 77
	done.FailedTGAllocs = map[string]*nomad.AllocMetric{"g": {}}
	w.ok(w.UpsertEvals(w.next(), &message.EvalUpdateRequest{Evals: []*nomad.Evaluation{done}}))
	if got := w.snap().Eval(nil, "b1").Status; got != "blocked" {
		t.Errorf("with placements still missing the blocked evaluation is %s", got)
	}
	done.FailedTGAllocs = nil
	c := w.ok(w.UpsertEvals(w.next(), &message.EvalUpdateRequest{Evals: []*nomad.Evaluation{done}}))
	if e := w.snap().Eval(nil, "b1"); e.Status != "canceled" || e.ModifyTime != 77 || e.ModifyIndex != w.index {
		t.Errorf("blocked evaluation is %+v", e)
	}
	if got := w.snap().Eval(nil, "b2").Status; got != "blocked" {
		t.Errorf("the evaluation of another job is %s", got)
	}
	if len(c.Evals) != 2 {
		t.Errorf("%d evaluations reported, want the complete and the cancelled one", len(c.Evals))
	}
}

func TestReap(t *testing.T) {
	w := newWorld(t)
	j := w.job("j", func(j *nomad.Job) { j.Type = nomad.JobTypeBatch })
	w.place(j, nil, "a1")
	w.finish()
	w.report("a1", "complete")
	var all []string
	for e := range w.snap().Evals(nil) {
		all = append(all, e.ID)
	}
	w.ok(w.Reap(w.next(), &message.EvalReapRequest{Evals: append(all, "none"), Allocs: []string{"a1", "none"}}))
	if w.snap().Alloc(nil, "a1") != nil || len(all) == 0 || w.snap().Eval(nil, all[0]) != nil {
		t.Error("something is left")
	}
	if w.status("j") != "dead" {
		t.Errorf("job is %s", w.status("j"))
	}
	if _, err := w.Reap(w.next(), &message.EvalReapRequest{Filter: "x"}); err == nil {
		t.Error("a malformed filter is accepted")
	}
}

// BenchmarkApplyPlan commits one plan of 2,000 allocations of one job on 100 nodes.
func BenchmarkApplyPlan(b *testing.B) {
	const size = 2000
	for b.Loop() {
		b.StopTimer()
		w := newWorld(b)
		j := w.job("j")
		req := &message.ApplyPlanResultsRequest{Job: j, EvalID: "e"}
		for n := range size {
			req.AllocsUpdated = append(req.AllocsUpdated, &nomad.Allocation{ID: nomad.NewID(), Namespace: "default", JobID: "j", TaskGroup: "g",
				NodeID: fmt.Sprint("node-", n%100), EvalID: "e", Name: nomad.AllocName("j", "g", uint(n)), ClientStatus: "pending", SigningKeyID: "k"})
		}
		entry, err := codec.EncodeCommand(message.ApplyPlanResultsRequestType, req)
		if err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
		var back message.ApplyPlanResultsRequest // as the FSM does it
		if err := codec.Decode(entry[1:], &back); err != nil {
			b.Fatal(err)
		}
		if _, err := w.ApplyPlanResults(w.next(), &back); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*size), "ns/alloc")
}

func TestAllocsByCreation(t *testing.T) {
	w := newWorld(t)
	j := w.job("j")
	w.place(j, func(*nomad.Allocation) {}, "c", "b")
	w.place(j, func(*nomad.Allocation) {}, "a")
	w.report("c", "running", func(*nomad.Allocation) {}) // does not move it
	ids := func(all iter.Seq[*nomad.Allocation]) (out string) {
		for a := range all {
			out += a.ID
		}
		return out
	}
	ws := memdb.NewWatchSet()
	if got, back := ids(w.snap().AllocsByCreation(ws)), ids(w.snap().LatestAllocs(ws)); got != "bca" || back != "acb" {
		t.Errorf("the allocations are listed as %q, in reverse %q", got, back)
	}
	w.report("a", "running", func(*nomad.Allocation) {})
	if ws.Watch(time.After(time.Second)) {
		t.Error("an update does not wake a reader of the list")
	}
}
