//go:build linux && faults

package faults_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/e2e/faults"
)

// patience bounds one step of an action.
const patience = time.Minute

// A world is a cluster with its model.
type world struct {
	*model
	cluster *faults.Cluster
	rng     *rand.Rand // of the choices, which depend on the model only
	rested  bool       // nothing was done since the last rest
}

// An action is one thing that users, operators or failures do. Its target is a job or a machine.
type action struct {
	name   string
	weight int
	can    func(w *world, target int) bool
	do     func(ctx context.Context, w *world, target int) error
}

// onJobs are the actions on a job.
var onJobs = []action{
	{"register", 60, func(w *world, i int) bool { return !w.jobs[i].live() }, register},
	{"run again", 3, func(w *world, i int) bool { return w.jobs[i].live() && w.jobs[i].finishes }, updateDestructive},
	{"update in place", 4, changeable, updateInPlace},
	{"update", 6, changeable, updateDestructive},
	{"promote", 30, func(w *world, i int) bool { return w.jobs[i].old != nil }, promote},
	{"fail deployment", 10, func(w *world, i int) bool { return w.jobs[i].old != nil }, failDeployment},
	{"update that fails", 3, canFail, updateThatFails},
	{"revert", 4, func(w *world, i int) bool { return changeable(w, i) && w.jobs[i].calm }, revert},
	{"scale", 4, func(w *world, i int) bool { return changeable(w, i) && w.jobs[i].counts[0] < w.jobs[i].counts[1] }, scale},
	{"schedule", 3, changeable, schedule},
	{"stop", 2, func(w *world, i int) bool { return w.jobs[i].live() }, stop},
	{"purge", 2, func(w *world, i int) bool { return w.jobs[i].registered }, purge},
	{"pause", 5, func(w *world, i int) bool { return stable(w, i) && !w.jobs[i].finishes }, pauseTask},
	{"stop allocation", 3, stable, stopAllocation},
	{"restart allocation", 2, stable, restartAllocation},
	{"kill task", 4, stable, killTask},
}

// onMachines are the actions on a machine.
var onMachines = []action{
	{"drain", 5, another, drain},
	{"end drain", 12, func(w *world, i int) bool { return w.places[i].drained }, endDrain},
	{"lose node", 3, another, failNode},
	{"node is back", 15, func(w *world, i int) bool { return w.places[i].frozen }, nodeIsBack},
	{"power failure", 2, another, powerFailure},
	{"kill agent", 4, awake, killAgent},
	{"kill supervisor", 4, awake, killSupervisor},
	{"kill agent and supervisor", 2, awake, killBoth},
	{"make volume", 2, func(w *world, i int) bool { return awake(w, i) && !w.places[i].scratch }, makeVolume},
	{"delete volume", 4, func(w *world, i int) bool { return awake(w, i) && w.places[i].scratch }, deleteVolume},
	{"collect", 3, awake, collectOnClient},
}

// onCluster are the other actions.
var onCluster = []action{
	{"kill leader", 3, always, killLeader},
	{"transfer leadership", 2, always, transfer},
	{"collect all", 4, always, collect},
}

func always(*world, int) bool { return true }

// live reports whether the job must run.
func (w *want) live() bool { return w.registered && !w.stopped }

// changeable reports whether another version has one meaning: canaries begin from a job at rest.
func changeable(w *world, i int) bool {
	j := w.jobs[i]
	return j.live() && j.old == nil && (!j.canaries || j.calm) && !j.finishes
}

// canFail reports whether a version that fails is certainly placed, and has a stable one to return to.
func canFail(w *world, i int) bool {
	return changeable(w, i) && w.jobs[i].reverts && w.jobs[i].calm && len(w.fit()) == len(w.places)
}

// stable reports whether a job has allocations of one version.
func stable(w *world, i int) bool { return w.jobs[i].live() && w.jobs[i].old == nil }

// another reports whether a machine is used, and another one is too.
func another(w *world, i int) bool { return awake(w, i) && !w.places[i].drained && len(w.fit()) > 1 }

func awake(w *world, i int) bool { return !w.places[i].frozen }

