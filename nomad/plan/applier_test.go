package plan_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/fsm/testlog"
	"github.com/open-nomad/open-nomad/nomad/plan"
)

// minter signs by writing the claims down.
type minter struct {
	signed chan int // when not nil: the number of claims of each call
	err    error
}

func (m *minter) Workload(a *nomad.Allocation, j *nomad.Job, h nomad.WIHandle, id *nomad.WorkloadIdentity, _ time.Time) *nomad.IdentityClaims {
	return &nomad.IdentityClaims{
		WorkloadIdentityClaims: &nomad.WorkloadIdentityClaims{JobID: j.ID, AllocationID: a.ID, TaskName: h.WorkloadIdentifier},
		RegisteredClaims:       nomad.RegisteredClaims{Audience: id.Audience, Subject: h.IdentityName},
	}
}

func (m *minter) MintAll(_ context.Context, claims []*nomad.IdentityClaims) ([]nomad.Token, error) {
	if m.err != nil {
		return nil, m.err
	}
	var tokens []nomad.Token
	for _, c := range claims {
		raw := fmt.Sprintf("%s/%s/%s/%v", c.AllocationID, c.TaskName, c.RegisteredClaims.Subject, c.Audience)
		tokens = append(tokens, nomad.NewToken(raw, "key-1"))
	}
	if m.signed != nil {
		m.signed <- len(claims)
	}
	return tokens, nil
}

// held refuses the evaluations with one token.
type held struct{}

func (held) OutstandingReset(_, token string) error {
	if token == "lost" {
		return errors.New("token does not match")
	}
	return nil
}

type world struct {
	*testlog.Log
	t       testing.TB
	applier *plan.Applier
	minter  *minter
	stop    func()
}

// start runs an Applier over an empty state.
func start(t testing.TB) *world {
	t.Helper()
	w := &world{Log: testlog.New(nil), t: t, minter: &minter{}}
	w.applier = plan.New(plan.Config{
		Store: w.Store, Raft: w.Log, Minter: w.minter, Evals: held{}, Log: slog.New(slog.DiscardHandler),
	})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		w.applier.Run(ctx)
	}()
	w.stop = func() { cancel(); <-done }
	t.Cleanup(w.stop)
	for { // until it runs
		_, err := w.applier.Submit(ctx, &nomad.Plan{})
		if !errors.Is(err, nomad.ErrNoLeader) {
			return w
		}
	}
}

// plan returns a plan of a new evaluation of the job.
func (w *world) plan(j *nomad.Job) *nomad.Plan {
	w.t.Helper()
	e := w.Eval(w.t, j)
	return &nomad.Plan{
		EvalID: e.ID, Priority: j.Priority, Job: j, SnapshotIndex: w.Snapshot().Index(),
		NodeUpdate: map[string][]*nomad.Allocation{}, NodeAllocation: map[string][]*nomad.Allocation{},
		NodePreemptions: map[string][]*nomad.Allocation{},
	}
}

func place(p *nomad.Plan, allocs ...*nomad.Allocation) *nomad.Plan {
	for _, a := range allocs {
		p.NodeAllocation[a.NodeID] = append(p.NodeAllocation[a.NodeID], a)
	}
	return p
}

func (w *world) submit(p *nomad.Plan) *nomad.PlanResult {
	w.t.Helper()
	r, err := w.applier.Submit(context.Background(), p)
	if err != nil {
		w.t.Fatalf("Submit() = %v", err)
	}
	return r
}

func cpu(mhz int64) func(*nomad.Allocation) {
	return func(a *nomad.Allocation) { a.AllocatedResources.Tasks["t"].Cpu.CpuShares = mhz }
}

