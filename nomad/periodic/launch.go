package periodic

import (
	"context"
	"fmt"
	"time"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/admission"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/codec"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// refusal is the error of a launch that would also fail when repeated.
type refusal struct {
	error
	ofRules bool // of admission: the child was not written to the log
}

func (r *refusal) Unwrap() error { return r.error }

// occasion is a job to launch, at a time, and the asker. The job is of the snapshot.
type occasion struct {
	snap *state.Snapshot
	job  *nomad.Job
	at   time.Time
	who  admission.Asker
}

// launch registers the child of a job, with the rights of the asker. It returns the evaluation of the child and the index
// of the log entry.
func (l *Launcher) launch(ctx context.Context, o occasion) (*nomad.Evaluation, uint64, error) {
	now, job := time.Now(), o.job
	child := childOf(job, o.at, now.UnixNano())
	admitted, err := l.cfg.Admission.At(o.snap).Admit(o.who, child)
	if err != nil {
		return nil, 0, &refusal{fmt.Errorf("launch %q: %w", child.ID, err), true}
	}
	eval := nomad.NewEval(child, nomad.EvalTriggerPeriodicJob, now)
	kind, entry := admitted.Register(admission.Registration{Eval: eval, EnforceIndex: true}).Entry() // index 0: the child must not exist
	index, err := l.cfg.Raft.Apply(ctx, kind, entry)
	switch {
	case err == nil:
		l.cfg.Log.Debug("periodic job launched", "job", job.ID, "namespace", job.Namespace, "child", child.ID, "eval", eval.ID)
		return eval, index, nil
	case index > 0: // applied, but rejected by the FSM
		return nil, index, &refusal{fmt.Errorf("launch %q: %w", child.ID, err), false}
	}
	return nil, 0, fmt.Errorf("launch %q: %w", child.ID, err)
}

// childOf returns the child of a job for a time. The child is not periodic. It has no scaling
// policies, because a policy has one target.
func childOf(job *nomad.Job, at time.Time, now int64) *nomad.Job {
	child := codec.Copy(job.WithoutScaling())
	child.ID = nomad.PeriodicChildID(job.ID, at)
	child.Name, child.ParentID = child.ID, job.ID
	child.Periodic, child.VersionTag = nil, nil
	child.Status, child.StatusDescription, child.Stable = "", "", false
	child.SubmitTime = now
	return child
}

// Force launches a child of a job of the snapshot with the current second, whether or not another child runs. The asker needs the rights
// of a dispatch. If the job was already launched in this second, it returns that launch.
func (l *Launcher) Force(ctx context.Context, snap *state.Snapshot, who admission.Asker,
	job *nomad.Job) (*message.PeriodicForceResponse, error) {
	ns, id := job.Namespace, job.ID
	switch {
	case !job.IsPeriodic():
		return nil, apierror.Errorf(400, "can't force launch non-periodic job")
	case !job.PeriodicActive():
		return nil, apierror.Errorf(400, "can't force run non-tracked job %q (%s)", id, ns)
	}
	at := time.Now().Truncate(time.Second)
	child := nomad.PeriodicChildID(id, at)
	eval, index, err := l.launch(ctx, occasion{snap, job, at, who})
	if err != nil && index > 0 && l.cfg.Store().Wait(ctx, index) == nil {
		eval, index, err = launchedBefore(l.cfg.Store().Snapshot(), ns, child, err)
	}
	if err != nil {
		return nil, fmt.Errorf("force launch of job %q: %w", id, err)
	}
	out := &message.PeriodicForceResponse{EvalID: eval.ID, EvalCreateIndex: index}
	out.Index = index
	return out, nil
}

// launchedBefore returns the evaluation of the launch of a child that exists, or err.
func launchedBefore(snap *state.Snapshot, ns, child string, err error) (*nomad.Evaluation, uint64, error) {
	for eval := range snap.EvalsByJob(nil, ns, child) {
		if eval.TriggeredBy == nomad.EvalTriggerPeriodicJob {
			return eval, eval.CreateIndex, nil
		}
	}
	return nil, 0, err
}
