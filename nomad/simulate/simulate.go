// Package simulate runs the scheduler on jobs in a copy of a cluster. It shows what registering them would do,
// without a server.
//
//	snapshot archive ──┐
//	fleet ─────────────┴─▶ Cluster ──job──▶ admitted ──▶ scheduler ──▶ plan, applied to the copy ──▶ Job
//	                          ▲                                                                      │
//	                          └────────────────────────── next job ──────────────────────────────────┘
//
// A Cluster is a state store in memory. Its only writer is an FSM, as on servers. Jobs are validated, planned and
// checked with the code of the servers. No client runs, so that allocations stay pending. The later steps of a rolling
// update wait for healthy allocations, and are not simulated.
//
// Package simulate opens no connection, starts no goroutine and never changes a real cluster. The seed of the
// scheduler depends on the index of the state only: the same input gives the same plan.
package simulate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/hashicorp/raft"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/admission"
	"github.com/open-nomad/open-nomad/nomad/codec"
	"github.com/open-nomad/open-nomad/nomad/endpoint/handler"
	"github.com/open-nomad/open-nomad/nomad/endpoint/jobs"
	"github.com/open-nomad/open-nomad/nomad/fsm"
	"github.com/open-nomad/open-nomad/nomad/kinds"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/snapshot"
	"github.com/open-nomad/open-nomad/nomad/state"
	"github.com/open-nomad/open-nomad/plugins/schema"
)

// defaultRegion is the region of a cluster in which no job has a region.
const defaultRegion = "global"

// ErrNoNodes means that a cluster has no node that is ready and eligible.
var ErrNoNodes = errors.New("no node is ready and eligible")

// Cluster is a copy of a cluster. It must not be used by several goroutines at once.
type Cluster struct {
	fsm   *fsm.FSM
	core  *handler.Core
	now   func() time.Time
	index uint64
	// synthetic means that Run creates the namespaces of jobs.
	synthetic bool
}

// Read returns the cluster of a snapshot archive. It verifies the checksums of the archive.
func Read(archive io.Reader, table kinds.Table) (*Cluster, error) {
	a, err := snapshot.Open(archive, "")
	if err != nil {
		return nil, err
	}
	defer a.Close() // the file has no name, so this also deletes it
	records, err := a.State()
	if err != nil {
		return nil, err
	}
	store, err := fsm.ReadSnapshot(records, slog.New(slog.DiscardHandler))
	if err != nil {
		return nil, fmt.Errorf("snapshot archive: %w", err)
	}
	return newCluster(store, table)
}

// newCluster returns a cluster with the state of a store.
func newCluster(store *state.Store, table kinds.Table) (*Cluster, error) {
	snap := store.Snapshot()
	c := &Cluster{fsm: newFSM(store), now: time.Now, index: snap.Index()}
	region := defaultRegion
	for j := range snap.Jobs(nil) {
		if j.Region != "" {
			region = j.Region
			break
		}
	}
	c.core = handler.New(handler.Config{Region: region, Kinds: table, Schemas: schema.NewSet(table), Store: c.fsm.State,
		OnlyOurs: func(string) error { return nil }, Now: func() time.Time { return c.now() }, Log: slog.New(slog.DiscardHandler)})
	for n := range snap.Nodes(nil) {
		if n.Ready() {
			return c, nil
		}
	}
	return nil, ErrNoNodes
}

func newFSM(store *state.Store) *fsm.FSM { return fsm.New(store, nil, slog.New(slog.DiscardHandler)) }

// Snapshot returns the current state of the cluster.
func (c *Cluster) Snapshot() *state.Snapshot { return c.fsm.State().Snapshot() }

// apply writes one log entry to the state.
func (c *Cluster) apply(t message.CommandType, payload any) error {
	data, err := codec.EncodeCommand(t, payload)
	if err != nil {
		return fmt.Errorf("encode command %d: %w", t, err)
	}
	c.index++
	if failed, ok := c.fsm.Apply(&raft.Log{Index: c.index, Type: raft.LogCommand, Data: data}).(error); ok {
		return failed
	}
	return nil
}

// Run registers a job in the cluster and schedules it. The error is that of the registration, or of ctx.
func (c *Cluster) Run(ctx context.Context, job *nomad.Job) (*Job, error) {
	if err := c.provide(job); err != nil {
		return nil, err
	}
	a, err := jobs.Admit(c.core, job)
	if err != nil {
		return nil, err
	}
	out := newJob(a)
	eval := c.core.JobEval(a.Job(), 0, nomad.EvalTriggerJobRegister)
	if eval != nil {
		// The ID decides in which order nodes are visited: the same input gives the same plan.
		eval.ID = fmt.Sprintf("00000000-0000-4000-8000-%012x", c.index+1)
		eval.AnnotatePlan = true
	}
	if err := c.register(a, eval); err != nil {
		return nil, err
	}
	if eval == nil {
		return out, nil
	}
	p := &planner{cluster: c, job: out}
	if err := p.process(ctx, c.Snapshot().Eval(nil, eval.ID)); err != nil {
		return nil, err
	}
	out.sort()
	return out, nil
}

// register stores the job and its evaluation. An unchanged job is not stored again.
func (c *Cluster) register(a *jobs.Admitted, eval *nomad.Evaluation) error {
	if !a.Unchanged {
		return c.apply(a.Register(admission.Registration{Eval: eval}).Entry())
	}
	if eval == nil {
		return nil
	}
	eval.JobModifyIndex = a.Old.JobModifyIndex
	return c.apply(message.EvalUpdateRequestType, &message.EvalUpdateRequest{Evals: []*nomad.Evaluation{eval}})
}

// provide creates the namespace of a job in a synthetic cluster.
func (c *Cluster) provide(job *nomad.Job) error {
	if job.Namespace == "" || !c.synthetic || c.Snapshot().Namespace(nil, job.Namespace) != nil {
		return nil
	}
	return c.apply(message.NamespaceUpsertRequestType, &message.NamespaceUpsertRequest{Namespaces: []*nomad.Namespace{{Name: job.Namespace}}})
}
