package worker_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/broker"
	"github.com/open-nomad/open-nomad/nomad/fsm/testlog"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/worker"
)

// leader implements the RPCs of a worker with a real broker and a real state. It commits plans
// without checks.
type leader struct {
	*testlog.Log
	broker  *broker.Broker
	blocked *broker.Blocked

	mu      sync.Mutex
	fail    map[string]error                    // by method, once
	wait    uint64                              // WaitIndex of Eval.Dequeue
	partial func(*nomad.Plan) *nomad.PlanResult // replaces one commit
	plans   []*nomad.Plan
	taken   int         // number of Eval.Dequeue results
	late    bool        // Eval.Finish is answered after the worker is stopped
	ended   chan string // "Eval.Ack", "Eval.Finish" or "Eval.Nack"
}

func newLeader() *leader {
	b := broker.New(broker.Config{})
	bl := broker.NewBlocked(b)
	b.Enable()
	bl.Enable()
	l := &leader{broker: b, blocked: bl, fail: map[string]error{}, ended: make(chan string, 10)}
	l.Log = testlog.New(broker.NewObserver(b, bl, func(id string) (string, bool) {
		n := l.Snapshot().Node(nil, id)
		return n.ComputedClass, true
	}, func(nomad.NamespacedID) bool { return false }))
	return l
}

func (l *leader) Call(ctx context.Context, method string, req, resp any) error {
	l.mu.Lock()
	err, wait := l.fail[method], l.wait
	delete(l.fail, method)
	l.mu.Unlock()
	if err := cmp.Or(err, ctx.Err()); err != nil {
		return err
	}
	switch method {
	case "Eval.Dequeue":
		e, token, err := l.broker.Dequeue(ctx, req.(*message.EvalDequeueRequest).Schedulers)
		*resp.(*message.EvalDequeueResponse) = message.EvalDequeueResponse{Eval: e, Token: token, WaitIndex: wait}
		if e != nil {
			l.mu.Lock()
			l.taken++
			l.mu.Unlock()
		}
		return err
	case "Eval.Ack", "Eval.Nack":
		r := req.(*message.EvalAckRequest)
		defer func() { l.ended <- method }()
		if method == "Eval.Ack" {
			return l.broker.Ack(r.EvalID, r.Token)
		}
		return l.broker.Nack(r.EvalID, r.Token)
	case "Eval.Update", "Eval.Create":
		_, err := l.Apply(ctx, message.EvalUpdateRequestType, req)
		return err
	case "Eval.Finish":
		r := req.(*message.EvalFinishRequest)
		if _, err := l.Apply(ctx, message.EvalUpdateRequestType,
			&message.EvalUpdateRequest{Evals: r.Evals, WriteRequest: r.WriteRequest}); err != nil {
			return err
		}
		if err := l.broker.Ack(r.Evals[0].ID, r.EvalToken); err != nil {
			return err
		}
		l.ended <- method
		if l.late {
			<-ctx.Done()
		}
		out := resp.(*message.EvalDequeueResponse)
		out.Eval, out.Token = l.broker.TryDequeue(r.Schedulers)
		return nil
	case "Eval.Reblock":
		r := req.(*message.EvalUpdateRequest)
		l.blocked.Reblock(r.Evals[0], r.EvalToken)
		return nil
	case "Plan.Submit":
		result, err := l.submit(ctx, req.(*message.PlanRequest).Plan)
		*resp.(*message.PlanResponse) = message.PlanResponse{Result: result}
		return err
	}
	return fmt.Errorf("no method %s", method)
}

func (l *leader) submit(ctx context.Context, p *nomad.Plan) (*nomad.PlanResult, error) {
	if err := l.broker.OutstandingReset(p.EvalID, p.EvalToken); err != nil {
		return nil, err
	}
	l.mu.Lock()
	l.plans = append(l.plans, p)
	partial := l.partial
	l.partial = nil
	l.mu.Unlock()
	if partial != nil {
		return partial(p), nil
	}
	req := &message.ApplyPlanResultsRequest{Job: p.Job, EvalID: p.EvalID, UpdatedAt: 1, Deployment: p.Deployment}
	for _, allocs := range p.NodeAllocation {
		req.AllocsUpdated = append(req.AllocsUpdated, allocs...)
	}
	index, err := l.Apply(ctx, message.ApplyPlanResultsRequestType, req)
	return &nomad.PlanResult{NodeAllocation: p.NodeAllocation, AllocIndex: index, Deployment: p.Deployment}, err
}

type core func(*nomad.Evaluation) error

func (c core) Process(_ context.Context, e *nomad.Evaluation) error { return c(e) }

