package allocrunner_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/codec"
)

// deployed returns an allocation in a deployment with short times.
func deployed(tasks ...*nomad.Task) *nomad.Allocation {
	alloc := allocation(nomad.JobTypeService, tasks...)
	alloc.DeploymentID = "d1"
	alloc.Job.TaskGroups[0].Update = &nomad.UpdateStrategy{
		HealthCheck: nomad.UpdateStrategyHealthCheck_Checks, MinHealthyTime: 10 * time.Second, HealthyDeadline: time.Minute,
	}
	return alloc
}

func TestHealth(t *testing.T) {
	restarting := mockTask("main", fails("4s"))
	restarting.RestartPolicy.Attempts, restarting.RestartPolicy.Interval = 100, time.Hour
	manual := deployed(mockTask("main", lasts("1h")))
	manual.Job.TaskGroups[0].Update.HealthCheck = nomad.UpdateStrategyHealthCheck_Manual
	moved := func(jobType string) *nomad.Allocation {
		a := allocation(jobType, mockTask("main", lasts("3h")))
		a.Job.TaskGroups[0].Migrate = &nomad.MigrateStrategy{MinHealthyTime: 20 * time.Second, HealthyDeadline: time.Minute}
		a.Job.TaskGroups[0].Update = deployed().Job.TaskGroups[0].Update
		return a
	}
	slow := moved(nomad.JobTypeService)
	slow.Job.TaskGroups[0].Tasks = append(slow.Job.TaskGroups[0].Tasks, during(mockTask("pre", lasts("2h")), pre, false))
	slow.AllocatedResources.Tasks["pre"] = &nomad.AllocatedTaskResources{}
	for _, tc := range []struct {
		name    string
		alloc   *nomad.Allocation
		verdict string
		after   time.Duration // 0: health not set within an hour
	}{
		{"up", deployed(mockTask("main", lasts("3h"))), "healthy", 10 * time.Second},
		{"up after its prestart", deployed(during(mockTask("pre", lasts("5s")), pre, false),
			mockTask("main", lasts("3h")), during(mockTask("last", lasts("1s")), stop, false)), "healthy", 15 * time.Second},
		{"fails", deployed(mockTask("main", fails("3s"))), "unhealthy", 3 * time.Second},
		{"ends", deployed(mockTask("main", lasts("3s"))), "unhealthy", 3 * time.Second},
		{"restarts all the time", deployed(restarting), "unhealthy", time.Minute},
		{"prestart too long", deployed(during(mockTask("pre", lasts("2h")), pre, false), mockTask("main", lasts("3h"))),
			"unhealthy", time.Minute},
		{"manual", manual, "", 0},
		{"migrate block", moved(nomad.JobTypeService), "healthy", 20 * time.Second},
		{"migrate block, too late", slow, "unhealthy", time.Minute},
		{"migrate block of a batch job", moved(nomad.JobTypeBatch), "", 0},
		{"not in a deployment", allocation(nomad.JobTypeService, mockTask("main", lasts("3h"))), "", 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				start := time.Now()
				r, _, ended := w.started(tc.alloc)
				horizon := tc.after
				if horizon == 0 {
					horizon = time.Hour
				}
				if horizon > time.Second {
					time.Sleep(horizon - time.Millisecond)
					synctest.Wait()
					if d := r.State().DeploymentStatus; d != nil && d.Healthy != nil {
						t.Errorf("verdict %t already after %v", *d.Healthy, d.Timestamp.Sub(start))
					}
				}
				time.Sleep(time.Millisecond)
				synctest.Wait()
				got := ""
				if d := r.State().DeploymentStatus; d != nil && d.Healthy != nil {
					got = map[bool]string{true: "healthy", false: "unhealthy"}[*d.Healthy]
				}
				if got != tc.verdict {
					t.Errorf("verdict = %q after %v, want %q", got, horizon, tc.verdict)
				}
				if sent := w.updates.alloc().DeploymentStatus; tc.verdict != "" && (sent == nil || sent.Healthy == nil) {
					t.Error("the health was not reported")
				}
				if err := r.Destroy(t.Context()); err != nil {
					t.Error(err)
				}
				<-ended
			})
		})
	}
}

// TestHealthOfTheNextDeployment checks that an in-place update gets its own health, and that a
// restart of the agent does not set the health again.
func TestHealthOfTheNextDeployment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		alloc := deployed(mockTask("main", lasts("3h")))
		r, shutdown, ended := w.started(alloc)
		time.Sleep(11 * time.Second)
		synctest.Wait()
		first := r.State().DeploymentStatus
		if first == nil || first.Healthy == nil || !*first.Healthy {
			t.Fatal("no health in the first deployment")
		}
		next := codec.Copy(alloc)
		next.DeploymentID, next.DeploymentStatus = "d2", nil
		r.Update(next)
		synctest.Wait()
		if d := r.State().DeploymentStatus; d == nil || d.Healthy == nil || !*d.Healthy || !d.Timestamp.After(first.Timestamp) {
			t.Errorf("status = %+v, want new health at once: the task has been up long enough", d)
		}
		second := r.State().DeploymentStatus
		stored, err := w.db.DeployStatus(alloc.ID)
		if err != nil || stored == nil || !stored.Timestamp.Equal(second.Timestamp) {
			t.Errorf("stored = %+v, %v; want the health in the second deployment", stored, err)
		}
		shutdown()
		<-ended

		later := w.agent().runner(next)
		if err := later.Restore(); err != nil {
			t.Fatal(err)
		}
		if d := later.State().DeploymentStatus; d == nil || !d.Timestamp.Equal(second.Timestamp) {
			t.Errorf("status after a restart = %+v, want it unchanged", d)
		}
		go later.Run(t.Context())
		if err := later.Destroy(t.Context()); err != nil {
			t.Error(err)
		}
		time.Sleep(3 * time.Hour) // the first agent's task ends
	})
}
