package scheduler_test

import (
	"slices"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/nomad"
)

var yes, no = true, false

func rolling(max int) func(*nomad.Job) {
	return func(j *nomad.Job) {
		j.TaskGroups[0].Update = &nomad.UpdateStrategy{MaxParallel: max, ProgressDeadline: 10 * time.Minute}
	}
}

func newCommand(j *nomad.Job) {
	j.TaskGroups[0].Tasks[0].Config = map[string]any{"command": "false"}
}

func versions(allocs []*nomad.Allocation) map[uint64]int {
	out := map[uint64]int{}
	for _, a := range allocs {
		out[a.Job.Version]++
	}
	return out
}

func TestUpdateKinds(t *testing.T) {
	cases := []struct {
		name    string
		edit    func(*nomad.Job)
		inPlace bool
	}{
		{"priority", func(j *nomad.Job) { j.Priority = 70 }, true},
		{"count", func(j *nomad.Job) { j.TaskGroups[0].Count = 3 }, true},
		{"restart policy", func(j *nomad.Job) { j.TaskGroups[0].RestartPolicy = &nomad.RestartPolicy{Attempts: 9} }, true},
		{"services", func(j *nomad.Job) { j.TaskGroups[0].Services = []*nomad.Service{{Name: "s"}} }, true},
		{"constraint that holds", func(j *nomad.Job) {
			j.Constraints = []*nomad.Constraint{{LTarget: "${attr.kernel.name}", Operand: "=", RTarget: "linux"}}
		}, true},
		{"number of another type", func(j *nomad.Job) {
			j.TaskGroups[0].Tasks[0].Config["n"] = float64(1)
		}, true},
		{"constraint that does not", func(j *nomad.Job) {
			j.Constraints = []*nomad.Constraint{{LTarget: "${node.unique.id}", Operand: "=", RTarget: "n2"}}
		}, false},
		{"config", newCommand, false},
		{"env", func(j *nomad.Job) { j.TaskGroups[0].Tasks[0].Env = map[string]string{"A": "b"} }, false},
		{"meta", func(j *nomad.Job) { j.Meta = map[string]string{"a": "b"} }, false},
		{"memory", func(j *nomad.Job) { j.TaskGroups[0].Tasks[0].Resources.MemoryMB++ }, false},
		{"identity", func(j *nomad.Job) { j.TaskGroups[0].Tasks[0].Identity = &nomad.WorkloadIdentity{Name: "x"} }, false},
		{"another task", func(j *nomad.Job) {
			j.TaskGroups[0].Tasks = append(j.TaskGroups[0].Tasks, &nomad.Task{Name: "u", Driver: "raw_exec"})
		}, false},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			w.addNode("n1")
			w.register(job(nomad.JobTypeService, 2, func(j *nomad.Job) { j.TaskGroups[0].Tasks[0].Config["n"] = int64(1) }))
			w.process()
			before := w.live()
			w.addNode("n2")
			w.change(c.edit)
			w.process(func(e *nomad.Evaluation) { e.AnnotatePlan = true })
			d := w.plans[len(w.plans)-1].Annotations.DesiredTGUpdates["g"]
			kept := 0
			for _, a := range before {
				if now := w.allocs[a.ID]; !now.TerminalStatus() {
					kept++
					if now.Job.Version != 1 {
						t.Errorf("%s has version %d of the job, want 1", now.Name, now.Job.Version)
					}
				}
			}
			if c.inPlace && (kept != 2 || d.InPlaceUpdate != 2 || d.DestructiveUpdate != 0) {
				t.Errorf("kept %d of 2, annotations %+v", kept, d)
			}
			if !c.inPlace && (kept != 0 || d.InPlaceUpdate != 0 || d.DestructiveUpdate != 2) {
				t.Errorf("kept %d of 2, annotations %+v", kept, d)
			}
			if got := versions(w.live()); got[1] != w.jobs["j"].TaskGroups[0].Count || got[0] != 0 {
				t.Errorf("live by version = %v", got)
			}
		})
	}
}