func TestPlacesAndSigns(t *testing.T) {
	w := start(t)
	node := w.Node(t)
	job := w.Job(t, nomad.JobTypeBatch, 1, func(j *nomad.Job) {
		second := nomad.Copy(j.TaskGroups[0].Tasks[0])
		second.Name = "u"
		second.Identity = &nomad.WorkloadIdentity{Name: "default", Audience: []string{"own"}}
		j.TaskGroups[0].Tasks = append(j.TaskGroups[0].Tasks, second)
	})
	a := testlog.NewAlloc(job, node)
	r := w.submit(place(w.plan(job), a))
	if r.RefreshIndex != 0 || len(r.RejectedNodes) != 0 || r.AllocIndex != w.Snapshot().Index() {
		t.Errorf("Submit() = %+v, want a full commit at %d", r, w.Snapshot().Index())
	}
	got := w.Snapshot().Alloc(nil, a.ID)
	want := map[string]string{"t": a.ID + "/t/default/[nomadproject.io]", "u": a.ID + "/u/default/[own]"}
	if got == nil || !maps.Equal(got.SignedIdentities, want) || got.SigningKeyID != "key-1" {
		t.Fatalf("stored allocation is %+v, want identities %v", got, want)
	}
	if got.Job == nil || got.Job.ID != job.ID || got.CreateTime == 0 || got.ModifyTime == 0 {
		t.Errorf("stored allocation lacks job or times: %+v", got)
	}
	for _, back := range r.NodeAllocation[node.ID] {
		if len(back.SignedIdentities) != 0 {
			t.Error("the result carries tokens to the worker")
		}
	}
	if len(a.SignedIdentities) != 0 || a.CreateTime != 0 {
		t.Error("the plan was written to")
	}
}

func TestKeepsIdentitiesOfUpdates(t *testing.T) {
	w := start(t)
	node := w.Node(t)
	job := w.Job(t, nomad.JobTypeService, 1)
	a := testlog.NewAlloc(job, node)
	w.submit(place(w.plan(job), a))
	before := w.Snapshot().Alloc(nil, a.ID).SignedIdentities
	w.minter.err = errors.New("nothing to sign")

	update := *w.Snapshot().Alloc(nil, a.ID)
	update.DesiredDescription = "updated"
	update.SignedIdentities = map[string]string{"t": "forged"}
	w.submit(place(w.plan(job), &update))
	got := w.Snapshot().Alloc(nil, a.ID)
	if got.DesiredDescription != "updated" || !maps.Equal(got.SignedIdentities, before) {
		t.Errorf("updated allocation is %+v, want identities %v", got, before)
	}
}

func TestNoKeyNoPlan(t *testing.T) {
	w := start(t)
	w.minter.err = errors.New("no active signing key")
	node, job := w.Node(t), w.Job(t, nomad.JobTypeBatch, 1)
	a := testlog.NewAlloc(job, node)
	if _, err := w.applier.Submit(context.Background(), place(w.plan(job), a)); !errors.Is(err, w.minter.err) {
		t.Errorf("Submit() = %v, want %v", err, w.minter.err)
	}
	if w.Snapshot().Alloc(nil, a.ID) != nil {
		t.Error("an allocation without identity was committed")
	}
}

func TestRejectsNodes(t *testing.T) {
	for name, edit := range map[string]func(*nomad.Node){
		"down":       func(n *nomad.Node) { n.Status = nomad.NodeStatusDown },
		"not ready":  func(n *nomad.Node) { n.Status = nomad.NodeStatusInit },
		"ineligible": func(n *nomad.Node) { n.SchedulingEligibility = nomad.NodeSchedulingIneligible },
		"full":       func(n *nomad.Node) { n.NodeResources.Cpu.CpuShares = 50 },
		"gone":       nil,
	} {
		t.Run(name, func(t *testing.T) {
			w := start(t)
			good, bad := w.Node(t), &nomad.Node{ID: nomad.NewID()}
			if edit != nil {
				bad = w.Node(t, edit)
			}
			job := w.Job(t, nomad.JobTypeBatch, 2)
			fine, refused := testlog.NewAlloc(job, good), testlog.NewAlloc(job, bad)
			r := w.submit(place(w.plan(job), fine, refused))
			if !slices.Equal(r.RejectedNodes, []string{bad.ID}) || len(r.NodeAllocation) != 1 {
				t.Errorf("Submit() = %+v, want %s rejected", r, bad.ID)
			}
			if r.RefreshIndex != r.AllocIndex || r.AllocIndex == 0 {
				t.Errorf("RefreshIndex is %d, want that of the commit, %d", r.RefreshIndex, r.AllocIndex)
			}
			if w.Snapshot().Alloc(nil, fine.ID) == nil || w.Snapshot().Alloc(nil, refused.ID) != nil {
				t.Error("want the fitting allocation committed, and no other")
			}

			all := place(w.plan(job), testlog.NewAlloc(job, good), testlog.NewAlloc(job, bad))
			all.AllAtOnce = true
			before := w.Snapshot().Index()
			r = w.submit(all)
			if len(r.NodeAllocation) != 0 || r.RefreshIndex == 0 || r.AllocIndex != 0 || w.Snapshot().Index() != before {
				t.Errorf("Submit(all at once) = %+v, want nothing committed", r)
			}
		})
	}
}