func run(t *testing.T, l *leader, c worker.Core) (stop func()) {
	t.Helper()
	w := worker.New(worker.Config{RPC: l, Store: l.Store, Core: c, Region: "global", Log: slog.New(slog.DiscardHandler)})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- w.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("Run() = %v", err)
		}
	})
	t.Cleanup(stop)
	return stop
}

func (l *leader) want(t *testing.T, method string) {
	t.Helper()
	if got := <-l.ended; got != method {
		t.Errorf("the evaluation ended with %s, want %s", got, method)
	}
}

func TestWorker_Places(t *testing.T) {
	for _, typ := range []string{nomad.JobTypeBatch, nomad.JobTypeService, nomad.JobTypeSystem, nomad.JobTypeSysBatch} {
		t.Run(typ, func(t *testing.T) {
			l := newLeader()
			run(t, l, nil)
			l.Node(t)
			job := l.Job(t, typ, 1)
			e := l.Eval(t, job)
			l.want(t, "Eval.Finish")
			snap := l.Snapshot()
			if got := slices.Collect(snap.AllocsByJob(nil, job.Namespace, job.ID)); len(got) != 1 || got[0].EvalID != e.ID {
				t.Errorf("allocations are %+v, want one of %s", got, e.ID)
			}
			if got := snap.Eval(nil, e.ID); got.Status != nomad.EvalStatusComplete {
				t.Errorf("evaluation is %s (%s), want it complete", got.Status, got.StatusDescription)
			}
			if p := l.plans[0]; p.SnapshotIndex < e.ModifyIndex {
				t.Errorf("planned on index %d, before the evaluation at %d", p.SnapshotIndex, e.ModifyIndex)
			}
		})
	}
}

func TestWorker_WaitsForIndex(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLeader()
		l.Node(t)
		job := l.Job(t, nomad.JobTypeBatch, 1)
		l.wait = l.Snapshot().Index() + 2 // the evaluation, and one more
		stop := run(t, l, nil)
		defer stop()
		l.Eval(t, job)
		synctest.Wait()
		if len(l.plans) != 0 {
			t.Fatal("planned before the state caught up")
		}
		l.Node(t)
		l.want(t, "Eval.Finish")
		if p := l.plans[0]; p.SnapshotIndex < l.wait {
			t.Errorf("planned on index %d, want %d", p.SnapshotIndex, l.wait)
		}
	})
}

func TestWorker_IndexTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLeader()
		job := l.Job(t, nomad.JobTypeBatch, 1)
		l.wait = 1000
		stop := run(t, l, nil)
		defer stop()
		l.Eval(t, job)
		l.want(t, "Eval.Nack")
	})
}

func TestWorker_Nack(t *testing.T) {
	for _, method := range []string{"Plan.Submit", "Eval.Finish"} {
		t.Run(method, func(t *testing.T) {
			l := newLeader()
			l.fail[method] = errors.New("no leader")
			run(t, l, nil)
			l.Node(t)
			l.Eval(t, l.Job(t, nomad.JobTypeBatch, 1))
			l.want(t, "Eval.Nack")
		})
	}
}

func TestWorker_FailedDequeue(t *testing.T) {
	l := newLeader()
	l.fail["Eval.Dequeue"] = apierror.ErrNoLeader
	run(t, l, nil)
	l.Node(t)
	l.Eval(t, l.Job(t, nomad.JobTypeBatch, 1))
	l.want(t, "Eval.Finish")
}

// TestWorker_Refresh rejects a plan on its node. The next plan uses the state that shows why.
func TestWorker_Refresh(t *testing.T) {
	l := newLeader()
	first := l.Node(t)
	var second *nomad.Node
	l.partial = func(p *nomad.Plan) *nomad.PlanResult {
		l.Must(t, message.NodeUpdateEligibilityRequestType, &message.NodeUpdateEligibilityRequest{
			NodeID: first.ID, Eligibility: nomad.NodeSchedulingIneligible})
		second = l.Node(t)
		return &nomad.PlanResult{RejectedNodes: []string{first.ID}, RefreshIndex: l.Snapshot().Index()}
	}
	run(t, l, nil)
	job := l.Job(t, nomad.JobTypeBatch, 1)
	l.Eval(t, job)
	l.want(t, "Eval.Finish")
	if len(l.plans) != 2 || len(l.plans[1].NodeAllocation[second.ID]) != 1 {
		t.Fatalf("%d plans, want a second one for the node that came", len(l.plans))
	}
	if p := l.plans[1]; p.SnapshotIndex < second.ModifyIndex {
		t.Errorf("the second plan is of index %d, before the refresh at %d", p.SnapshotIndex, second.ModifyIndex)
	}
}