func TestUpdate_FullNode(t *testing.T) {
	w := newWorld(t)
	w.addNode("n1", func(n *nomad.Node) { n.NodeResources.Cpu.CpuShares = 200 })
	w.register(job(nomad.JobTypeService, 2))
	w.process()
	w.change(newCommand)
	w.process()
	if got := versions(w.live()); got[1] != 2 || got[0] != 0 {
		t.Errorf("live by version = %v, want both of 1", got)
	}
	w.change(func(j *nomad.Job) { j.TaskGroups[0].Tasks[0].Resources.CPU = 300 })
	e := w.process()
	if got := versions(w.live()); got[1] != 2 || e.FailedTGAllocs["g"] == nil {
		t.Errorf("live by version = %v, want the old ones to remain until there is capacity", got)
	}
}

func TestRollingDeployment(t *testing.T) {
	w := newWorld(t)
	w.addNode("n1")
	w.register(job(nomad.JobTypeService, 4, rolling(2)))
	e := w.process()
	first := w.LatestDeployment(nil, "", "j")
	if first == nil || first.TaskGroups["g"].DesiredTotal != 4 || first.TaskGroups["g"].ProgressDeadline != 10*time.Minute ||
		first.Status != nomad.DeploymentStatusRunning || e.DeploymentID != first.ID || first.EvalPriority != 50 {
		t.Fatalf("deployment = %+v, evaluation %+v", first, e)
	}
	for _, a := range w.live() {
		if a.DeploymentID != first.ID {
			t.Errorf("%s belongs to deployment %q", a.Name, a.DeploymentID)
		}
	}
	w.finishDeployment(first)

	w.change(newCommand)
	w.process()
	second := w.LatestDeployment(nil, "", "j")
	if second.ID == first.ID || second.JobVersion != 1 {
		t.Fatalf("no deployment of the new version: %+v", second)
	}
	wantVersions := func(step string, old, now int) {
		t.Helper()
		if got := versions(w.live()); got[0] != old || got[1] != now {
			t.Fatalf("%s: live by version = %v, want %d old and %d new", step, got, old, now)
		}
	}
	wantVersions("first step", 2, 2)
	w.process()
	wantVersions("nothing healthy", 2, 2)
	w.report(nomad.AllocClientStatusRunning, &yes, w.ofVersion(1)[:1]...)
	w.process()
	wantVersions("one healthy", 1, 3)
	w.report(nomad.AllocClientStatusRunning, &no, w.ofVersion(1)[1])
	w.process()
	wantVersions("one unhealthy", 1, 3)
	w.report(nomad.AllocClientStatusRunning, &yes, w.ofVersion(1)...)
	w.process()
	wantVersions("all healthy", 0, 4)
	w.finishDeployment(second)
	w.process()
	if n := len(w.deps); n != 2 {
		t.Errorf("%d deployments, want 2", n)
	}
}

// finishDeployment reports every allocation as healthy and expects the deployment to succeed.
func (w *world) finishDeployment(d *nomad.Deployment) {
	w.t.Helper()
	w.report(nomad.AllocClientStatusRunning, &yes, w.live()...)
	d.TaskGroups["g"].HealthyAllocs = len(w.live())
	w.process()
	if got := w.LatestDeployment(nil, "", "j"); got.ID != d.ID || got.Status != nomad.DeploymentStatusSuccessful {
		w.t.Fatalf("deployment = %+v, want it successful", got)
	}
}

func (w *world) ofVersion(v uint64) []*nomad.Allocation {
	return slices.DeleteFunc(w.live(), func(a *nomad.Allocation) bool { return a.Job.Version != v })
}

