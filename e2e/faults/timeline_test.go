package faults_test

import (
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/e2e/faults"
)

// wants fails unless err contains text, or is nil if text is empty.
func wants(t *testing.T, err error, text string) {
	t.Helper()
	if text == "" && err != nil || text != "" && (err == nil || !strings.Contains(err.Error(), text)) {
		t.Errorf("error %v, want %q", err, text)
	}
}

// Two servers that report different objects for one log entry have different states.
func TestTimeline(t *testing.T) {
	tl := faults.NewTimeline()
	event := func(index uint64, status string) *api.Event {
		return &api.Event{Topic: api.TopicDeployment, Type: "PlanResult", Key: "d", Index: index,
			Payload: map[string]any{"Deployment": map[string]any{"ID": "d", "Status": status}}}
	}
	wants(t, tl.Add("s1", event(8, "running")), "")
	wants(t, tl.Add("s1", event(5, "paused")), "")
	wants(t, tl.Add("s2", event(8, "running")), "")
	wants(t, tl.Add("s2", event(5, "failed")), "s1 and s2 differ about Deployment d at index 5")
	all := tl.Changes()
	if len(all) != 2 || all[0].Deployment.Status != "paused" || all[1].Deployment.Status != "running" ||
		tl.Last(api.TopicDeployment, "d") != 8 {
		t.Errorf("changes = %+v", all)
	}
}

// alloc returns a healthy running allocation on a node, created at an index.
func alloc(index uint64, id, job, node string, edit ...func(*api.Allocation)) faults.Change {
	yes := true
	a := &api.Allocation{ID: id, JobID: job, NodeID: node, CreateIndex: index, DesiredStatus: "run", ClientStatus: "running",
		DeploymentStatus: &api.AllocDeploymentStatus{Healthy: &yes}}
	for _, f := range edit {
		f(a)
	}
	return faults.Change{Index: index, Type: "PlanResult", Key: id, Alloc: a}
}

// later is a change of an object that was created before.
func later(index uint64, c faults.Change) faults.Change {
	c.Index, c.Type = index, "AllocationUpdated"
	return c
}

func leaves(a *api.Allocation) { yes := true; a.DesiredTransition.Migrate = &yes }
func stopped(a *api.Allocation) {
	a.DesiredStatus, a.ClientStatus = "stop", "complete"
}
func stopping(a *api.Allocation) { a.DesiredStatus = "stop" }
func started(a *api.Allocation)  { a.ClientStatus, a.DeploymentStatus = "pending", nil }

// node returns a change of a node: ready, drains or drained.
func node(index uint64, id, state string) faults.Change {
	n := &api.Node{ID: id, SchedulingEligibility: "ineligible", LastDrain: &api.DrainMetadata{Status: api.DrainStatusComplete}}
	switch state {
	case "ready":
		n.SchedulingEligibility, n.LastDrain = "eligible", nil
	case "drains":
		n.DrainStrategy, n.LastDrain.Status = &api.DrainStrategy{}, api.DrainStatusDraining
	}
	return faults.Change{Index: index, Type: "NodeDrain", Key: id, Node: n}
}

// Each rule of drains can be violated.
func TestCheckDrains(t *testing.T) {
	before := []faults.Change{node(1, "n1", "ready"), node(2, "n2", "ready"), alloc(3, "a", "web", "n1"), alloc(4, "b", "web", "n2"),
		node(5, "n1", "drains")}
	marked := later(6, alloc(3, "a", "web", "n1", leaves))
	stops := []faults.Change{later(7, alloc(3, "a", "web", "n1", leaves, stopping)), alloc(7, "c", "web", "n2", started)}
	over := []faults.Change{later(8, alloc(3, "a", "web", "n1", stopped)), later(9, alloc(7, "c", "web", "n2")), node(10, "n1", "drained")}
	join := func(parts ...[]faults.Change) (out []faults.Change) {
		for _, p := range parts {
			out = append(out, p...)
		}
		return out
	}
	for _, c := range []struct {
		name    string
		changes []faults.Change
		drains  int
		want    string
	}{
		{"in order", join(before, []faults.Change{marked}, stops, over), 1, ""},
		{"back in service", join(before, []faults.Change{marked}, stops, over,
			[]faults.Change{node(11, "n1", "ready"), alloc(12, "d", "cron", "n1")}), 1, ""},
		{"not empty", join(before, []faults.Change{marked}, stops, over[2:]), 1, "at index 10: the drain of node n1 " +
			"is complete, its allocation a is running"},
		{"both leave", join(before, []faults.Change{marked, later(6, alloc(4, "b", "web", "n2", leaves))}), 0,
			"at index 6: 0 allocations of web are healthy, 2 - 1 is the limit"},
		{"the replacement leaves before it is healthy", join(before, []faults.Change{marked}, stops,
			[]faults.Change{later(8, alloc(4, "b", "web", "n2", stopped))}), 0, "0 allocations of web are healthy"},
		{"placed while it drains", join(before, []faults.Change{alloc(6, "x", "cron", "n1", started)}), 0, "allocation x was placed on node n1"},
		{"placed after it", join(before, []faults.Change{marked}, stops, over,
			[]faults.Change{alloc(11, "x", "web", "n1", started)}), 1, "allocation x was placed on node n1"},
		{"without an end", join(before, []faults.Change{marked}, stops), 0, "the drain of node n1 did not end"},
		{"never complete", before[:3], 0, "never had its 2 healthy allocations"},
	} {
		t.Run(c.name, func(t *testing.T) {
			drains, err := faults.CheckDrains(c.changes, faults.Service{Job: "web", Count: 2, MaxParallel: 1})
			if wants(t, err, c.want); drains != c.drains {
				t.Errorf("%d drains, want %d", drains, c.drains)
			}
		})
	}
}

