package scheduler

import (
	"context"
	crand "crypto/rand"
	"fmt"
	"iter"
	"log/slog"
	"math/rand/v2"
	"time"

	memdb "github.com/hashicorp/go-memdb"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/csi"
	"github.com/open-nomad/open-nomad/nomad/hostvolume"
	"github.com/open-nomad/open-nomad/nomad/kinds"
	"github.com/open-nomad/open-nomad/nomad/quota"
	"github.com/open-nomad/open-nomad/plugins/schema"
)

// State is what a scheduler reads: one consistent, read-only view. The watch sets are nil.
type State interface {
	Index() uint64
	Node(ws memdb.WatchSet, id string) *nomad.Node
	Nodes(ws memdb.WatchSet) iter.Seq[*nomad.Node]
	NodesByPool(ws memdb.WatchSet, pool string) iter.Seq[*nomad.Node]
	NodePool(ws memdb.WatchSet, name string) *nomad.NodePool
	Namespace(ws memdb.WatchSet, name string) *nomad.Namespace
	Job(ws memdb.WatchSet, namespace, id string) *nomad.Job
	AllocsByJob(ws memdb.WatchSet, namespace, job string) iter.Seq[*nomad.Allocation]
	EvalsByJob(ws memdb.WatchSet, namespace, job string) iter.Seq[*nomad.Evaluation]
	// LiveAllocsByNode returns the allocations that their client has not ended.
	LiveAllocsByNode(node string) iter.Seq[*nomad.Allocation]
	LatestDeployment(ws memdb.WatchSet, namespace, job string) *nomad.Deployment
	// QuotaOf returns the quota of a namespace, or nil if it has none. QuotaHeld returns the usage
	// of all namespaces with that quota.
	QuotaOf(ws memdb.WatchSet, namespace string) *quota.Spec
	QuotaUsed(ws memdb.WatchSet, name string) quota.Amount
	SchedulerConfig(ws memdb.WatchSet) (uint64, *nomad.SchedulerConfiguration)
	// DriverSchema returns the schema with the digest, or nil if it is not known.
	DriverSchema(ws memdb.WatchSet, digest string) *nomad.DriverSchema
	// HostVolumeOn returns the dynamic host volume of a node with the name, or nil.
	HostVolumeOn(ws memdb.WatchSet, node, name string) *hostvolume.Volume
	// VolumeClaimsOf returns the claims of a group of a job on host volumes.
	VolumeClaimsOf(namespace, job, group string) iter.Seq[*hostvolume.Claim]
	// CSIVolume returns a CSI volume as it is stored, or nil. ShownCSIVolume adds what its plugin determines.
	CSIVolume(ws memdb.WatchSet, namespace, id string) *csi.Volume
	ShownCSIVolume(ws memdb.WatchSet, v *csi.Volume) *csi.Volume
	// CSIVolumeUsers returns the allocations that request a CSI volume and that their client has not ended.
	CSIVolumeUsers(ws memdb.WatchSet, namespace, id string) iter.Seq[*nomad.Allocation]
	// CSIVolumesOnNode returns the keys of the CSI volumes that a node has attached or will attach, by plugin.
	CSIVolumesOnNode(node string) map[string]map[string]bool
	Alloc(ws memdb.WatchSet, id string) *nomad.Allocation
}

// Planner receives the decisions of a scheduler.
type Planner interface {
	// SubmitPlan submits a plan to the leader. The State is nil if the plan was committed in full.
	// Otherwise it is new enough to show why parts were rejected.
	SubmitPlan(ctx context.Context, plan *nomad.Plan) (*nomad.PlanResult, State, error)
	CreateEval(ctx context.Context, eval *nomad.Evaluation) error
	// FinishEval writes the final status of the evaluation and its follow-up evaluations. It is the
	// last call.
	FinishEval(ctx context.Context, eval *nomad.Evaluation, follow ...*nomad.Evaluation) error
	// ReblockEval blocks the evaluation again.
	ReblockEval(ctx context.Context, eval *nomad.Evaluation) error
}

// Scheduler processes one evaluation.
type Scheduler interface {
	Process(ctx context.Context, eval *nomad.Evaluation) error
}

// Options are the settings of a scheduler. The zero value is valid.
type Options struct {
	Log  *slog.Logger     // nil for none
	Seed *[32]byte        // of the node order, the ports and the IDs; nil for a random one
	Now  func() time.Time // nil for time.Now
	// Kinds are the built-in kinds of drivers, which decide which tasks need privilege. Without them no
	// task needs privilege.
	Kinds kinds.Table
	// Schemas are the built-in schemas of drivers; the state holds the others. The config blocks of tasks
	// are checked against the schemas of the nodes' drivers, unless it is nil.
	Schemas *schema.Set
}

// base returns the part of a scheduler that depends on the options and a state.
func (o Options) base(snap State) base {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Seed == nil {
		o.Seed = new([32]byte)
		crand.Read(o.Seed[:]) // never fails: crypto/rand ends the process instead
	}
	return base{log: o.Log, snap: snap, now: o.Now, rng: rand.New(rand.NewChaCha8(*o.Seed)), kinds: o.Kinds, schemas: o.Schemas}
}

// New returns a scheduler for one evaluation of the type, which is the job's type: service, batch,
// system or sysbatch.
func New(evalType string, snap State, planner Planner, o Options) (Scheduler, error) {
	b := o.base(snap)
	b.log, b.planner = b.log.With("scheduler", evalType), planner
	switch evalType {
	case nomad.JobTypeService, nomad.JobTypeBatch:
		return &generic{base: b, batch: evalType == nomad.JobTypeBatch, created: map[int64]string{}}, nil
	case nomad.JobTypeSystem, nomad.JobTypeSysBatch:
		return &system{base: b, sysbatch: evalType == nomad.JobTypeSysBatch}, nil
	}
	return nil, fmt.Errorf("no scheduler for evaluations of type %q", evalType)
}