func TestDeploymentStates(t *testing.T) {
	setup := func(t *testing.T) (*world, *nomad.Deployment) {
		w := newWorld(t)
		w.addNode("n1")
		w.register(job(nomad.JobTypeService, 3, rolling(1)))
		w.process()
		w.finishDeployment(w.LatestDeployment(nil, "", "j"))
		w.change(newCommand)
		w.process()
		return w, w.LatestDeployment(nil, "", "j")
	}
	t.Run("newer version cancels", func(t *testing.T) {
		w, d := setup(t)
		w.change(func(j *nomad.Job) { j.Meta = map[string]string{"v": "3"} })
		w.process()
		i := slices.IndexFunc(w.deps, func(x *nomad.Deployment) bool { return x.ID == d.ID })
		if got := w.deps[i]; got.Status != nomad.DeploymentStatusCancelled || got.StatusDescription != nomad.DeploymentStatusDescriptionNewerJob {
			t.Errorf("old deployment = %+v", got)
		}
	})
	t.Run("stop cancels", func(t *testing.T) {
		w, _ := setup(t)
		w.change(func(j *nomad.Job) { j.Stop = true })
		w.process()
		got := w.LatestDeployment(nil, "", "j")
		if got.Status != nomad.DeploymentStatusCancelled || got.StatusDescription != nomad.DeploymentStatusDescriptionStoppedJob ||
			len(w.live()) != 0 {
			t.Errorf("deployment = %+v, %d live", got, len(w.live()))
		}
	})
	for _, status := range []string{nomad.DeploymentStatusPaused, nomad.DeploymentStatusFailed} {
		t.Run(status+" holds", func(t *testing.T) {
			w, d := setup(t)
			w.report(nomad.AllocClientStatusRunning, &yes, w.live()...)
			d.Status = status
			w.process()
			if got := versions(w.live()); got[0] != 2 || got[1] != 1 {
				t.Errorf("live by version = %v, want no further step", got)
			}
		})
	}
}

// A failed deployment holds its version until the job is registered again. The missing allocations
// then join a new deployment.
func TestDeployment_RegisteredAgain(t *testing.T) {
	w := newWorld(t)
	w.register(job(nomad.JobTypeService, 2, rolling(1)))
	if e := w.process(); e.FailedTGAllocs["g"] == nil {
		t.Fatal("placed without a node")
	}
	first := w.LatestDeployment(nil, "", "j")
	first.Status, first.ModifyIndex = nomad.DeploymentStatusFailed, 100
	w.addNode("n1")
	for _, old := range []func(*nomad.Evaluation){
		func(e *nomad.Evaluation) { e.TriggeredBy, e.CreateIndex = nomad.EvalTriggerDeploymentWatcher, 101 },
		func(e *nomad.Evaluation) { e.CreateIndex = 99 },
	} {
		w.process(old)
		if got := w.LatestDeployment(nil, "", "j"); got.ID != first.ID || len(w.live()) != 0 {
			t.Fatalf("a failed deployment went on: %+v, %d live", got, len(w.live()))
		}
	}
	w.process(func(e *nomad.Evaluation) { e.CreateIndex = 101 })
	second := w.LatestDeployment(nil, "", "j")
	if second.ID == first.ID || second.JobVersion != first.JobVersion || second.TaskGroups["g"].DesiredTotal != 2 {
		t.Fatalf("deployment = %+v, want a new one", second)
	}
	wantNames(t, w.live(), "j.g[0]", "j.g[1]")
	w.finishDeployment(second)
}

func TestDeployment_MaxParallel(t *testing.T) {
	w := newWorld(t)
	w.addNode("n1")
	w.register(job(nomad.JobTypeService, 3, rolling(2)))
	w.process()
	w.finishDeployment(w.LatestDeployment(nil, "", "j"))
	w.change(func(j *nomad.Job) {
		newCommand(j)
		j.TaskGroups[0].Count = 5
	})
	w.process(func(e *nomad.Evaluation) { e.AnnotatePlan = true })
	d := w.plans[len(w.plans)-1].Annotations.DesiredTGUpdates["g"]
	if d.Place != 2 || d.DestructiveUpdate != 0 || d.Ignore != 3 {
		t.Errorf("annotations = %+v, want 2 placed and 3 ignored", d)
	}
}