func TestUpdatesWhereNothingNewMayGo(t *testing.T) {
	w := start(t)
	node := w.Node(t)
	job := w.Job(t, nomad.JobTypeService, 1)
	a := w.Alloc(t, job, node)
	w.Must(t, nomad.NodeUpdateEligibilityRequestType, &nomad.NodeUpdateEligibilityRequest{NodeID: node.ID, Eligibility: nomad.NodeSchedulingIneligible})
	update := *a
	update.DesiredDescription = "updated"
	if r := w.submit(place(w.plan(job), &update)); len(r.RejectedNodes) != 0 {
		t.Errorf("Submit() = %+v, want the update in place", r)
	}
	if r := w.submit(place(w.plan(job), &update, testlog.NewAlloc(job, node))); len(r.RejectedNodes) != 1 {
		t.Errorf("Submit() = %+v, want the node rejected", r)
	}
}

func TestStops(t *testing.T) {
	w := start(t)
	node := w.Node(t)
	job := w.Job(t, nomad.JobTypeService, 1)
	old := w.Alloc(t, job, node, cpu(4000))
	stop := *old
	stop.DesiredDescription, stop.ClientStatus = "too old", nomad.AllocClientStatusLost

	tooMuch := place(w.plan(job), testlog.NewAlloc(job, node, cpu(4001)))
	tooMuch.NodeUpdate[node.ID] = []*nomad.Allocation{&stop}
	if r := w.submit(tooMuch); len(r.NodeUpdate) != 0 {
		t.Errorf("Submit() = %+v, want nothing stopped on a rejected node", r)
	}
	if got := w.Snapshot().Alloc(nil, old.ID); got.DesiredStatus != nomad.AllocDesiredStatusRun {
		t.Errorf("allocation is %q, want it to run on", got.DesiredStatus)
	}

	fresh := testlog.NewAlloc(job, node, cpu(4000))
	p := place(w.plan(job), fresh)
	p.NodeUpdate[node.ID] = []*nomad.Allocation{&stop}
	if r := w.submit(p); len(r.RejectedNodes) != 0 {
		t.Errorf("Submit() = %+v, want the room of the stopped one given away", r)
	}
	got := w.Snapshot().Alloc(nil, old.ID)
	if got.DesiredStatus != nomad.AllocDesiredStatusStop || got.DesiredDescription != "too old" ||
		got.ClientStatus != nomad.AllocClientStatusLost || got.Job == nil {
		t.Errorf("stopped allocation is %+v", got)
	}
}

func TestPreempts(t *testing.T) {
	w := start(t)
	node := w.Node(t)
	low := w.Job(t, nomad.JobTypeService, 2, func(j *nomad.Job) { j.Priority = 10 })
	victims := []*nomad.Allocation{w.Alloc(t, low, node, cpu(2000)), w.Alloc(t, low, node, cpu(2000))}
	high := w.Job(t, nomad.JobTypeService, 1)
	fresh := testlog.NewAlloc(high, node, cpu(4000))
	p := place(w.plan(high), fresh)
	for _, v := range victims {
		clone := *v
		clone.PreemptedByAllocation = fresh.ID
		p.NodePreemptions[node.ID] = append(p.NodePreemptions[node.ID], &clone)
	}
	if r := w.submit(p); len(r.RejectedNodes) != 0 {
		t.Errorf("Submit() = %+v, want it to fit", r)
	}
	snap := w.Snapshot()
	for _, v := range victims {
		if got := snap.Alloc(nil, v.ID); got.DesiredStatus != nomad.AllocDesiredStatusEvict || got.PreemptedByAllocation != fresh.ID {
			t.Errorf("preempted allocation is %+v", got)
		}
	}
	evals := slices.Collect(snap.EvalsByJob(nil, low.Namespace, low.ID))
	if len(evals) != 1 || evals[0].TriggeredBy != nomad.EvalTriggerPreemption || evals[0].Status != nomad.EvalStatusPending {
		t.Errorf("evaluations of the preempted job: %+v, want one", evals)
	}
}

