package jobs

import (
	"cmp"
	"context"
	"fmt"
	"reflect"
	"strings"

	"github.com/open-nomad/open-nomad/acl"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/admission"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/codec"
	"github.com/open-nomad/open-nomad/nomad/endpoint/handler"
	"github.com/open-nomad/open-nomad/nomad/jobrules"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rpc"
)

// defaultMaxSource is the default limit for the size of a stored job source.
const defaultMaxSource = 1_000_000

// Register stores a new or changed job and creates its evaluation. For an unchanged job it only
// creates an evaluation.
func (s *Service) Register(ctx context.Context, c *rpc.Call, req *message.JobRegisterRequest) (*message.JobRegisterResponse, error) {
	if req.Job == nil {
		return nil, apierror.Errorf(400, "missing job for registration")
	}
	snap := s.Snapshot()
	view := s.admission.At(snap)
	job, err := s.complete(c, view, submission{req.Job, req.WriteRequest, rights{acl.SubmitJob, acl.RegisterJob}})
	if err != nil {
		return nil, err
	}
	if err := needOverride(c, job.Namespace, req.PolicyOverride); err != nil {
		return nil, err
	}
	old := snap.Job(nil, job.Namespace, job.ID)
	preserve(old, job, req)
	identifyPolicies(snap, job)
	job.SubmitTime = s.UnixNow()
	admitted, err := view.Admit(admission.Caller(c.Access), job)
	if err != nil {
		return nil, err
	}
	if !outdated(req, old) {
		if err := s.writeGateways(ctx, job); err != nil {
			return nil, err
		}
	}
	source, warnings := s.keptSource(req.Submission, admitted.Warnings())
	eval := s.JobEval(job, req.EvalPriority, nomad.EvalTriggerJobRegister)
	out := &message.JobRegisterResponse{Warnings: strings.Join(warnings, "\n")}

	if old != nil && !old.Stopped() && !enforced(req, old) && sameSpec(old, job) && s.isStill(ctx, old) {
		out.JobModifyIndex, out.Index = old.JobModifyIndex, old.ModifyIndex
		return out, s.evaluateUnchanged(ctx, old, eval, out)
	}
	if job.WantsRSA() {
		if err := s.keys.EnsureRSA(ctx); err != nil {
			return nil, err
		}
	}
	index, err := s.write(ctx, admitted,
		admission.Registration{Submission: source, Eval: eval, EnforceIndex: req.EnforceIndex, JobModifyIndex: req.JobModifyIndex})
	if err != nil {
		return nil, handler.BadRequest(err)
	}
	out.JobModifyIndex, out.Index = index, index
	if eval != nil {
		out.EvalID, out.EvalCreateIndex = eval.ID, index
	}
	return out, nil
}

// write writes an admitted job and returns the index of the log entry.
func (s *Service) write(ctx context.Context, job *admission.Admitted, r admission.Registration) (uint64, error) {
	kind, entry := job.Register(r).Entry()
	return s.Apply(ctx, kind, entry)
}

// writeGateways writes the configuration of the job's gateways to Consul. The job is refused if that fails: its gateways would
// not work. A job that did not change is written too, since Consul may have lost its state.
func (s *Service) writeGateways(ctx context.Context, job *nomad.Job) error {
	if err := s.cfg.Gateways.Write(ctx, job); err != nil {
		return apierror.Errorf(500, "%v", err)
	}
	return nil
}

// needOverride checks that the caller may override policies, if the request does so.
func needOverride(c *rpc.Call, namespace string, override bool) error {
	if !override {
		return nil
	}
	return c.Access.Need(acl.InNamespace(namespace, acl.SentinelOverride))
}

// rights are rights in a namespace, of which a caller must have one.
type rights []acl.NamespaceCapability

// submission is a job of a request.
type submission struct {
	job     *nomad.Job
	request message.WriteRequest
	rights  rights
}

// complete returns the job of a request with the defaults of the view.
func (s *Service) complete(c *rpc.Call, view *admission.View, in submission) (*nomad.Job, error) {
	given, w := in.job, in.request
	namespace := cmp.Or(given.Namespace, handler.NamespaceOf(w.Namespace))
	if w.Namespace != "" && w.Namespace != namespace {
		return nil, apierror.Errorf(400, "mismatched request namespace %q and job namespace %q", w.Namespace, namespace)
	}
	if err := c.Access.Need(acl.InNamespace(namespace, in.rights...)); err != nil {
		return nil, err
	}
	if err := jobrules.Bound(given); err != nil {
		return nil, apierror.Errorf(400, "%v", err)
	}
	job := given
	if c.Conn == nil { // a local caller still owns the job
		job = codec.Copy(given)
	}
	job.Namespace = namespace
	if job.Region == "" {
		job.Region = s.Region
	}
	if job.Priority == 0 {
		job.Priority = s.cfg.DefaultPriority
	}
	if ns := view.Snapshot().Namespace(nil, job.Namespace); job.NodePool == "" && ns != nil {
		job.NodePool = ns.DefaultPool()
	}
	jobrules.Canonicalize(job)
	view.AddProxies(job)
	addImplicitConstraints(job, view.Names())
	clearServerFields(job)
	return job, nil
}