func TestScale_FreeNames(t *testing.T) {
	w := newWorld(t)
	w.addNode("n1")
	w.register(job(nomad.JobTypeService, 5))
	w.process()
	w.change(func(j *nomad.Job) { j.TaskGroups[0].Count = 3 })
	w.process()
	wantNames(t, w.live(), "j.g[0]", "j.g[1]", "j.g[2]")
	w.report(nomad.AllocClientStatusLost, nil, w.live()[1])
	wantNames(t, w.live(), "j.g[0]", "j.g[2]")
	w.process()
	wantNames(t, w.live(), "j.g[0]", "j.g[1]", "j.g[2]")
	w.change(func(j *nomad.Job) { j.TaskGroups[0].Name = "h" })
	w.process()
	wantNames(t, w.live(), "j.h[0]", "j.h[1]", "j.h[2]")
	delete(w.jobs, "j")
	w.process()
	wantNames(t, w.live())
}

func TestBatch_Completed(t *testing.T) {
	w := newWorld(t)
	w.addNode("n1")
	w.register(job(nomad.JobTypeBatch, 3))
	w.process()
	w.report(nomad.AllocClientStatusComplete, nil, w.live()[:2]...)
	w.process()
	wantNames(t, w.live(), "j.g[2]")
	if len(w.plans) != 1 {
		t.Errorf("%d plans, want none for completed allocations", len(w.plans))
	}
	w.change(newCommand)
	w.process()
	wantNames(t, w.live(), "j.g[0]", "j.g[1]", "j.g[2]")
}

func TestBatch_NoDeployment(t *testing.T) {
	w := newWorld(t)
	w.addNode("n1")
	w.register(job(nomad.JobTypeBatch, 3, rolling(1)))
	w.process()
	w.change(newCommand)
	w.process()
	if got := versions(w.live()); len(w.deps) != 0 || got[1] != 3 {
		t.Errorf("%d deployments, live by version = %v", len(w.deps), got)
	}
}

// An update replaces the allocations that it can, although the group lacks others, or one of them fits nowhere: each frees
// its own node. What is lacking does not hold up a version for longer than max_parallel says.
func TestUpdate_NoCapacity(t *testing.T) {
	distinct := func(j *nomad.Job) { j.Constraints = []*nomad.Constraint{{Operand: nomad.ConstraintDistinctHosts}} }
	for _, c := range []struct {
		name    string
		count   int
		edit    []func(*nomad.Job)
		change  func(*nomad.Job)
		blocker bool // another job fills the node of the first allocation
		updated int
	}{
		{"one is lacking, all at once", 3, []func(*nomad.Job){distinct}, newCommand, false, 2},
		{"many are lacking, all at once", 9, []func(*nomad.Job){distinct}, newCommand, false, 2},
		{"one is lacking, two at a time", 3, []func(*nomad.Job){distinct, rolling(2)}, newCommand, false, 1},
		{"two are lacking, two at a time", 4, []func(*nomad.Job){distinct, rolling(2)}, newCommand, false, 0},
		{"one fits nowhere", 2, []func(*nomad.Job){distinct}, func(j *nomad.Job) { j.TaskGroups[0].Tasks[0].Resources.CPU = 1000 }, true, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			w.addNode("n1")
			w.addNode("n2")
			w.register(job(nomad.JobTypeService, c.count, c.edit...))
			w.process()
			w.report(nomad.AllocClientStatusRunning, nil, w.live()...)
			if len(w.live()) != 2 {
				t.Fatalf("%d allocations, want 2", len(w.live()))
			}
			if c.blocker {
				w.fill(w.live()[0].NodeID, 3500, 50)
			}
			w.change(c.change)
			w.process()
			own := slices.DeleteFunc(w.live(), func(a *nomad.Allocation) bool { return a.JobID != "j" })
			if got := versions(own); len(own) != 2 || got[1] != c.updated {
				t.Errorf("allocations by version: %v, want %d of version 1, of 2 altogether", got, c.updated)
			}
		})
	}
}
