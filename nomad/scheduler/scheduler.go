package scheduler

import (
	"context"
	"fmt"
	"iter"
	"log/slog"
	"math/rand/v2"
	"time"

	crand "crypto/rand"

	memdb "github.com/hashicorp/go-memdb"
	"github.com/open-nomad/open-nomad/nomad"
)

// State is what a scheduler reads: one consistent view, never written to. The
// watch sets are nil.
type State interface {
	Index() uint64
	Node(ws memdb.WatchSet, id string) *nomad.Node
	Nodes(ws memdb.WatchSet) iter.Seq[*nomad.Node]
	NodesByPool(ws memdb.WatchSet, pool string) iter.Seq[*nomad.Node]
	NodePool(ws memdb.WatchSet, name string) *nomad.NodePool
	Job(ws memdb.WatchSet, namespace, id string) *nomad.Job
	AllocsByJob(ws memdb.WatchSet, namespace, job string) iter.Seq[*nomad.Allocation]
	// LiveAllocsByNode returns those that are not over.
	LiveAllocsByNode(node string) iter.Seq[*nomad.Allocation]
	LatestDeployment(ws memdb.WatchSet, namespace, job string) *nomad.Deployment
	// QuotaOf returns the quota that a namespace names, nil when it names none;
	// QuotaHeld what the allocations of all namespaces hold that name it.
	QuotaOf(ws memdb.WatchSet, namespace string) *nomad.QuotaSpec
	QuotaHeld(ws memdb.WatchSet, quota string) nomad.QuotaAmount
	SchedulerConfig(ws memdb.WatchSet) (uint64, *nomad.SchedulerConfiguration)
}

// Planner takes what a scheduler decided.
type Planner interface {
	// SubmitPlan hands a plan to the leader. A nil State means that nothing
	// stood against the plan; otherwise it is a view new enough to show why
	// parts of it were refused.
	SubmitPlan(ctx context.Context, plan *nomad.Plan) (*nomad.PlanResult, State, error)
	CreateEval(ctx context.Context, eval *nomad.Evaluation) error
	// FinishEval writes what the evaluation came to, and those that follow from it.
	// Nothing comes after it.
	FinishEval(ctx context.Context, eval *nomad.Evaluation, follow ...*nomad.Evaluation) error
	// ReblockEval has the evaluation wait for capacity again.
	ReblockEval(ctx context.Context, eval *nomad.Evaluation) error
}

// Scheduler works off one evaluation.
type Scheduler interface {
	Process(ctx context.Context, eval *nomad.Evaluation) error
}

// Option changes how a scheduler is made.
type Option func(*settings)

type settings struct {
	seed [32]byte
	now  func() time.Time
}

// WithSeed makes node order, ports and IDs a function of the seed. Without it
// each scheduler draws its own.
func WithSeed(seed [32]byte) Option { return func(s *settings) { s.seed = seed } }

// WithClock replaces time.Now.
func WithClock(now func() time.Time) Option { return func(s *settings) { s.now = now } }

// New returns a scheduler for one evaluation of the type, which is the type of
// its job: service, batch, system or sysbatch.
func New(evalType string, log *slog.Logger, snap State, planner Planner, opts ...Option) (Scheduler, error) {
	s := settings{now: time.Now}
	crand.Read(s.seed[:]) // never fails: crypto/rand ends the process instead
	for _, o := range opts {
		o(&s)
	}
	b := base{
		log:     log.With("scheduler", evalType),
		snap:    snap,
		planner: planner,
		now:     s.now,
		rng:     rand.New(rand.NewChaCha8(s.seed)),
	}
	switch evalType {
	case nomad.JobTypeService, nomad.JobTypeBatch:
		return &generic{base: b, batch: evalType == nomad.JobTypeBatch, created: map[int64]string{}}, nil
	case nomad.JobTypeSystem, nomad.JobTypeSysBatch:
		return &system{base: b, sysbatch: evalType == nomad.JobTypeSysBatch}, nil
	}
	return nil, fmt.Errorf("no scheduler for evaluations of type %q", evalType)
}