func TestRefusesLostEvaluation(t *testing.T) {
	w := start(t)
	node, job := w.Node(t), w.Job(t, nomad.JobTypeBatch, 1)
	p := place(w.plan(job), testlog.NewAlloc(job, node))
	p.EvalToken = "lost"
	if r, err := w.applier.Submit(context.Background(), p); err == nil {
		t.Errorf("Submit() = %+v, want a refusal", r)
	}
}

// TestSecondPlanOfOneSnapshot has a worker lose its evaluation to another one, and
// both submit.
func TestSecondPlanOfOneSnapshot(t *testing.T) {
	w := start(t)
	node, job := w.Node(t), w.Job(t, nomad.JobTypeBatch, 1)
	first := w.plan(job)
	second := *first
	second.NodeAllocation = map[string][]*nomad.Allocation{}
	w.submit(place(first, testlog.NewAlloc(job, node)))
	committed := w.Snapshot().Index()
	r := w.submit(place(&second, testlog.NewAlloc(job, node)))
	if len(r.NodeAllocation) != 0 || r.RefreshIndex < committed {
		t.Errorf("Submit() = %+v, want nothing committed and a refresh at %d", r, committed)
	}
	second.SnapshotIndex = r.RefreshIndex
	if r := w.submit(&second); len(r.NodeAllocation) != 1 {
		t.Errorf("Submit() after the refresh = %+v, want it committed", r)
	}
}

func TestEndedDeploymentIsLeftAlone(t *testing.T) {
	w := start(t)
	node, job := w.Node(t), w.Job(t, nomad.JobTypeService, 1)
	p := w.plan(job)
	p.Deployment = &nomad.Deployment{ID: nomad.NewID(), Namespace: job.Namespace, JobID: job.ID, Status: nomad.DeploymentStatusRunning}
	w.submit(p)
	update := &nomad.DeploymentStatusUpdate{DeploymentID: p.Deployment.ID, Status: nomad.DeploymentStatusSuccessful}
	w.Must(t, nomad.DeploymentStatusUpdateRequestType, &nomad.DeploymentStatusUpdateRequest{DeploymentUpdate: update})

	again := place(w.plan(job), testlog.NewAlloc(job, node))
	again.DeploymentUpdates = []*nomad.DeploymentStatusUpdate{{DeploymentID: p.Deployment.ID, Status: nomad.DeploymentStatusCancelled}}
	w.submit(again)
	if d := w.Snapshot().Deployment(nil, p.Deployment.ID); d.Status != nomad.DeploymentStatusSuccessful {
		t.Errorf("deployment is %s, want it to stay successful", d.Status)
	}
}

// gate holds plan commits until they are let through.
type gate struct {
	arrived chan struct{}
	open    chan error
}