// A choice is an action with its targets.
type choice struct {
	action
	targets []int
	name    func(target int) string
}

// choices lists the possible actions.
func (w *world) choices() []choice {
	var out []choice
	offer := func(all []action, n int, name func(int) string) {
		for _, a := range all {
			c := choice{action: a, name: name}
			for i := range n {
				if a.can(w, i) {
					c.targets = append(c.targets, i)
				}
			}
			if len(c.targets) > 0 {
				out = append(out, c)
			}
		}
	}
	offer(onJobs, len(w.jobs), func(i int) string { return " " + w.jobs[i].id })
	offer(onMachines, len(w.places), func(i int) string { return " " + w.cluster.Machines[i].Name })
	offer(onCluster, 1, func(int) string { return "" })
	return out
}

// choose chooses an action and its target.
func (w *world) choose() (a action, target int, text string) {
	all, sum := w.choices(), 0
	for _, c := range all {
		sum += c.weight
	}
	at := w.rng.IntN(sum)
	for _, c := range all {
		if at -= c.weight; at < 0 {
			target = c.targets[w.rng.IntN(len(c.targets))]
			return c.action, target, c.action.name + c.name(target)
		}
	}
	panic("the weights have another sum")
}

// named returns the action of a text, such as "drain m1". It must be possible.
func (w *world) named(text string) (action, int) {
	for _, c := range w.choices() {
		for _, target := range c.targets {
			if c.action.name+c.name(target) == text {
				return c.action, target
			}
		}
	}
	panic("not possible now: " + text)
}

// ask calls do with a client of the leader until it succeeds.
func (w *world) ask(ctx context.Context, do func(*api.Client, *api.WriteOptions) error) error {
	late := time.Now().Add(patience)
	for {
		leader, err := w.cluster.Agree(ctx)
		if err == nil {
			once, cancel := context.WithTimeout(ctx, 15*time.Second)
			err = do(leader.Client, (&api.WriteOptions{}).WithContext(once))
			cancel()
		}
		if err == nil || time.Now().After(late) || ctx.Err() != nil {
			return err
		}
		wait(ctx, 200*time.Millisecond)
	}
}

// until waits until met returns no error.
func until(ctx context.Context, met func() error) error {
	late := time.Now().Add(patience)
	for {
		err := met()
		if err == nil || time.Now().After(late) || ctx.Err() != nil {
			return err
		}
		wait(ctx, 100*time.Millisecond)
	}
}