// TestWorker_Block exhausts the capacity, and continues after a node is added.
func TestWorker_Block(t *testing.T) {
	l := newLeader()
	run(t, l, nil)
	job := l.Job(t, nomad.JobTypeBatch, 1)
	e := l.Eval(t, job)
	l.want(t, "Eval.Finish")
	var blocked *nomad.Evaluation
	for got := range l.Snapshot().EvalsByJob(nil, job.Namespace, job.ID) {
		if got.Status == nomad.EvalStatusBlocked {
			blocked = got
		}
	}
	if blocked == nil || blocked.SnapshotIndex < e.ModifyIndex {
		t.Fatalf("blocked evaluation is %+v, want one with the index that was looked at", blocked)
	}
	l.Node(t)
	l.want(t, "Eval.Finish")
	if n := len(slices.Collect(l.Snapshot().AllocsByJob(nil, job.Namespace, job.ID))); n != 1 {
		t.Errorf("%d allocations, want 1", n)
	}
}

// TestWorker_NextFromFinish has three evaluations for one worker. It dequeues the first, and gets the
// others in the answers to Eval.Finish.
func TestWorker_NextFromFinish(t *testing.T) {
	l := newLeader()
	l.Node(t)
	for range 3 {
		l.Eval(t, l.Job(t, nomad.JobTypeBatch, 1))
	}
	stop := run(t, l, nil)
	for range 3 {
		l.want(t, "Eval.Finish")
	}
	stop()
	if l.taken != 1 {
		t.Errorf("the worker dequeued %d evaluations, want one", l.taken)
	}
	if stats := l.broker.Stats(); stats.Unacked+stats.Ready > 0 {
		t.Errorf("remaining: %+v", stats)
	}
}

// TestWorker_NackNext stops a worker while it finishes an evaluation.
func TestWorker_NackNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // a stopped worker has half a second for its nack
		l := newLeader()
		l.late = true
		for range 2 {
			l.Eval(t, l.Job(t, nomad.JobTypeBatch, 1))
		}
		stop := run(t, l, nil)
		defer stop()
		l.want(t, "Eval.Finish")
		stop()
		l.want(t, "Eval.Nack")
		if stats := l.broker.Stats(); stats.Unacked > 0 {
			t.Errorf("remaining: %+v", stats)
		}
	})
}

// TestWorker_OlderLeader uses a leader without Eval.Finish.
func TestWorker_OlderLeader(t *testing.T) {
	l := newLeader()
	l.fail["Eval.Finish"] = apierror.FromText("rpc: can't find method Eval.Finish")
	run(t, l, nil)
	job := l.Job(t, nomad.JobTypeBatch, 1)
	l.Eval(t, job)
	l.want(t, "Eval.Ack")
	var status []string
	for got := range l.Snapshot().EvalsByJob(nil, job.Namespace, job.ID) {
		status = append(status, got.Status)
	}
	slices.Sort(status)
	if want := []string{nomad.EvalStatusBlocked, nomad.EvalStatusComplete}; !slices.Equal(status, want) {
		t.Errorf("evaluations are %v, want %v", status, want)
	}
}

func TestWorker_Core(t *testing.T) {
	for name, tt := range map[string]struct {
		process core
		want    string
	}{
		"done":     {func(*nomad.Evaluation) error { return nil }, "Eval.Ack"},
		"failed":   {func(*nomad.Evaluation) error { return errors.New("no") }, "Eval.Nack"},
		"panicked": {func(*nomad.Evaluation) error { panic("bug") }, "Eval.Nack"},
		"none":     {nil, "Eval.Nack"},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLeader()
			var c worker.Core
			if tt.process != nil {
				c = tt.process
			}
			run(t, l, c)
			l.broker.Enqueue(nomad.NewCoreEval(nomad.CoreJobEvalGC, l.Snapshot().Index(), time.Now()))
			l.want(t, tt.want)
		})
	}
}

// TestWorker_Shutdown stops a worker in the middle of an evaluation.
func TestWorker_Shutdown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // a stopped worker has half a second for its nack
		l := newLeader()
		in, out := make(chan struct{}), make(chan struct{})
		l.Before(func(ctx context.Context, typ message.CommandType) error {
			if typ != message.ApplyPlanResultsRequestType {
				return nil
			}
			close(in)
			<-ctx.Done()
			close(out)
			return ctx.Err()
		})
		stop := run(t, l, nil)
		defer stop()
		l.Node(t)
		l.Eval(t, l.Job(t, nomad.JobTypeBatch, 1))
		<-in
		stop()
		<-out
		l.want(t, "Eval.Nack")
	})
}
