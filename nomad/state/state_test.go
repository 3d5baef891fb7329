package state_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-memdb"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/state"
	"github.com/open-nomad/open-nomad/nomad/state/table"
)

// world is a store with the index of its last write.
type world struct {
	*state.Store
	t     testing.TB
	index uint64
}

func newWorld(t testing.TB) *world {
	return &world{Store: state.New(slog.New(slog.DiscardHandler)), t: t, index: 100}
}

// next returns the index of the next write.
func (w *world) next() uint64 {
	w.index++
	return w.index
}

// ok fails the test if a write failed.
func (w *world) ok(c *state.Changes, err error) *state.Changes {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
	return c
}

func (w *world) snap() *state.Snapshot { return w.Snapshot() }

func (w *world) node(id string) *nomad.Node {
	w.t.Helper()
	w.ok(w.RegisterNode(w.next(),
		&message.NodeRegisterRequest{Node: &nomad.Node{ID: id, SecretID: "secret-" + id, Status: nomad.NodeStatusReady}}))
	return w.snap().Node(nil, id)
}

// job registers a service job with group g, and a pending evaluation.
func (w *world) job(id string, edit ...func(*nomad.Job)) *nomad.Job {
	w.t.Helper()
	j := &nomad.Job{ID: id, Namespace: "default", Type: nomad.JobTypeService, TaskGroups: []*nomad.TaskGroup{{Name: "g", Count: 2}}}
	for _, e := range edit {
		e(j)
	}
	w.ok(w.RegisterJob(w.next(), &message.JobRegisterRequest{Job: j, Eval: w.eval(id)}))
	return w.snap().Job(nil, "default", id)
}

func (w *world) eval(job string) *nomad.Evaluation {
	return &nomad.Evaluation{ID: fmt.Sprintf("eval-%s-%d", job, w.index), Namespace: "default", JobID: job, Status: nomad.EvalStatusPending}
}

// oneEval returns the ID of an evaluation of the job.
func (w *world) oneEval(job string) string {
	w.t.Helper()
	for e := range w.snap().EvalsByJob(nil, "default", job) {
		return e.ID
	}
	w.t.Fatalf("job %s has no evaluation", job)
	return ""
}

// place commits a plan with pending allocations of the job without the job, as the plan applier
// does.
func (w *world) place(j *nomad.Job, edit func(*nomad.Allocation), ids ...string) *state.Changes {
	w.t.Helper()
	req := &message.ApplyPlanResultsRequest{Job: j}
	for _, id := range ids {
		a := &nomad.Allocation{ID: id, Namespace: j.Namespace, JobID: j.ID, TaskGroup: "g", NodeID: "n1", EvalID: "e",
			DesiredStatus: nomad.AllocDesiredStatusRun, ClientStatus: nomad.AllocClientStatusPending, CreateTime: 4e9, ModifyTime: 5e9}
		if edit != nil {
			edit(a)
		}
		req.AllocsUpdated = append(req.AllocsUpdated, a)
	}
	return w.ok(w.ApplyPlanResults(w.next(), req))
}

// report returns an allocation update of a client.
func (w *world) report(id, status string, edit ...func(*nomad.Allocation)) *state.Changes {
	w.t.Helper()
	a := &nomad.Allocation{ID: id, ClientStatus: status, ModifyTime: 9}
	for _, e := range edit {
		e(a)
	}
	return w.ok(w.UpdateAllocsFromClient(w.next(), &message.AllocUpdateRequest{Alloc: []*nomad.Allocation{a}}))
}

// finish completes every pending evaluation.
func (w *world) finish() {
	w.t.Helper()
	var done []*nomad.Evaluation
	for e := range w.snap().Evals(nil) {
		if !e.TerminalStatus() {
			c := *e
			c.Status = nomad.EvalStatusComplete
			done = append(done, &c)
		}
	}
	w.ok(w.UpsertEvals(w.next(), &message.EvalUpdateRequest{Evals: done}))
}

func (w *world) status(job string) string {
	w.t.Helper()
	return w.snap().Job(nil, "default", job).Status
}

func ids[T any](seq iter.Seq[*T], id func(*T) string) string {
	out := []string{}
	for v := range seq {
		out = append(out, id(v))
	}
	return fmt.Sprint(out)
}