// wait is a part of a history: its events are apart.
func wait(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

func query(w *api.WriteOptions) *api.QueryOptions {
	return (&api.QueryOptions{}).WithContext(w.Context())
}

// submit registers a version of a job.
func (w *world) submit(ctx context.Context, j *want, s spec) error {
	job, err := j.job(s)
	if err != nil {
		return err
	}
	j.calm, j.collected = false, j.collected && j.finishes
	return w.ask(ctx, func(c *api.Client, o *api.WriteOptions) error {
		_, _, err := c.Jobs().Register(job, o)
		return err
	})
}

func register(ctx context.Context, w *world, i int) error {
	j := w.jobs[i]
	if w.rng.IntN(2) == 0 { // otherwise unchanged
		j.Rev++
		j.Count = j.counts[0] + w.rng.IntN(j.counts[1]-j.counts[0]+1)
	}
	j.registered, j.stopped, j.old = true, false, nil
	return w.submit(ctx, j, j.spec)
}

func updateInPlace(ctx context.Context, w *world, i int) error {
	w.jobs[i].Tag++
	return w.submit(ctx, w.jobs[i], w.jobs[i].spec)
}

func updateDestructive(ctx context.Context, w *world, i int) error {
	j := w.jobs[i]
	if j.canaries {
		old := j.spec
		j.old = &old
	}
	j.Rev++
	return w.submit(ctx, j, j.spec)
}

// updateThatFails registers a version whose tasks fail. The stable version follows by itself.
func updateThatFails(ctx context.Context, w *world, i int) error {
	s := w.jobs[i].spec
	s.Rev += 1000
	s.Fails, s.Schedule = true, ""
	if err := w.submit(ctx, w.jobs[i], s); err != nil {
		return err
	}
	return w.reverted(ctx, w.jobs[i])
}

// reverted waits until the servers have registered the stable version of a job again.
func (w *world) reverted(ctx context.Context, j *want) error {
	return w.ask(ctx, func(c *api.Client, o *api.WriteOptions) error {
		job, _, err := c.Jobs().Info(j.id, query(o))
		if err == nil && specOf(job) != j.spec {
			err = fmt.Errorf("%s is %+v in version %d, want %+v after the failure of its deployment", j.id, specOf(job), *job.Version, j.spec)
		}
		return err
	})
}

func promote(ctx context.Context, w *world, i int) error {
	j := w.jobs[i]
	j.old = nil
	return w.ask(ctx, func(c *api.Client, o *api.WriteOptions) error {
		d, err := deploymentOf(c, o, j)
		if err != nil {
			return err
		}
		if d.TaskGroups["g"].Promoted {
			return nil
		}
		_, _, err = c.Deployments().PromoteAll(d.ID, o)
		return err
	})
}

// deploymentOf returns the deployment of the current version of a job.
func deploymentOf(c *api.Client, o *api.WriteOptions, j *want) (*api.Deployment, error) {
	job, _, err := c.Jobs().Info(j.id, query(o))
	if err != nil {
		return nil, err
	}
	d, _, err := c.Jobs().LatestDeployment(j.id, query(o))
	if err == nil && (d == nil || d.JobVersion != *job.Version) {
		err = fmt.Errorf("version %d of %s has no deployment", *job.Version, j.id)
	}
	return d, err
}

func failDeployment(ctx context.Context, w *world, i int) error {
	j := w.jobs[i]
	j.spec, j.old = *j.old, nil
	err := w.ask(ctx, func(c *api.Client, o *api.WriteOptions) error {
		job, _, err := c.Jobs().Info(j.id, query(o))
		if err != nil || specOf(job) == j.spec {
			return err // it is reverted
		}
		d, err := deploymentOf(c, o, j)
		if err != nil || d.Status == "failed" {
			return err
		}
		_, _, err = c.Deployments().Fail(d.ID, o)
		return err
	})
	if err != nil {
		return err
	}
	return w.reverted(ctx, j)
}

// revert returns to an earlier version, if there is one that ran.
func revert(ctx context.Context, w *world, i int) error {
	j, at := w.jobs[i], w.rng.IntN(100)
	var to *api.Job
	err := w.ask(ctx, func(c *api.Client, o *api.WriteOptions) error {
		versions, _, _, err := c.Jobs().Versions(j.id, false, query(o))
		if err != nil || len(versions) < 2 {
			return err
		}
		earlier := slices.DeleteFunc(versions[1:], func(v *api.Job) bool { return *v.Stop || specOf(v).Fails })
		if len(earlier) > 0 {
			to = earlier[at%len(earlier)]
		}
		return nil
	})
	if err != nil || to == nil || specOf(to) == j.spec {
		return err
	}
	if j.canaries && specOf(to).Rev != j.Rev {
		old := j.spec
		j.old = &old
	}
	j.spec, j.calm = specOf(to), false
	return w.ask(ctx, func(c *api.Client, o *api.WriteOptions) error {
		job, _, err := c.Jobs().Info(j.id, query(o))
		if err != nil || specOf(job) == j.spec {
			return err
		}
		_, _, err = c.Jobs().Revert(j.id, *to.Version, nil, o, "", "")
		return err
	})
}

func scale(ctx context.Context, w *world, i int) error {
	j := w.jobs[i]
	j.Count = j.counts[0] + w.rng.IntN(j.counts[1]-j.counts[0]+1)
	j.calm = false
	return w.ask(ctx, func(c *api.Client, o *api.WriteOptions) error {
		n := j.Count
		_, _, err := c.Jobs().Scale(j.id, "g", &n, "history", false, nil, o)
		return err
	})
}

func schedule(ctx context.Context, w *world, i int) error {
	w.jobs[i].Schedule = []string{"", "on", "off"}[w.rng.IntN(3)]
	return w.submit(ctx, w.jobs[i], w.jobs[i].spec)
}

func stop(ctx context.Context, w *world, i int) error { return w.deregister(ctx, w.jobs[i], false) }

func purge(ctx context.Context, w *world, i int) error { return w.deregister(ctx, w.jobs[i], true) }

func (w *world) deregister(ctx context.Context, j *want, purge bool) error {
	if j.old != nil { // what a later registration begins with is the new version
		j.old = nil
	}
	j.calm, j.stopped = false, true
	if purge {
		j.registered = false
		w.claims[j.id] = nil
	}
	return w.ask(ctx, func(c *api.Client, o *api.WriteOptions) error {
		_, _, err := c.Jobs().Deregister(j.id, purge, o)
		if err != nil && strings.Contains(err.Error(), "404") {
			return nil // an earlier try did it
		}
		return err
	})
}

// pick calls do with a running allocation of a job on a node that works. It does nothing without one.
func (w *world) pick(ctx context.Context, i int, do func(*api.Client, *api.WriteOptions, *api.Allocation) error) error {
	at := w.rng.IntN(100)
	return w.ask(ctx, func(c *api.Client, o *api.WriteOptions) error {
		stubs, _, err := c.Jobs().Allocations(w.jobs[i].id, false, query(o))
		if err != nil {
			return err
		}
		stubs = slices.DeleteFunc(stubs, func(a *api.AllocationListStub) bool {
			return a.ClientStatus != "running" || a.DesiredStatus != "run" || !slices.Contains(w.fit(), a.NodeID)
		})
		if len(stubs) == 0 {
			return nil
		}
		slices.SortFunc(stubs, func(a, b *api.AllocationListStub) int { return strings.Compare(a.Name, b.Name) })
		a, _, err := c.Allocations().Info(stubs[at%len(stubs)].ID, query(o))
		if err != nil {
			return err
		}
		return do(c, o, a)
	})
}

func pauseTask(ctx context.Context, w *world, i int) error {
	state := []string{"pause", "pause", "run", "scheduled"}[w.rng.IntN(4)]
	task := taskName(w.rng.IntN(w.jobs[i].tasks))
	return w.pick(ctx, i, func(c *api.Client, o *api.WriteOptions, a *api.Allocation) error {
		if err := c.Allocations().SetPauseState(a, query(o), task, state); err != nil {
			return err
		}
		if w.paused[a.ID] == nil {
			w.paused[a.ID] = map[string]string{}
		}
		w.paused[a.ID][task] = state
		return nil
	})
}

func stopAllocation(ctx context.Context, w *world, i int) error {
	return w.pick(ctx, i, func(c *api.Client, o *api.WriteOptions, a *api.Allocation) error {
		_, err := c.Allocations().Stop(a, query(o))
		return err
	})
}

func restartAllocation(ctx context.Context, w *world, i int) error {
	return w.pick(ctx, i, func(c *api.Client, o *api.WriteOptions, a *api.Allocation) error {
		err := c.Allocations().Restart(a, "", query(o))
		if err != nil && len(w.paused[a.ID]) > 0 || w.jobs[i].Schedule == "off" {
			return nil // nothing runs
		}
		return err
	})
}

func killTask(ctx context.Context, w *world, i int) error {
	return w.pick(ctx, i, func(_ *api.Client, _ *api.WriteOptions, a *api.Allocation) error {
		m := w.cluster.Machines[slices.Index(w.ids, a.NodeID)]
		v, err := observeMachine(m)
		if err != nil {
			return err
		}
		for _, pid := range v.processes[a.ID+" "+taskName(0)] {
			if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
				return err
			}
		}
		return nil
	})
}

func collect(ctx context.Context, w *world, _ int) error {
	for _, j := range w.jobs {
		j.collected = j.collected || j.stopped || j.finishes
		if j.stopped {
			w.claims[j.id] = nil
		}
	}
	return w.ask(ctx, func(c *api.Client, _ *api.WriteOptions) error { return c.System().GarbageCollect() })
}