func (w *world) gate() *gate {
	g := &gate{arrived: make(chan struct{}, 100), open: make(chan error, 100)}
	w.Before(func(ctx context.Context, typ nomad.MessageType) error {
		if typ != nomad.ApplyPlanResultsRequestType {
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

// TestChecksAheadOfTheCommit submits a second plan while the first is being
// committed: it is checked and signed meanwhile, and on top of the first.
func TestChecksAheadOfTheCommit(t *testing.T) {
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
	<-w.minter.signed // and so is through its check, while the first is held
	g.open <- nil
	if a := <-first; a.err != nil || a.r.AllocIndex == 0 {
		t.Fatalf("first plan: %+v", a)
	}
	<-g.arrived
	third := w.submitLater(p3) // nothing is left of the node
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

// TestChecksAgainAfterAFailedCommit has a plan use the room that the one before it
// would have made.
func TestChecksAgainAfterAFailedCommit(t *testing.T) {
	w := start(t)
	node := w.Node(t)
	jobA, jobB := w.Job(t, nomad.JobTypeService, 1), w.Job(t, nomad.JobTypeBatch, 1)
	old := w.Alloc(t, jobA, node, cpu(4000))
	p1 := w.plan(jobA)
	p1.NodeUpdate[node.ID] = []*nomad.Allocation{old}
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
	// This one waits for the commit, checked; the others are queued behind it.
	second := w.submitLater(place(w.plan(job), testlog.NewAlloc(job, node)))
	<-w.minter.signed
	var allocs []*nomad.Allocation
	var answers []<-chan answer
	for i, priority := range []int{10, 90, 50} {
		p := w.plan(job)
		p.Priority = priority
		a := testlog.NewAlloc(job, node)
		allocs = append(allocs, a)
		answers = append(answers, w.submitLater(place(p, a)))
		for w.applier.Queued() < i+1 {
			runtime.Gosched()
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
	if _, err := w.applier.Submit(context.Background(), w.plan(job)); !errors.Is(err, nomad.ErrNoLeader) {
		t.Errorf("Submit() to one that stopped = %v, want %v", err, nomad.ErrNoLeader)
	}
}

// TestNeverOvercommits has many schedulers plan on the same stale view.
func TestNeverOvercommits(t *testing.T) {
	const nodes, workers, rounds = 4, 8, 25
	w := start(t)
	var ids []string
	for range nodes {
		ids = append(ids, w.Node(t).ID)
	}
	jobs := make([]*nomad.Job, workers)
	for i := range jobs {
		jobs[i] = w.Job(t, nomad.JobTypeBatch, 1)
	}
	var wg sync.WaitGroup
	var mu sync.Mutex
	placed, rejected := map[string]bool{}, 0
	for i := range workers {
		wg.Go(func() {
			for round := range rounds {
				p := w.plan(jobs[i])
				for k := range 3 {
					node := w.Snapshot().Node(nil, ids[(i*7+round*3+k)%nodes])
					place(p, testlog.NewAlloc(jobs[i], node, cpu(int64(100+(i*31+round*17)%300))))
				}
				for a := range w.Snapshot().AllocsByJob(nil, jobs[i].Namespace, jobs[i].ID) {
					if round%4 == 3 && !a.TerminalStatus() {
						p.NodeUpdate[a.NodeID] = append(p.NodeUpdate[a.NodeID], a)
					}
				}
				r, err := w.applier.Submit(context.Background(), p)
				if err != nil {
					t.Errorf("Submit() = %v", err)
					return
				}
				mu.Lock()
				rejected += len(r.RejectedNodes)
				for _, allocs := range r.NodeAllocation {
					for _, a := range allocs {
						placed[a.ID] = true
					}
				}
				mu.Unlock()
				w.checkNodes(ids)
			}
		})
	}
	wg.Wait()
	stored := 0
	for range w.Snapshot().Allocs(nil) {
		stored++
	}
	if stored != len(placed) {
		t.Errorf("%d allocations in state, %d in results", stored, len(placed))
	}
	if rejected == 0 || len(placed) == 0 {
		t.Errorf("%d placed, %d rejected: the nodes were never contended", len(placed), rejected)
	}
}

// checkNodes adds up what the live allocations of each node hold.
func (w *world) checkNodes(ids []string) {
	snap := w.Snapshot()
	for _, id := range ids {
		var sum int64
		for a := range snap.AllocsByNode(nil, id) {
			if !a.TerminalStatus() {
				sum += a.AllocatedResources.Tasks["t"].Cpu.CpuShares
			}
		}
		if sum > 4000 {
			w.t.Errorf("allocations on node %s hold %d MHz of 4000", id, sum)
		}
	}
}

// BenchmarkApply places the allocations of one big job.
func BenchmarkApply(b *testing.B) {
	const count, nodes = 2000, 20
	for b.Loop() {
		b.StopTimer()
		w := start(b)
		job := w.Job(b, nomad.JobTypeBatch, count)
		p := w.plan(job)
		for range nodes {
			node := w.Node(b, func(n *nomad.Node) {
				n.NodeResources.Cpu.CpuShares, n.NodeResources.Memory.MemoryMB = 1_000_000, 1_000_000
			})
			for range count / nodes {
				a := testlog.NewAlloc(job, node)
				a.Job = nil
				place(p, a)
			}
		}
		p.SnapshotIndex = w.Snapshot().Index()
		b.StartTimer()
		if r := w.submit(p); len(r.RejectedNodes) != 0 {
			b.Fatalf("rejected %v", r.RejectedNodes)
		}
		b.StopTimer()
		w.stop()
		b.StartTimer()
	}
	b.ReportMetric(float64(count*b.N)/b.Elapsed().Seconds(), "allocs/s")
}