func canary(a *api.Allocation) { a.DeploymentStatus = &api.AllocDeploymentStatus{Canary: true} }

// deployment returns a change of a deployment with one canary, whose progress deadline is second 100.
func deployment(index uint64, kind, id, status string, edit ...func(*api.Deployment)) faults.Change {
	d := &api.Deployment{ID: id, JobID: "web", JobVersion: 1, Status: status, ModifyTime: time.Unix(100, 0).UnixNano(),
		TaskGroups: map[string]*api.DeploymentState{"g": {DesiredCanaries: 1, RequireProgressBy: time.Unix(100, 0)}}}
	for _, f := range edit {
		f(d)
	}
	return faults.Change{Index: index, Type: kind, Key: id, Deployment: d}
}

// Each rule of canaries can be violated.
func TestCheckCanaries(t *testing.T) {
	const plan, promote, update = "PlanResult", "DeploymentPromotion", "DeploymentStatusUpdate"
	late := func(d *api.Deployment) { d.ModifyTime = time.Unix(131, 0).UnixNano() }
	none := func(d *api.Deployment) { d.TaskGroups["g"].DesiredCanaries = 0 }
	running, promoted := deployment(1, plan, "d", "running"), deployment(3, promote, "d", "running")
	for _, c := range []struct {
		name    string
		changes []faults.Change
		want    string
	}{
		{"successful", []faults.Change{running, alloc(2, "a", "web", "n", canary), promoted, deployment(4, plan, "d", "successful")}, ""},
		{"failed", []faults.Change{running, alloc(2, "a", "web", "n", canary), deployment(4, update, "d", "failed")}, ""},
		{"failed after the promotion", []faults.Change{running, promoted, deployment(4, update, "d", "failed")}, ""},
		{"no canaries", []faults.Change{deployment(1, plan, "d", "running", none), deployment(4, plan, "d", "successful", none)}, ""},
		{"one replaces the other", []faults.Change{running, alloc(2, "a", "web", "n", canary), alloc(3, "b", "web", "n", canary),
			later(3, alloc(2, "a", "web", "n", canary, stopping)), deployment(4, update, "d", "failed")}, ""},
		{"two canaries", []faults.Change{running, alloc(2, "a", "web", "n", canary), alloc(3, "b", "web", "n", canary)},
			"at index 3: 2 canaries of web are live, 1 is the limit"},
		{"promoted twice", []faults.Change{running, promoted, deployment(4, promote, "d", "running")},
			"deployment d is promoted again, first at index 3"},
		{"successful without a promotion", []faults.Change{running, deployment(4, plan, "d", "successful")}, "successful without a promotion"},
		{"without an end", []faults.Change{running, promoted}, "deployment d of version 1 remains running"},
		{"paused at the end", []faults.Change{running, deployment(2, update, "d", "paused")}, "remains paused"},
		{"cancelled", []faults.Change{running, deployment(2, plan, "d", "cancelled")}, "deployment d of version 1 is cancelled"},
		{"past its deadline", []faults.Change{running, deployment(4, update, "d", "failed", late)},
			"deployment d is failed 31s after its progress deadline"},
		{"again after its end", []faults.Change{running, deployment(3, update, "d", "failed"),
			deployment(4, update, "d", "running")}, "deployment d is running, it was failed"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := faults.CheckCanaries(c.changes, "web", 1)
			wants(t, err, c.want)
		})
	}
}

// version returns the registration of a version of the job web.
func version(index, number uint64, round string) faults.Change {
	return faults.Change{
		Index: index,
		Type:  "JobRegistered",
		Key:   "web",
		Job:   &api.Job{Version: &number, Meta: map[string]string{"round": round}},
	}
}