func allocID(a *nomad.Allocation) string { return a.ID }

func TestNewStore(t *testing.T) {
	s := state.New(nil).Snapshot()
	if got := ids(s.NodePools(nil), func(p *nomad.NodePool) string { return p.Name }); got != "[all default]" {
		t.Errorf("node pools are %s", got)
	}
	if s.NodePool(nil, "all").NodeIdentityTTL != 24*time.Hour || s.Namespace(nil, "default") == nil {
		t.Error("built-in rows are not as they should be")
	}
	if s.Index() != 1 || s.TableIndex(state.TableNodePools, state.TableJobs) != 1 || s.TableIndex(state.TableJobs) != 0 {
		t.Errorf("index is %d, of the tables %d", s.Index(), s.TableIndex(state.TableNodePools))
	}
}

func TestSnapshotAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := state.New(nil)
		got := make(chan uint64)
		for _, index := range []uint64{1, 5, 7} {
			go func() {
				snap, err := s.SnapshotAfter(t.Context(), index)
				if err != nil {
					t.Error(err)
				}
				got <- snap.Index()
			}()
		}
		synctest.Wait()
		if index := <-got; index != 1 {
			t.Errorf("first snapshot is of %d", index)
		}
		s.Advance(5) // an entry that changed nothing
		if index := <-got; index != 5 {
			t.Errorf("second snapshot is of %d", index)
		}
		if _, err := s.UpsertNamespaces(9, &message.NamespaceUpsertRequest{Namespaces: []*nomad.Namespace{{Name: "x"}}}); err != nil {
			t.Fatal(err)
		}
		if index := <-got; index != 9 {
			t.Errorf("third snapshot is of %d", index)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := s.SnapshotAfter(ctx, 10); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("SnapshotAfter() = %v", err)
		}
		go s.Abandon()
		if _, err := s.SnapshotAfter(t.Context(), 10); !errors.Is(err, table.ErrAbandoned) {
			t.Errorf("SnapshotAfter() = %v", err)
		}
	})
}

func TestWatches(t *testing.T) {
	w := newWorld(t)
	w.node("n1")
	j := w.job("j1")
	w.place(j, nil, "a1")
	w.place(j, func(a *nomad.Allocation) { a.NodeID = "n2" }, "b1") // what has no rows shares the watch of a neighbour
	for name, arm := range map[string]func(*state.Snapshot, memdb.WatchSet){
		"row":         func(s *state.Snapshot, ws memdb.WatchSet) { s.Alloc(ws, "a1") },
		"by node":     func(s *state.Snapshot, ws memdb.WatchSet) { s.AllocsByNode(ws, "n1") },
		"by job":      func(s *state.Snapshot, ws memdb.WatchSet) { s.AllocsByJob(ws, "default", "j1") },
		"all":         func(s *state.Snapshot, ws memdb.WatchSet) { s.Allocs(ws) },
		"new prefix":  func(s *state.Snapshot, ws memdb.WatchSet) { s.AllocsByPrefix(ws, "a") },
		"job summary": func(s *state.Snapshot, ws memdb.WatchSet) { s.JobSummary(ws, "default", "j1") },
	} {
		t.Run(name, func(t *testing.T) {
			ws, quiet := memdb.NewWatchSet(), memdb.NewWatchSet()
			arm(w.snap(), ws)
			w.snap().AllocsByNode(quiet, "n2")
			status := nomad.AllocClientStatusRunning
			if w.snap().Alloc(nil, "a1").ClientStatus == status {
				status = nomad.AllocClientStatusPending
			}
			w.report("a1", status)
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			if err := ws.WatchCtx(ctx); err != nil {
				t.Error("the watch was not woken")
			}
			for ch := range quiet {
				select {
				case <-ch:
					t.Error("a watch on another node was woken")
				default:
				}
			}
		})
	}
}