// clearServerFields resets the fields that only servers set, because clients may send back a
// job that they read. The FSM sets status, version and indexes.
func clearServerFields(job *nomad.Job) {
	job.Status, job.StatusDescription, job.Stable, job.VersionTag = "", "", false, nil
	job.Version, job.CreateIndex, job.ModifyIndex, job.JobModifyIndex, job.SubmitTime = 0, 0, 0, 0, 0
	job.NomadTokenID, job.DispatchIdempotencyToken, job.Registrant = "", "", nil
}

// preserve keeps the counts or resources of the running job if the request asks for it.
func preserve(old, job *nomad.Job, req *message.JobRegisterRequest) {
	if old.Stopped() {
		return
	}
	for _, tg := range job.TaskGroups {
		was := old.TaskGroup(tg.Name)
		if was == nil {
			continue
		}
		if req.PreserveCounts {
			tg.Count = was.Count
		}
		if !req.PreserveResources {
			continue
		}
		for _, t := range tg.Tasks {
			if wt := was.Task(t.Name); wt != nil && wt.Resources != nil {
				t.Resources = codec.Copy(wt.Resources)
			}
		}
	}
}

// keptSource returns the job source to store. It drops a source that is too large, with a
// warning.
func (s *Service) keptSource(source *nomad.JobSubmission, warnings []string) (*nomad.JobSubmission, []string) {
	if source == nil || source.Source == "" {
		return nil, warnings
	}
	size := len(source.Source) + len(source.Variables)
	for k, v := range source.VariableFlags {
		size += len(k) + len(v)
	}
	if size > s.cfg.MaxSource {
		return nil, append(warnings, fmt.Sprintf("job source size of %d bytes exceeds the maximum of %d and will be discarded", size,
			s.cfg.MaxSource))
	}
	return source, warnings
}

// enforced reports whether a compare-and-set of the request would fail now. The final check is
// that of the FSM, when it applies the entry.
func enforced(req *message.JobRegisterRequest, old *nomad.Job) bool {
	return req.EnforceIndex && req.JobModifyIndex != old.JobModifyIndex
}

// outdated reports whether a compare-and-set of the request would fail now, also for a job that does not exist.
func outdated(req *message.JobRegisterRequest, old *nomad.Job) bool {
	if old == nil {
		return req.EnforceIndex && req.JobModifyIndex != 0
	}
	return enforced(req, old)
}

// sameSpec reports whether a job has the same specification as the stored one. Fields that
// servers set are ignored. The new job is encoded and decoded first, so that nil and empty
// values compare as equal.
func sameSpec(old, job *nomad.Job) bool {
	b, err := codec.Encode(job)
	if err != nil {
		return false
	}
	var fresh nomad.Job
	if err := codec.Decode(b, &fresh); err != nil {
		return false
	}
	fresh.Status, fresh.StatusDescription = old.Status, old.StatusDescription
	fresh.Stable, fresh.Version, fresh.VersionTag = old.Stable, old.Version, old.VersionTag
	fresh.CreateIndex, fresh.ModifyIndex, fresh.JobModifyIndex = old.CreateIndex, old.ModifyIndex, old.JobModifyIndex
	fresh.SubmitTime, fresh.NomadTokenID, fresh.Registrant = old.SubmitTime, old.NomadTokenID, old.Registrant
	return reflect.DeepEqual(old, &fresh)
}

// isStill reports whether the specification of a job is unchanged; its status may have changed. It confirms leadership
// first, so that no other leader can have changed it.
func (s *Service) isStill(ctx context.Context, old *nomad.Job) bool {
	if s.Cluster.Confirm(ctx) != nil {
		return false
	}
	now := s.Snapshot().Job(nil, old.Namespace, old.ID)
	return now != nil && now.CreateIndex == old.CreateIndex && now.JobModifyIndex == old.JobModifyIndex && now.Stopped() == old.Stopped()
}

// evaluateUnchanged creates an evaluation for a job that did not change.
func (s *Service) evaluateUnchanged(ctx context.Context, old *nomad.Job, eval *nomad.Evaluation, out *message.JobRegisterResponse) error {
	if eval == nil {
		return nil
	}
	eval.JobModifyIndex = old.JobModifyIndex
	index, err := s.UpsertEvals(ctx, eval)
	if err != nil {
		return err
	}
	out.EvalID, out.EvalCreateIndex, out.Index = eval.ID, index, index
	return nil
}
