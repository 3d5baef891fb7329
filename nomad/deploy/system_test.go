package deploy_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/message"
)

// systemRollout runs fn with a deployment of a system job that has an allocation on each of three nodes.
func systemRollout(t *testing.T, g *nomad.DeploymentState, fn func(w *world, all []*nomad.Allocation)) {
	t.Helper()
	rollout(t, 0, func(w *world, _ *nomad.Allocation) {
		w.job, w.id, g.DesiredTotal = w.Job(t, nomad.JobTypeSystem, 1), nomad.NewID(), 3
		w.resize(g, 3)
		var all []*nomad.Allocation
		for range 3 {
			w.node = w.Node(t)
			all = append(all, w.place())
		}
		fn(w, all)
	})
}

// resize writes the deployment with a total.
func (w *world) resize(g *nomad.DeploymentState, total int) {
	sized := *g
	sized.DesiredTotal = total
	w.Must(w.t, message.ApplyPlanResultsRequestType, &message.ApplyPlanResultsRequest{Deployment: &nomad.Deployment{
		ID: w.id, Namespace: w.job.Namespace, JobID: w.job.ID, JobVersion: w.job.Version, JobCreateIndex: w.job.CreateIndex,
		CreateTime: time.Now().UnixNano(), Status: nomad.DeploymentStatusRunning, EvalPriority: 60,
		TaskGroups: map[string]*nomad.DeploymentState{"g": &sized},
	}})
	synctest.Wait()
}

// disconnect stops an allocation whose client is lost.
func (w *world) disconnect(a *nomad.Allocation) {
	w.Must(w.t, message.ApplyPlanResultsRequestType, &message.ApplyPlanResultsRequest{UpdatedAt: time.Now().UnixNano(),
		AllocsStopped: []*nomad.AllocationDiff{{ID: a.ID, DesiredDescription: "lost", ClientStatus: nomad.AllocClientStatusLost,
			ModifyTime: time.Now().UnixNano()}}})
	synctest.Wait()
}

// unknown marks an allocation as unknown.
func (w *world) unknown(a *nomad.Allocation) {
	disconnected := w.Snapshot().Alloc(nil, a.ID).WithState(nomad.AllocClientStatusUnknown, time.Now())
	disconnected.ClientStatus = nomad.AllocClientStatusUnknown
	w.Must(w.t, message.ApplyPlanResultsRequestType,
		&message.ApplyPlanResultsRequest{UpdatedAt: time.Now().UnixNano(), AllocsUpdated: []*nomad.Allocation{disconnected}})
	synctest.Wait()
}

// A healthy allocation on a node that is lost or disconnected does not count for another node.
func TestSystem_Complete(t *testing.T) {
	for name, leave := range map[string]func(*world, *nomad.Allocation){"lost": (*world).disconnect, "disconnected": (*world).unknown} {
		t.Run(name, func(t *testing.T) {
			g := &nomad.DeploymentState{ProgressDeadline: 10 * time.Minute}
			systemRollout(t, g, func(w *world, all []*nomad.Allocation) {
				w.report(all[0], true)
				w.report(all[1], true)
				leave(w, all[1])
				w.resize(g, 2)
				w.wantStatus(nomad.DeploymentStatusRunning, "")
				if s := w.state(); s.DesiredTotal != 2 || s.HealthyAllocs != 2 {
					t.Fatalf("the group is %+v", s)
				}
				w.report(all[2], true)
				w.wantStatus(nomad.DeploymentStatusSuccessful, "")
			})
		})
	}
}

// A system allocation is never rescheduled: the first unhealthy one fails the deployment.
func TestSystem_Unhealthy(t *testing.T) {
	systemRollout(t, &nomad.DeploymentState{ProgressDeadline: 10 * time.Minute, AutoRevert: true}, func(w *world, all []*nomad.Allocation) {
		w.report(all[0], false)
		w.wantStatus(nomad.DeploymentStatusFailed, nomad.DeploymentStatusDescriptionFailedAllocations+
			" - no stable job version to auto revert to")
	})
}

// A system deployment without progress fails at its deadline, which an allocation that ends moves.
func TestSystem_Deadline(t *testing.T) {
	systemRollout(t, &nomad.DeploymentState{ProgressDeadline: 10 * time.Minute}, func(w *world, all []*nomad.Allocation) {
		w.report(all[0], true)
		time.Sleep(6 * time.Minute)
		w.disconnect(all[0])
		time.Sleep(6 * time.Minute)
		synctest.Wait()
		w.wantStatus(nomad.DeploymentStatusRunning, "")
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		w.wantStatus(nomad.DeploymentStatusFailed, nomad.DeploymentStatusDescriptionProgressDeadline)
	})
}

// The counter of healthy allocations includes a canary that ended. The deployment is late all the same if its successor
// does not become healthy.
func TestSystem_EndedCanary(t *testing.T) {
	canary(t, func(g *nomad.DeploymentState) {}, false, func(w *world, canaries []*nomad.Allocation) {
		w.report(canaries[0], true)
		w.report(canaries[1], true)
		time.Sleep(time.Hour)
		synctest.Wait()
		w.wantStatus(nomad.DeploymentStatusRunning, "")
		w.disconnect(canaries[0])
		w.Alloc(w.t, w.job, w.node, func(a *nomad.Allocation) {
			a.DeploymentID, a.CreateTime, a.ModifyTime = w.id, time.Now().UnixNano(), time.Now().UnixNano()
			a.DeploymentStatus = &nomad.AllocDeploymentStatus{Canary: true}
		})
		if s := w.state(); s.HealthyAllocs != 2 {
			t.Fatalf("the group is %+v", s)
		}
		time.Sleep(9 * time.Minute)
		synctest.Wait()
		w.wantStatus(nomad.DeploymentStatusRunning, "")
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		w.wantStatus(nomad.DeploymentStatusFailed, nomad.DeploymentStatusDescriptionProgressDeadline)
	})
}