// TestLiveAllocsByNode checks that an allocation counts for placements on its node until its client
// has ended it. It counts again if the client reports that it runs.
func TestLiveAllocsByNode(t *testing.T) {
	w := newWorld(t)
	w.node("n1")
	w.node("n12")
	j := w.job("j1")
	for _, id := range []string{"a1", "a2", "a3"} {
		w.place(j, nil, id)
	}
	w.place(j, func(a *nomad.Allocation) { a.NodeID = "n12" }, "b1")
	check := func(when, live, all string) {
		t.Helper()
		s := w.snap()
		if got := ids(s.LiveAllocsByNode("n1"), allocID); got != live {
			t.Errorf("%s: live are %s, want %s", when, got, live)
		}
		if got := ids(s.AllocsByNode(nil, "n1"), allocID); got != all {
			t.Errorf("%s: all are %s, want %s", when, got, all)
		}
		if got := s.HoldsWork("n1"); got != (live != "[]") {
			t.Errorf("%s: the node holds work: %t, live are %s", when, got, live)
		}
	}
	check("placed", "[a1 a2 a3]", "[a1 a2 a3]")
	w.report("a1", nomad.AllocClientStatusComplete)
	check("complete", "[a2 a3]", "[a2 a3 a1]")
	w.ok(w.ApplyPlanResults(w.next(), &message.ApplyPlanResultsRequest{AllocsStopped: []*nomad.AllocationDiff{{ID: "a2"}}}))
	check("stopped", "[a2 a3]", "[a2 a3 a1]")
	w.report("a2", nomad.AllocClientStatusComplete)
	check("stopped and complete", "[a3]", "[a3 a1 a2]")
	w.report("a1", nomad.AllocClientStatusRunning)
	check("running again", "[a1 a3]", "[a1 a3 a2]")
	w.report("a1", nomad.AllocClientStatusComplete)
	w.report("a3", nomad.AllocClientStatusComplete)
	check("all complete", "[]", "[a1 a2 a3]")
}

func TestReadsByKey(t *testing.T) {
	w := newWorld(t)
	for _, id := range []string{"ab1", "ab2", "b1"} {
		w.node(id)
	}
	nodeID := func(n *nomad.Node) string { return n.ID }
	for _, name := range []string{"web", "web-2", "we"} { // no ID hides in another one
		j := w.job(name)
		w.place(j, nil, "alloc-"+name)
	}
	s := w.snap()
	for what, c := range map[string][2]string{
		"prefix":         {ids(s.NodesByPrefix(nil, "ab"), nodeID), "[ab1 ab2]"},
		"empty prefix":   {ids(s.NodesByPrefix(nil, ""), nodeID), "[ab1 ab2 b1]"},
		"pool all":       {ids(s.NodesByPool(nil, "all"), nodeID), "[ab1 ab2 b1]"},
		"pool":           {ids(s.NodesByPool(nil, "default"), nodeID), "[ab1 ab2 b1]"},
		"pool prefix":    {ids(s.NodesByPool(nil, "def"), nodeID), "[]"},
		"secret":         {s.NodeBySecret(nil, "secret-ab2").ID, "ab2"},
		"allocs of job":  {ids(s.AllocsByJob(nil, "default", "web"), allocID), "[alloc-web]"},
		"jobs by prefix": {ids(s.JobsByPrefix(nil, "default", "web"), func(j *nomad.Job) string { return j.ID }), "[web web-2]"},
		"versions":       {fmt.Sprint(len(s.JobVersions(nil, "default", "web"))), "1"},
	} {
		if c[0] != c[1] {
			t.Errorf("%s: got %s, want %s", what, c[0], c[1])
		}
	}
	if s.NodeBySecret(nil, "secret-ab") != nil || s.NodeBySecret(nil, "") != nil {
		t.Error("a part of a secret finds a node")
	}
	twice := s.NodesByPrefix(nil, "ab")
	for range 2 {
		if got := ids(twice, nodeID); got != "[ab1 ab2]" {
			t.Errorf("a sequence that is walked twice gives %s", got)
		}
	}
}

func TestFailedWriteChangesNothing(t *testing.T) {
	w := newWorld(t)
	w.node("n1")
	before := w.snap().TableIndex(state.TableNodes)
	if _, err := w.DeregisterNodes(w.next(), state.Deregistration{IDs: []string{"n1", "n2"}}); !errors.Is(err, apierror.ErrNodeNotFound) {
		t.Errorf("DeregisterNodes() = %v", err)
	}
	if w.snap().Node(nil, "n1") == nil || w.snap().TableIndex(state.TableNodes) != before {
		t.Error("half of a failed write stayed")
	}
}
