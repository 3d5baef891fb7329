package plan_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/fsm/testlog"
	"github.com/open-nomad/open-nomad/nomad/message"
)

// gate holds plan commits until the test releases them.
type gate struct {
	arrived chan struct{}
	open    chan error
}

func (w *world) gate() *gate {
	g := &gate{arrived: make(chan struct{}, 100), open: make(chan error, 100)}
	w.Before(func(ctx context.Context, typ message.CommandType) error {
		if typ != message.ApplyPlanResultsRequestType {
			return nil
		}
		g.arrived <- struct{}{}
		return <-g.open
	})
	return g
}

type answer struct {
	r   *nomad.PlanResult
	err error
}

func (w *world) submitLater(p *nomad.Plan) <-chan answer {
	ch := make(chan answer, 1)
	go func() {
		r, err := w.applier.Submit(context.Background(), p)
		ch <- answer{r, err}
	}()
	return ch
}

// TestPipeline_Overlap submits a second plan while the first is being committed. It is
// checked and signed in the meantime, on top of the first.
func TestPipeline_Overlap(t *testing.T) {
	w := start(t)
	node := w.Node(t)
	jobA, jobB := w.Job(t, nomad.JobTypeBatch, 1), w.Job(t, nomad.JobTypeBatch, 1)
	p1 := place(w.plan(jobA), testlog.NewAlloc(jobA, node, cpu(3000)))
	p2 := place(w.plan(jobB), testlog.NewAlloc(jobB, node, cpu(1000)))
	p3 := place(w.plan(jobB), testlog.NewAlloc(jobB, node, cpu(1)))
	w.minter.signed = make(chan int, 10)
	g := w.gate()

	first := w.submitLater(p1)
	<-g.arrived
	<-w.minter.signed
	second := w.submitLater(p2)
	<-w.minter.signed // its check is complete while the first is held
	g.open <- nil
	if a := <-first; a.err != nil || a.r.AllocIndex == 0 {
		t.Fatalf("first plan: %+v", a)
	}
	<-g.arrived
	third := w.submitLater(p3) // the node is full
	g.open <- nil
	if a := <-second; a.err != nil || len(a.r.NodeAllocation) != 1 {
		t.Fatalf("second plan: %+v", a)
	}
	a := <-third
	if a.err != nil || len(a.r.RejectedNodes) != 1 {
		t.Fatalf("third plan: %+v, want the node rejected", a)
	}
	if a.r.RefreshIndex < w.Snapshot().TableIndex("allocs") {
		t.Errorf("RefreshIndex %d does not show the second plan, at %d", a.r.RefreshIndex, w.Snapshot().TableIndex("allocs"))
	}
}

// TestPipeline_FailedCommit uses the capacity that a failed commit would have freed.
func TestPipeline_FailedCommit(t *testing.T) {
	w := start(t)
	node := w.Node(t)
	jobA, jobB := w.Job(t, nomad.JobTypeService, 1), w.Job(t, nomad.JobTypeBatch, 1)
	old := w.Alloc(t, jobA, node, cpu(4000))
	p1 := w.plan(jobA)
	lostOne := *old
	lostOne.ClientStatus = nomad.AllocClientStatusLost
	p1.NodeUpdate[node.ID] = []*nomad.Allocation{&lostOne}
	p2 := place(w.plan(jobB), testlog.NewAlloc(jobB, node, cpu(4000)))
	w.minter.signed = make(chan int, 10)
	g := w.gate()

	first := w.submitLater(p1)
	<-g.arrived
	second := w.submitLater(p2)
	<-w.minter.signed
	lost := errors.New("leadership lost")
	g.open <- lost
	if a := <-first; !errors.Is(a.err, lost) {
		t.Errorf("first plan: %+v, want %v", a, lost)
	}
	if a := <-second; a.err != nil || len(a.r.RejectedNodes) != 1 {
		t.Errorf("second plan: %+v, want the node rejected", a)
	}
}

func TestPriority(t *testing.T) {
	w := start(t)
	node := w.Node(t)
	job := w.Job(t, nomad.JobTypeBatch, 1)
	w.minter.signed = make(chan int, 10)
	g := w.gate()
	first := w.submitLater(place(w.plan(job), testlog.NewAlloc(job, node)))
	<-w.minter.signed
	<-g.arrived
	// This plan is checked and waits for the commit; the others are queued behind it.
	second := w.submitLater(place(w.plan(job), testlog.NewAlloc(job, node)))
	<-w.minter.signed
	var allocs []*nomad.Allocation
	var answers []<-chan answer
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for i, priority := range []int{10, 90, 50} {
		p := w.plan(job)
		p.Priority = priority
		a := testlog.NewAlloc(job, node)
		allocs = append(allocs, a)
		answers = append(answers, w.submitLater(place(p, a)))
		for w.applier.Queued() < i+1 {
			<-tick.C
		}
	}
	for range 5 {
		g.open <- nil
	}
	for _, ch := range append(answers, first, second) {
		if a := <-ch; a.err != nil {
			t.Fatal(a.err)
		}
	}
	snap := w.Snapshot()
	index := func(i int) uint64 { return snap.Alloc(nil, allocs[i].ID).CreateIndex }
	if index(1) > index(2) || index(2) > index(0) {
		t.Errorf("plans of priority 10, 90, 50 were committed at %d, %d, %d", index(0), index(1), index(2))
	}
}

func TestNotLeading(t *testing.T) {
	w := start(t)
	node, job := w.Node(t), w.Job(t, nomad.JobTypeBatch, 1)
	g := w.gate()
	first := w.submitLater(place(w.plan(job), testlog.NewAlloc(job, node)))
	<-g.arrived
	g.open <- nil
	<-first
	w.stop()
	if _, err := w.applier.Submit(context.Background(), w.plan(job)); !errors.Is(err, apierror.ErrNoLeader) {
		t.Errorf("Submit() after Run ended = %v, want %v", err, apierror.ErrNoLeader)
	}
}

// TestBetween changes a node while a plan for it is being committed, and submits another. The change is written after
// the first and before the second, which is rejected.
func TestBetween(t *testing.T) {
	for range 20 {
		w := start(t)
		node := w.Node(t)
		job := w.Job(t, nomad.JobTypeBatch, 2)
		p1 := place(w.plan(job), testlog.NewAlloc(job, node, cpu(1)))
		p2 := place(w.plan(job), testlog.NewAlloc(job, node, cpu(1)))
		g := w.gate()
		first := w.submitLater(p1)
		<-g.arrived
		begun, changed := make(chan bool), make(chan uint64)
		go func() {
			close(begun)
			w.applier.Between(func() error {
				index, err := w.Apply(context.Background(), message.NodeUpdateEligibilityRequestType, &message.NodeUpdateEligibilityRequest{
					NodeID: node.ID, Eligibility: nomad.NodeSchedulingIneligible})
				changed <- index
				return err
			})
		}()
		<-begun
		wrote := uint64(0)
		select {
		case wrote = <-changed:
		case <-time.After(time.Millisecond): // a change that does not wait is written within this
		}
		g.open <- nil
		got := <-first
		if wrote == 0 {
			wrote = <-changed
		}
		if got.err != nil || got.r.AllocIndex == 0 || got.r.AllocIndex >= wrote {
			t.Fatalf("the plan was committed at %d: %v, the node was changed at %d; want the plan first", got.r.AllocIndex, got.err, wrote)
		}
		if r := w.submit(p2); len(r.NodeAllocation) != 0 {
			t.Fatalf("the plan after the change placed %v; want nothing on an ineligible node", r.NodeAllocation)
		}
		w.stop()
	}
}
