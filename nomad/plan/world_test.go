package plan_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/fsm/testlog"
	"github.com/open-nomad/open-nomad/nomad/identity"
	"github.com/open-nomad/open-nomad/nomad/idtoken"
	"github.com/open-nomad/open-nomad/nomad/plan"
)

// minter encodes the claims instead of signing them.
type minter struct {
	signed chan int // if not nil: the number of claims of each call
	err    error
}

func (m *minter) Workload(s identity.Subject, _ time.Time) *idtoken.Claims {
	return &idtoken.Claims{
		WorkloadIdentityClaims: &idtoken.WorkloadIdentityClaims{JobID: s.Job.ID, AllocationID: s.Alloc.ID, TaskName: s.Handle.WorkloadIdentifier},
		RegisteredClaims:       idtoken.RegisteredClaims{Audience: s.Identity.Audience, Subject: s.Handle.IdentityName},
	}
}

func (m *minter) MintAll(_ context.Context, claims []*idtoken.Claims) ([]idtoken.Token, error) {
	if m.err != nil {
		return nil, m.err
	}
	var tokens []idtoken.Token
	for _, c := range claims {
		raw := fmt.Sprintf("%s/%s/%s/%v", c.AllocationID, c.TaskName, c.RegisteredClaims.Subject, c.Audience)
		tokens = append(tokens, idtoken.New(raw, "key-1"))
	}
	if m.signed != nil {
		m.signed <- len(claims)
	}
	return tokens, nil
}

// reserved rejects the evaluations with one token.
type reserved struct{}

func (reserved) OutstandingReset(_, token string) error {
	if token == "lost" {
		return errors.New("token does not match")
	}
	return nil
}

func (reserved) PauseNack(_, token string) error { return reserved{}.OutstandingReset("", token) }
func (reserved) ResumeNack(string, string)       {}

type world struct {
	*testlog.Log
	t       testing.TB
	applier *plan.Applier
	minter  *minter
	stop    func()
	release func() // of a withheld volume
}

// start runs an Applier on an empty state.
func start(t testing.TB) *world {
	t.Helper()
	return startWith(t, plan.Rejections{})
}

func startWith(t testing.TB, rejections plan.Rejections) *world {
	t.Helper()
	w := &world{Log: testlog.New(nil), t: t, minter: &minter{}}
	w.applier = plan.New(plan.Config{
		Store: w.Store, Raft: w.Log, Minter: w.minter, Evals: reserved{}, Rejections: rejections, Log: slog.New(slog.DiscardHandler),
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
		if !errors.Is(err, apierror.ErrNoLeader) {
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
