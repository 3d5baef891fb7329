package scheduler_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/nomad"
)

// cell is a world with the rest of a server that the schedulers depend on: the evaluations that wait, and those that
// events of nodes and clients create.
type cell struct {
	*world
	waiting []*nomad.Evaluation // pending, by creation
	blocked *nomad.Evaluation
	seen    int // of w.created
	again   int // of w.reblocked
}

func newCell(t testing.TB) *cell { return &cell{world: newWorld(t)} }

// run processes one evaluation and keeps those that wait afterwards.
func (c *cell) run(e *nomad.Evaluation) {
	c.waiting = slices.DeleteFunc(c.waiting, func(w *nomad.Evaluation) bool { return w.ID == e.ID })
	done := len(c.finished)
	c.process(func(to *nomad.Evaluation) { *to = *e })
	for _, n := range c.reblocked[c.again:] {
		c.blocked = n
	}
	c.again = len(c.reblocked)
	if len(c.finished) > done {
		if last := c.finished[done]; last.Status == nomad.EvalStatusComplete && len(last.FailedTGAllocs) == 0 {
			c.blocked = nil // the servers cancel it
		}
		for _, x := range c.created {
			if x.ID == e.ID {
				x.Status = nomad.EvalStatusComplete
			}
		}
	}
	for _, n := range c.created[c.seen:] {
		if n.Status == nomad.EvalStatusBlocked {
			c.blocked = n
		} else {
			c.waiting = append(c.waiting, n)
		}
	}
	c.seen = len(c.created)
}

// event processes a new evaluation.
func (c *cell) event(trigger string) {
	c.run(c.eval(func(e *nomad.Evaluation) { e.TriggeredBy = trigger }))
}

// unblock processes the evaluation that waits for capacity.
func (c *cell) unblock() {
	if e := c.blocked; e != nil {
		c.blocked = nil
		c.run(e)
	}
}

// due processes the evaluations whose time has come.
func (c *cell) due() {
	for range 50 {
		i := slices.IndexFunc(c.waiting, func(e *nomad.Evaluation) bool { return !e.WaitUntil.After(c.now) })
		if i < 0 {
			return
		}
		c.run(c.waiting[i])
	}
}

// markLost marks a node as down. It stays so until back.
func (c *cell) markLost(id string) {
	c.copyNode(id, func(n *nomad.Node) { n.Status = nomad.NodeStatusDown })
	c.event(nomad.EvalTriggerNodeUpdate)
}

// back returns a node. Its client reports before the node is ready, as registration does.
func (c *cell) back(id string) {
	c.copyNode(id, func(n *nomad.Node) { n.Status = nomad.NodeStatusInit })
	c.settle(id)
	c.unblock()
	c.copyNode(id, func(n *nomad.Node) { n.Status, n.DrainStrategy = nomad.NodeStatusReady, nil })
	c.event(nomad.EvalTriggerNodeUpdate)
	for _, a := range c.live() {
		if a.NodeID == id && a.ClientStatus == nomad.AllocClientStatusUnknown {
			c.report(nomad.AllocClientStatusRunning, nil, a)
			c.event(nomad.EvalTriggerReconnect)
		}
	}
	c.unblock()
}

func (c *cell) copyNode(id string, edit func(*nomad.Node)) {
	n := *c.nodes[id]
	edit(&n)
	c.nodes[id] = &n
}

// settle lets the client of a node end what the servers stopped. The client of a lost allocation reports it as complete.
func (c *cell) settle(id string) {
	for _, a := range c.allocs {
		if a.NodeID == id && a.ServerTerminalStatus() && (!a.ClientTerminalStatus() || a.ClientStatus == nomad.AllocClientStatusLost) {
			out := *a
			c.index++
			out.ClientStatus, out.ModifyIndex, out.ModifyTime = nomad.AllocClientStatusComplete, c.index, c.now.UnixNano()
			c.set(&out)
		}
	}
}

// rest makes all nodes ready, and lets all time pass that an evaluation waits for.
func (c *cell) rest() {
	for _, id := range slices.Sorted(maps.Keys(c.nodes)) {
		c.back(id)
	}
	for range 8 {
		c.now = c.now.Add(2 * time.Hour)
		for _, id := range slices.Sorted(maps.Keys(c.nodes)) {
			c.settle(id)
		}
		c.due()
		c.unblock()
	}
}

