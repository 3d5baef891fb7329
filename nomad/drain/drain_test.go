package drain_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/drain"
	"github.com/open-nomad/open-nomad/nomad/fsm/testlog"
	"github.com/open-nomad/open-nomad/nomad/message"
)

// pause is long enough for the drainer to take the steps that are due.
const pause = time.Second

// world is a cluster whose clients and scheduler are the methods below.
type world struct {
	*testlog.Log
	t        *testing.T
	old, new *nomad.Node
	ended    chan error
	stop     context.CancelFunc
}

// drains runs fn with a leader and two nodes.
func drains(t *testing.T, fn func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		l := testlog.New(nil)
		w := &world{Log: l, t: t, old: l.Node(t), new: l.Node(t), ended: make(chan error, 1)}
		w.lead()
		fn(w)
		w.resign()
	})
}

// lead starts a drainer, as a new leader does.
func (w *world) lead() {
	ctx, cancel := context.WithCancel(w.t.Context())
	w.stop = cancel
	d := drain.New(drain.Config{Store: w.Store, Raft: w.Log, Log: slog.New(slog.DiscardHandler)})
	go func() { w.ended <- d.Run(ctx) }()
	synctest.Wait()
}

// resign ends the drainer of the leader.
func (w *world) resign() {
	w.t.Helper()
	w.stop()
	if err := <-w.ended; !errors.Is(err, context.Canceled) {
		w.t.Errorf("Run() = %v", err)
	}
}