// Each rule of reverts can be violated.
func TestCheckReverts(t *testing.T) {
	fails := func(index, number uint64) faults.Change {
		return deployment(index, "DeploymentStatusUpdate", string(rune('a'+number)), "failed", func(d *api.Deployment) {
			d.JobVersion, d.StatusDescription = number, "Failed due to unhealthy allocations - rolling back to job version 0"
		})
	}
	for _, c := range []struct {
		name    string
		changes []faults.Change
		reverts int
		want    string
	}{
		{"one", []faults.Change{version(1, 0, "a"), version(2, 1, "b"), fails(3, 1), version(3, 2, "a"), version(4, 3, "c")}, 1, ""},
		{"a status of the job", []faults.Change{version(1, 0, "a"), version(2, 0, "a"), version(3, 1, "b")}, 0, ""},
		{"two versions", []faults.Change{version(1, 0, "a"), version(2, 1, "b"), fails(3, 1), version(3, 2, "a"), version(4, 3, "a")}, 0,
			"version 3 is a copy of an older one, and no deployment of version 2 reverted it"},
		{"no version", []faults.Change{version(1, 0, "a"), version(2, 1, "b"), fails(3, 1)}, 0, "the deployment of " +
			"version 1 reverted the job, and no version follows"},
		{"another version", []faults.Change{version(1, 0, "a"), version(2, 1, "b"), fails(3, 1), version(3, 2, "c")}, 0,
			"version 2 is new, the deployment of version 1 should have reverted it"},
		{"a gap", []faults.Change{version(1, 0, "a"), version(2, 2, "b")}, 0, "version 2 follows version 0"},
	} {
		t.Run(c.name, func(t *testing.T) {
			reverts, err := faults.CheckReverts(c.changes, "web")
			if wants(t, err, c.want); reverts != c.reverts {
				t.Errorf("%d reverts, want %d", reverts, c.reverts)
			}
		})
	}
}

// child returns the registration of a child of the job cron.
func child(index uint64, at string) faults.Change {
	return faults.Change{Index: index, Type: "JobRegistered", Key: "cron/periodic-" + at, Job: &api.Job{}}
}

// launched returns the evaluation of the launch of a child.
func launched(index uint64, id, at, status string) faults.Change {
	return faults.Change{
		Index: index,
		Type:  "JobRegistered",
		Key:   id,
		Eval:  &api.Evaluation{ID: id, JobID: "cron/periodic-" + at, TriggeredBy: "periodic-job", Status: status},
	}
}

// Each rule of periodic jobs can be violated.
func TestCheckCron(t *testing.T) {
	first := func(id, at string, edit ...func(*api.Allocation)) faults.Change {
		return alloc(2, id, "cron/periodic-"+at, "n", edit...)
	}
	again := func(a *api.Allocation) { a.PreviousAllocation = "a" }
	for _, c := range []struct {
		name    string
		changes []faults.Change
		want    string
	}{
		{"each time", []faults.Change{child(1, "10"), launched(1, "e", "10", "pending"), launched(2, "e", "10", "complete"), first("a", "10"),
			later(3, first("a", "10", stopped)), child(4, "12"), launched(4, "f", "12", "pending")}, ""},
		{"one missed", []faults.Change{child(1, "10"), child(2, "14")}, ""},
		{"two missed", []faults.Change{child(1, "10"), child(2, "15")}, ""},
		{"the status of a child", []faults.Change{child(1, "10"),
			{Index: 2, Type: "EvaluationUpdated", Key: "cron/periodic-10", Job: &api.Job{}}}, ""},
		{"a rescheduled allocation", []faults.Change{child(1, "10"), first("a", "10", stopped),
			first("b", "10", again, stopped), child(3, "12")}, ""},
		{"registered twice", []faults.Change{child(1, "10"), child(2, "10")}, "at index 2: cron/periodic-10 is " +
			"registered again, first at index 1"},
		{"two evaluations", []faults.Change{child(1, "10"), launched(1, "e", "10", "pending"),
			launched(2, "f", "10", "pending")}, "cron/periodic-10 has two evaluations of its launch, e and f"},
		{"two allocations", []faults.Change{child(1, "10"), first("a", "10"), first("b", "10")}, "cron/periodic-10 has two allocations, a and b"},
		{"back", []faults.Change{child(1, "12"), child(2, "10")}, "cron/periodic-10 is launched after that of 12"},
		{"between its times", []faults.Change{child(1, "10"), child(2, "13")}, "cron/periodic-13 is launched at no " +
			"time of the job, after that of 10"},
		{"while an earlier one runs", []faults.Change{child(1, "10"), first("a", "10"), child(3, "12")},
			"cron/periodic-12 is launched while cron/periodic-10 is running"},
		{"while an earlier one is not placed", []faults.Change{child(1, "10"), launched(1, "e", "10", "pending"),
			child(3, "12")}, "while an evaluation of cron/periodic-10 is pending"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := faults.CheckCron(c.changes, faults.Cron{Job: "cron", Every: 2, NoOverlap: true})
			wants(t, err, c.want)
		})
	}
	launches, err := faults.CheckCron([]faults.Change{child(1, "10"), first("a", "10"), child(3, "12")}, faults.Cron{Job: "cron", Every: 2})
	if wants(t, err, ""); launches != 2 {
		t.Errorf("%d launches, want 2: overlap is allowed", launches)
	}
}