// All nodes of a service are lost during an update whose deployment then fails, and return. Their allocations are placed
// again, though the clients report them as complete before the nodes are ready.
func TestLost_DuringUpdate(t *testing.T) {
	for _, status := range []string{nomad.DeploymentStatusRunning, nomad.DeploymentStatusPaused, nomad.DeploymentStatusFailed} {
		for _, canary := range []int{0, 1} {
			t.Run(fmt.Sprint(status, " canary ", canary), func(t *testing.T) {
				c := newCell(t)
				c.addNode("n1")
				c.addNode("n2")
				c.register(job(nomad.JobTypeService, 3, rolling(1), func(j *nomad.Job) { j.TaskGroups[0].Update.Canary = canary }))
				c.event(nomad.EvalTriggerJobRegister)
				c.report(nomad.AllocClientStatusRunning, &yes, c.live()...)
				c.deploymentStatus(&nomad.DeploymentStatusUpdate{DeploymentID: c.deps[0].ID, Status: nomad.DeploymentStatusSuccessful})
				c.change(newCommand)
				c.event(nomad.EvalTriggerJobRegister)
				c.deploymentStatus(&nomad.DeploymentStatusUpdate{DeploymentID: c.deps[1].ID, Status: status})
				c.markLost("n1")
				c.markLost("n2")
				c.rest()
				if n := len(c.live()); n < 3 {
					t.Errorf("%d live after the return of the nodes, want 3; blocked %v, %d wait", n, c.blocked, len(c.waiting))
				}
			})
		}
	}
}

// A batch job whose only node is drained waits for capacity, and runs again when the node is back.
func TestDrain_BatchWaits(t *testing.T) {
	c := newCell(t)
	c.addNode("n1")
	c.register(job(nomad.JobTypeBatch, 2))
	c.event(nomad.EvalTriggerJobRegister)
	c.drain("n1")
	if len(c.live()) != 0 || c.blocked == nil {
		t.Fatalf("%d live and blocked evaluation %v on a drained node, want none and one", len(c.live()), c.blocked)
	}
	c.back("n1")
	wantNames(t, c.live(), "j.g[0]", "j.g[1]")
}

// drain marks all allocations of a node to migrate, as the drainer does at the deadline.
func (c *cell) drain(id string) {
	c.copyNode(id, func(n *nomad.Node) { n.DrainStrategy = &nomad.DrainStrategy{} })
	for _, a := range c.live() {
		if a.NodeID == id {
			out := *a
			out.DesiredTransition.Migrate = &yes
			c.set(&out)
		}
	}
	c.event(nomad.EvalTriggerNodeDrain)
	c.settle(id)
}

// TestLost_RandomHistory runs random histories of one job. The model has one number: how many allocations the job had, without canaries,
// when it was last at rest after a change by a user. Losing, draining and returning nodes, failures, reports, disconnections and time
// never lower it. After each event, a job that lacks some has an evaluation that waits.
func TestLost_RandomHistory(t *testing.T) {
	for seed := range uint64(500) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { lostHistory(t, seed) })
	}
}

func lostHistory(t *testing.T, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 2))
	c := newCell(t)
	for i := range 1 + rng.IntN(3) {
		c.addNode(fmt.Sprint("n", i))
	}
	typ := []string{nomad.JobTypeService, nomad.JobTypeService, nomad.JobTypeBatch}[rng.IntN(3)]
	c.register(job(typ, 1+rng.IntN(4), func(j *nomad.Job) { pendingGroup(rng, j) }))
	c.event(nomad.EvalTriggerJobRegister)
	var history []string
	for range 6 {
		history = append(history, c.userChanges(rng))
		c.rest()
		had := len(c.live()) - c.canaries()
		for range 1 + rng.IntN(6) {
			history = append(history, c.nodesHappen(rng))
			if lacks := had - len(c.live()) + c.canaries(); lacks > 0 && c.blocked == nil && len(c.waiting) == 0 {
				t.Fatalf("seed %d: the job lacks %d allocations and nothing waits after %q", seed, lacks, history)
			}
		}
		c.rest()
		if n := len(c.live()) - c.canaries(); n < had || n > c.jobs["j"].TaskGroups[0].Count {
			t.Fatalf("seed %d: %d live at rest, %d before, count %d, after %q", seed, n, had, c.jobs["j"].TaskGroups[0].Count, history)
		}
	}
}

// pendingGroup gives the group a random rollout and random rules for lost clients. Its failures are always replaced.
func pendingGroup(rng *rand.Rand, j *nomad.Job) {
	tg := j.TaskGroups[0]
	tg.ReschedulePolicy = &nomad.ReschedulePolicy{Unlimited: true, Delay: 30 * time.Second, DelayFunction: "exponential", MaxDelay: time.Hour}
	if rng.IntN(3) > 0 {
		tg.Update = &nomad.UpdateStrategy{MaxParallel: 1 + rng.IntN(2), Canary: rng.IntN(2), ProgressDeadline: time.Hour}
	}
	after := time.Minute
	tg.Disconnect = []*nomad.DisconnectStrategy{nil, nil, {StopOnClientAfter: &after}, {LostAfter: 10 * time.Minute},
		{LostAfter: time.Hour, Replace: &no}}[rng.IntN(5)]
}

// canaries returns how many live canaries run beside the allocations of the count.
func (c *cell) canaries() (n int) {
	for _, a := range c.live() {
		if a.IsCanary() {
			n++
		}
	}
	return n
}

