// Package worker processes evaluations. A worker dequeues one from the leader's broker and waits
// until the local state is new enough. It then runs the scheduler on a snapshot and submits the
// result to the leader.
//
//	idle ──dequeue──▶ waiting for the index ──▶ scheduling ──finish, ack──▶ idle, or the next
//	                          └──────error───────────┴────nack───▶ idle
//
// A Worker is one goroutine and processes one evaluation at a time. A server runs several. It uses
// only RPC to reach the leader, so that it works the same on every server. It never writes state or
// the Raft log.
package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"time"

	"github.com/open-nomad/open-nomad/internal/backoff"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/codec"
	"github.com/open-nomad/open-nomad/nomad/kinds"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/scheduler"
	"github.com/open-nomad/open-nomad/nomad/state"
	"github.com/open-nomad/open-nomad/plugins/schema"
)

const (
	// dequeueWait is how long one Eval.Dequeue waits.
	dequeueWait = time.Minute
	// stateWait is how long an evaluation waits for the local state.
	stateWait = 5 * time.Second
	// backoffMin and backoffMax bound the delay after a failed RPC.
	backoffMin = 5 * time.Millisecond
	backoffMax = time.Second
	// nackWait bounds the final ack or nack, stopWait the one during shutdown. Without a leader it
	// fails, and the broker's timeout returns the evaluation.
	nackWait = 5 * time.Second
	stopWait = 500 * time.Millisecond
)

// Core processes evaluations of type _core.
type Core interface {
	Process(ctx context.Context, eval *nomad.Evaluation) error
}

// Config of a Worker.
type Config struct {
	RPC    message.Caller
	Store  func() *state.Store // the current store: a restore replaces it
	Core   Core
	Region string
	Kinds  kinds.Table // built-in kinds of drivers
	// Schedulers are the evaluation types to dequeue. Default: all, and _core.
	Schedulers []string
	// Schemas are those of the drivers of the nodes.
	Schemas *schema.Set
	Log     *slog.Logger
}

// Worker processes evaluations one after another.
type Worker struct {
	cfg    Config
	log    *slog.Logger
	report report

	retired context.Context // ended by retire
	retire  context.CancelFunc
}

// AllTypes returns the types of evaluations that workers process by default: all, with _core.
func AllTypes() []string {
	return []string{nomad.JobTypeCore, nomad.JobTypeService, nomad.JobTypeBatch, nomad.JobTypeSystem, nomad.JobTypeSysBatch}
}

// New returns a Worker.
func New(cfg Config) *Worker {
	if len(cfg.Schedulers) == 0 {
		cfg.Schedulers = AllTypes()
	}
	w := &Worker{cfg: cfg, log: cfg.Log}
	w.retired, w.retire = context.WithCancel(context.Background())
	w.report.id = nomad.NewID()
	return w
}

// Run processes evaluations until ctx ends. It then returns an unfinished evaluation to the broker. A worker that
// is retired finishes its evaluation instead.
func (w *Worker) Run(ctx context.Context) error {
	w.report.start()
	defer w.report.stop()
	again := backoff.Backoff{Min: backoffMin, Max: backoffMax}
	for ctx.Err() == nil && w.retired.Err() == nil {
		w.report.set(workloadWaiting)
		next, err := w.dequeue(ctx)
		if err != nil {
			w.log.Debug("dequeue evaluation", "err", err)
			w.report.set(workloadBackoff)
			again.Wait(ctx) // the loop ends with ctx
			continue
		}
		for next.Eval != nil {
			next = w.work(ctx, next)
		}
		again.Reset()
	}
	return ctx.Err()
}

// dequeue returns an evaluation, its token and the index that the local state must reach, or no
// evaluation after the wait. It ends when the worker is retired. If the broker gives out an evaluation at
// that moment, its timeout returns it.
func (w *Worker) dequeue(ctx context.Context) (message.EvalDequeueResponse, error) {
	req := &message.EvalDequeueRequest{
		Schedulers:   w.cfg.Schedulers,
		Timeout:      dequeueWait,
		WriteRequest: message.WriteRequest{Region: w.cfg.Region},
	}
	var resp message.EvalDequeueResponse
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(w.retired, cancel)()
	begun := time.Now()
	err := w.cfg.RPC.Call(ctx, "Eval.Dequeue", req, &resp)
	if resp.Eval != nil {
		measure("dequeue_eval", begun)
	}
	return resp, err
}

// work processes an evaluation and reports the result to the broker. It returns the next evaluation
// if the broker's answer contains one.
func (w *Worker) work(ctx context.Context, given message.EvalDequeueResponse) (next message.EvalDequeueResponse) {
	eval := given.Eval
	log := w.log.With("eval", eval.ID, "job", eval.JobID)
	p := &planner{cfg: w.cfg, token: given.Token, report: &w.report, retired: func() bool { return w.retired.Err() != nil }}
	err := w.process(ctx, eval, p, max(given.WaitIndex, eval.ModifyIndex))
	if err != nil && ctx.Err() == nil {
		log.Warn("process evaluation", "err", err)
	}
	if p.finished {
		return p.next
	}
	method := "Eval.Ack"
	if err != nil {
		method = "Eval.Nack"
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), nackWait)
	defer cancel()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(stopWait, cancel) })()
	defer measure("send_ack", time.Now())
	req := &message.EvalAckRequest{EvalID: eval.ID, Token: given.Token, WriteRequest: message.WriteRequest{Region: w.cfg.Region}}
	if err := w.cfg.RPC.Call(last, method, req, &message.GenericResponse{}); err != nil {
		log.Warn("return evaluation", "method", method, "err", err)
	}
	return next
}

// process runs the scheduler for an evaluation. A panic of the scheduler becomes an error of this
// evaluation: a job that makes it panic ends in the failed queue and does not stop the server.
func (w *Worker) process(ctx context.Context, eval *nomad.Evaluation, p *planner, index uint64) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("scheduler panicked: %v\n%s", r, debug.Stack())
		}
	}()
	wait, cancel := context.WithTimeout(ctx, stateWait)
	defer cancel()
	begun := time.Now()
	w.report.set(workloadRaft)
	snap, err := w.cfg.Store().SnapshotAfter(wait, index)
	measure("wait_for_index", begun)
	if err != nil {
		return err
	}
	defer measureScheduler(eval.Type, time.Now())
	w.report.set(workloadScheduling)
	if eval.Type == nomad.JobTypeCore {
		if w.cfg.Core == nil {
			return errors.New("core jobs are not enabled on this worker")
		}
		return w.cfg.Core.Process(ctx, eval)
	}
	s, err := scheduler.New(eval.Type, snap, p, scheduler.Options{Log: w.log, Kinds: w.cfg.Kinds, Schemas: w.cfg.Schemas})
	if err != nil {
		return err
	}
	return s.Process(ctx, codec.Copy(eval))
}