// wait lets time pass.
func (w *world) wait(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// drain starts the drain of the old node.
func (w *world) drain(deadline time.Duration) {
	w.t.Helper()
	s := &nomad.DrainStrategy{DrainSpec: nomad.DrainSpec{Deadline: deadline}, StartedAt: time.Now()}
	if deadline > 0 {
		s.ForceDeadline = time.Now().Add(deadline)
	}
	w.Must(w.t, message.NodeUpdateDrainRequestType, &message.NodeUpdateDrainRequest{NodeID: w.old.ID, DrainStrategy: s,
		UpdatedAt: time.Now().Unix(), UpdatedBy: "token:x"})
}

// report sends the status of an allocation, with its health if it runs.
func (w *world) report(a *nomad.Allocation, status string) {
	w.t.Helper()
	update := *w.Snapshot().Alloc(nil, a.ID)
	update.ClientStatus = status
	if status == nomad.AllocClientStatusRunning {
		healthy := true
		update.DeploymentStatus = &nomad.AllocDeploymentStatus{Healthy: &healthy, Timestamp: time.Now()}
	}
	w.Must(w.t, message.AllocClientUpdateRequestType, &message.AllocUpdateRequest{Alloc: []*nomad.Allocation{&update}})
}

// service places a service job with a count of allocations on the old node, which are healthy.
func (w *world) service(count int) (*nomad.Job, []*nomad.Allocation) {
	w.t.Helper()
	job := w.Job(w.t, nomad.JobTypeService, count, func(j *nomad.Job) {
		j.TaskGroups[0].Migrate = &nomad.MigrateStrategy{MaxParallel: 1}
	})
	var allocs []*nomad.Allocation
	for i := range count {
		a := w.Alloc(w.t, job, w.old, func(a *nomad.Allocation) { a.Name = nomad.AllocName(job.ID, "g", uint(i)) })
		w.report(a, nomad.AllocClientStatusRunning)
		allocs = append(allocs, a)
	}
	return job, allocs
}

// marked returns the IDs of the live allocations that are to migrate.
func (w *world) marked() []string {
	var out []string
	for a := range w.Snapshot().AllocsByNode(nil, w.old.ID) {
		if m := a.DesiredTransition.Migrate; m != nil && *m && !a.TerminalStatus() {
			out = append(out, a.ID)
		}
	}
	return out
}

// move replaces an allocation on the new node, as the scheduler and the clients do. It returns the replacement,
// whose health is not known yet.
func (w *world) move(id string) *nomad.Allocation {
	w.t.Helper()
	a := *w.Snapshot().Alloc(nil, id)
	a.DesiredStatus = nomad.AllocDesiredStatusStop
	w.Must(w.t, message.ApplyPlanResultsRequestType, &message.ApplyPlanResultsRequest{AllocsUpdated: []*nomad.Allocation{&a}})
	w.report(&a, nomad.AllocClientStatusComplete)
	return w.Alloc(w.t, a.Job, w.new, func(n *nomad.Allocation) { n.Name, n.PreviousAllocation = a.Name, a.ID })
}

func (w *world) evals(job *nomad.Job) []*nomad.Evaluation {
	return slices.Collect(w.Snapshot().EvalsByJob(nil, job.Namespace, job.ID))
}

// wantComplete checks that the drain of the old node is complete.
func (w *world) wantComplete(deadline string) {
	w.t.Helper()
	n := w.Snapshot().Node(nil, w.old.ID)
	if n.DrainStrategy != nil || n.SchedulingEligibility != nomad.NodeSchedulingIneligible || n.LastDrain == nil ||
		n.LastDrain.Status != nomad.DrainStatusComplete || n.LastDrain.AccessorID != "token:x" {
		w.t.Fatalf("the node is %s, drain %+v, last drain %+v", n.SchedulingEligibility, n.DrainStrategy, n.LastDrain)
	}
	last := n.Events[len(n.Events)-1]
	if last.Message != "Node drain complete" || last.Subsystem != nomad.NodeEventSubsystemDrain ||
		last.Details["deadline_reached"] != deadline {
		w.t.Errorf("last event is %+v", last)
	}
}

func (w *world) wantDraining() {
	w.t.Helper()
	if n := w.Snapshot().Node(nil, w.old.ID); n.DrainStrategy == nil {
		w.t.Fatalf("the drain ended: %+v", n.LastDrain)
	}
}

func TestDrain_MaxParallel(t *testing.T) {
	drains(t, func(w *world) {
		job, _ := w.service(3)
		w.drain(time.Hour)
		for moved := range 3 {
			w.wait(pause)
			marked := w.marked()
			if len(marked) != 1 {
				t.Fatalf("%d allocations are marked after %d have moved, want 1", len(marked), moved)
			}
			if n := len(w.evals(job)); n != moved+1 {
				t.Fatalf("%d evaluations after %d have moved", n, moved)
			}
			w.wantDraining()
			next := w.move(marked[0])
			w.wait(pause)
			if again := w.marked(); len(again) != 0 {
				t.Fatalf("%q marked before the replacement is healthy", again)
			}
			w.report(next, nomad.AllocClientStatusRunning)
		}
		w.wait(pause)
		w.wantComplete("")
		for _, e := range w.evals(job) {
			if e.TriggeredBy != nomad.EvalTriggerNodeDrain || e.Priority != job.Priority || e.Type != job.Type ||
				e.Status != nomad.EvalStatusPending {
				t.Errorf("evaluation is %+v", e)
			}
		}
	})
}

// A new leader continues a drain without marking anything twice.
func TestDrain_NewLeader(t *testing.T) {
	drains(t, func(w *world) {
		job, _ := w.service(2)
		w.drain(time.Hour)
		w.wait(pause)
		w.resign()
		w.lead()
		w.wait(pause)
		first := w.marked()
		if len(first) != 1 || len(w.evals(job)) != 1 {
			t.Fatalf("%d marked, %d evaluations, want 1 and 1", len(first), len(w.evals(job)))
		}
		w.resign()
		next := w.move(first[0]) // while no leader runs
		w.report(next, nomad.AllocClientStatusRunning)
		w.lead()
		w.wait(pause)
		second := w.marked()
		if len(second) != 1 || second[0] == first[0] {
			t.Fatalf("%q marked, after %q", second, first)
		}
		w.report(w.move(second[0]), nomad.AllocClientStatusRunning)
		w.resign()
		w.lead()
		w.wait(pause)
		w.wantComplete("")
	})
}

func TestDeadline(t *testing.T) {
	drains(t, func(w *world) {
		job, allocs := w.service(3)
		batch := w.Job(t, nomad.JobTypeBatch, 1)
		b := w.Alloc(t, batch, w.old)
		w.drain(time.Hour)
		w.wait(time.Hour - pause)
		w.wantDraining()
		if n := len(w.marked()); n != 1 {
			t.Fatalf("%d marked before the deadline, want 1", n)
		}
		w.wait(2 * pause)
		w.wantComplete("true")
		if n := len(w.marked()); n != len(allocs)+1 {
			t.Errorf("%d marked, want %d", n, len(allocs)+1)
		}
		for _, id := range []string{b.ID, allocs[1].ID} { // the work of a batch job is not done
			if d := w.Snapshot().Alloc(nil, id).DesiredTransition; d.MigrateDisablePlacement != nil {
				t.Errorf("transition of %s is %+v, want a replacement", id, d)
			}
		}
		if n, m := len(w.evals(job)), len(w.evals(batch)); n != 2 || m != 1 {
			t.Errorf("%d and %d evaluations, want 2 and 1", n, m)
		}
	})
}

// The deadline passes while no leader runs: the new one ends the drain at once.
func TestDeadline_NoLeader(t *testing.T) {
	drains(t, func(w *world) {
		w.service(2)
		w.drain(time.Minute)
		w.wait(pause)
		w.resign()
		w.wait(time.Hour)
		w.lead()
		w.wait(pause)
		w.wantComplete("true")
		if n := len(w.marked()); n != 2 {
			t.Errorf("%d marked, want 2", n)
		}
	})
}

func TestDrain_Canceled(t *testing.T) {
	drains(t, func(w *world) {
		w.service(3)
		w.drain(time.Hour)
		w.wait(pause)
		marked := w.marked()
		w.Must(t, message.NodeUpdateDrainRequestType, &message.NodeUpdateDrainRequest{NodeID: w.old.ID, MarkEligible: true,
			UpdatedAt: time.Now().Unix(), UpdatedBy: "token:y"})
		w.report(w.move(marked[0]), nomad.AllocClientStatusRunning)
		w.wait(2 * time.Hour)
		n := w.Snapshot().Node(nil, w.old.ID)
		if again := w.marked(); len(again) != 0 || n.LastDrain.Status != nomad.DrainStatusCanceled || !n.Ready() {
			t.Errorf("%q marked, last drain %+v, eligibility %s", again, n.LastDrain, n.SchedulingEligibility)
		}
	})
}

// A failed write is repeated.
func TestDrain_FailedWrite(t *testing.T) {
	drains(t, func(w *world) {
		job, _ := w.service(1)
		failures := map[message.CommandType]int{}
		w.Before(func(_ context.Context, typ message.CommandType) error {
			drains := typ == message.AllocUpdateDesiredTransitionRequestType || typ == message.BatchNodeUpdateDrainRequestType
			if drains && failures[typ] < 3 {
				failures[typ]++
				return errors.New("no leader")
			}
			return nil
		})
		w.drain(0)
		w.wait(10 * time.Second)
		marked := w.marked()
		if len(marked) != 1 || len(w.evals(job)) != 1 {
			t.Fatalf("%d marked, %d evaluations, want 1 and 1", len(marked), len(w.evals(job)))
		}
		w.move(marked[0])
		w.wait(10 * time.Second)
		w.wantComplete("")
		if len(failures) != 2 {
			t.Errorf("failures: %v", failures)
		}
	})
}

// One log entry marks at most 512 allocations.
func TestDrain_LargeEntries(t *testing.T) {
	drains(t, func(w *world) {
		job := w.Job(t, nomad.JobTypeBatch, 1200)
		for range 1200 {
			w.Alloc(t, job, w.old)
		}
		entries := 0
		w.Before(func(_ context.Context, typ message.CommandType) error {
			if typ == message.AllocUpdateDesiredTransitionRequestType {
				entries++
			}
			return nil
		})
		w.drain(-1)
		w.wait(pause)
		w.wantComplete("true")
		if n := len(w.marked()); n != 1200 || entries != 3 {
			t.Errorf("%d marked in %d entries, want 1200 in 3", n, entries)
		}
	})
}