// userChanges changes the job or its deployment.
func (c *cell) userChanges(rng *rand.Rand) string {
	d := c.LatestDeployment(nil, "", "j")
	switch k := rng.IntN(5); {
	case k == 0:
		c.change(func(j *nomad.Job) { j.TaskGroups[0].Count = 1 + rng.IntN(4) })
	case k <= 2:
		c.change(newCommandOf(fmt.Sprint(c.index)))
	case k == 3 && d != nil && d.Status == nomad.DeploymentStatusRunning:
		status := []string{nomad.DeploymentStatusFailed, nomad.DeploymentStatusPaused}[rng.IntN(2)]
		c.deploymentStatus(&nomad.DeploymentStatusUpdate{DeploymentID: d.ID, Status: status})
		c.event(nomad.EvalTriggerDeploymentWatcher)
		return "deployment " + status
	default:
		c.report(nomad.AllocClientStatusRunning, &yes, c.live()...)
		c.event(nomad.EvalTriggerDeploymentWatcher)
		return "healthy"
	}
	c.event(nomad.EvalTriggerJobRegister)
	return "changed"
}

func newCommandOf(text string) func(*nomad.Job) {
	return func(j *nomad.Job) { j.TaskGroups[0].Tasks[0].Config = map[string]any{"command": text} }
}

// nodesHappen applies an event that no user asked for.
func (c *cell) nodesHappen(rng *rand.Rand) string {
	ids := slices.Sorted(maps.Keys(c.nodes))
	id := ids[rng.IntN(len(ids))]
	switch rng.IntN(7) {
	case 6:
		return c.ends(rng)
	case 0, 1:
		c.markLost(id)
		return "lose " + id
	case 2:
		c.back(id)
		return "back " + id
	case 3:
		c.drain(id)
		return "drain " + id
	case 4:
		c.copyNode(id, func(n *nomad.Node) {
			if n.Status == nomad.NodeStatusReady {
				n.Status = nomad.NodeStatusDisconnected
			}
		})
		c.event(nomad.EvalTriggerNodeUpdate)
		return "disconnect " + id
	}
	c.now = c.now.Add(time.Duration(rng.IntN(90)) * time.Second)
	c.due()
	return "time"
}

// ends reports the end of an allocation that must run on. A failed deployment is a reason not to replace its failures.
func (c *cell) ends(rng *rand.Rand) string {
	live, d := c.live(), c.LatestDeployment(nil, "", "j")
	if len(live) == 0 {
		return "nothing"
	}
	a, status := live[rng.IntN(len(live))], nomad.AllocClientStatusFailed
	if d != nil && d.Status == nomad.DeploymentStatusFailed && a.DeploymentID == d.ID {
		return "nothing"
	}
	if a.Job.Type == nomad.JobTypeService && rng.IntN(2) == 0 {
		status = nomad.AllocClientStatusComplete
	}
	if n := c.nodes[a.NodeID]; n.Status != nomad.NodeStatusReady {
		return "nothing"
	}
	c.report(status, nil, a)
	if a.FollowupEvalID == "" {
		c.event(nomad.EvalTriggerRetryFailedAlloc)
	}
	return status + " " + a.Name
}

// With stop_on_client_after, the node of a lost allocation is back before the servers may place it again. Whatever its client
// reports, and when, the job runs again once the client has ended it, or the delay is over.
func TestStopOnClientAfter_Back(t *testing.T) {
	after := time.Minute
	for _, reports := range [][]string{nil, {nomad.AllocClientStatusRunning}, {nomad.AllocClientStatusComplete},
		{nomad.AllocClientStatusRunning, nomad.AllocClientStatusComplete}, {nomad.AllocClientStatusFailed}} {
		for _, status := range []string{"", nomad.DeploymentStatusFailed, nomad.DeploymentStatusPaused} {
			c := newCell(t)
			c.addNode("n1")
			c.register(job(nomad.JobTypeService, 1, rolling(1), func(j *nomad.Job) {
				j.TaskGroups[0].Disconnect = &nomad.DisconnectStrategy{StopOnClientAfter: &after}
			}))
			c.event(nomad.EvalTriggerJobRegister)
			old := c.live()[0]
			if status != "" {
				c.deploymentStatus(&nomad.DeploymentStatusUpdate{DeploymentID: c.deps[0].ID, Status: status})
			}
			c.markLost("n1")
			c.now = c.now.Add(10 * time.Second)
			c.copyNode("n1", func(n *nomad.Node) { n.Status = nomad.NodeStatusReady })
			c.event(nomad.EvalTriggerNodeUpdate)
			for _, s := range reports {
				c.now = c.now.Add(5 * time.Second)
				c.report(s, nil, c.allocs[old.ID])
				reported := *c.allocs[old.ID]
				reported.ModifyTime = c.now.UnixNano()
				c.set(&reported)
				c.event(nomad.EvalTriggerNodeUpdate)
			}
			for range 4 {
				if len(c.live()) == 0 && len(c.waiting) == 0 && c.blocked == nil {
					t.Fatalf("deployment %q, reports %q: nothing runs and nothing waits", status, reports)
				}
				c.now = c.now.Add(40 * time.Second)
				c.due()
			}
			if n := len(c.live()); n != 1 {
				t.Errorf("deployment %q, reports %q: %d live, want 1", status, reports, n)
			}
		}
	}
}
