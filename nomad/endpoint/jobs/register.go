package jobs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/open-nomad/open-nomad/acl"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/codec"
	"github.com/open-nomad/open-nomad/nomad/endpoint/handler"
	"github.com/open-nomad/open-nomad/nomad/jobrules"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rpc"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// defaultMaxSource is the default limit for the size of a stored job source.
const defaultMaxSource = 1_000_000

// Register stores a new or changed job and creates its evaluation. For an unchanged job it only
// creates an evaluation.
func (s *Service) Register(ctx context.Context, c *rpc.Call, req *message.JobRegisterRequest) (*message.JobRegisterResponse, error) {
	if req.Job == nil {
		return nil, nomad.Errorf(400, "missing job for registration")
	}
	job, warnings, err := s.admit(c, req.Job, req.WriteRequest, needs{
		ops:  []acl.NamespaceCapability{acl.SubmitJob, acl.RegisterJob},
		more: func(job *nomad.Job) error { return needRights(c, job, req.PolicyOverride) },
	})
	if err != nil {
		return nil, err
	}
	snap := s.Snapshot()
	if err := registrationOpen(snap, c); err != nil {
		return nil, err
	}
	old := snap.Job(nil, job.Namespace, job.ID)
	if err := replaces(old, job); err != nil {
		return nil, err
	}
	preserve(old, job, req)
	identifyPolicies(snap, job)
	source, warnings := s.keptSource(req.Submission, warnings)
	job.SubmitTime = s.UnixNow()
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
	entry := &message.JobRegisterRequest{
		Submission: source, Job: job, EnforceIndex: req.EnforceIndex, JobModifyIndex: req.JobModifyIndex, Eval: eval,
		WriteRequest: message.WriteRequest{Region: job.Region, Namespace: job.Namespace},
	}
	index, err := s.Apply(ctx, nomad.JobRegisterRequestType, entry)
	if err != nil {
		return nil, handler.BadRequest(err)
	}
	out.JobModifyIndex, out.Index = index, index
	if eval != nil {
		out.EvalID, out.EvalCreateIndex = eval.ID, index
	}
	return out, nil
}

// maxParts is the maximum number of groups and tasks in a job, as in the HTTP API. Each takes
// thousands of bytes with its defaults.
const maxParts = 5_000

// needs are the rights that a call with a job requires. The caller must first have one of ops in
// the job's namespace. Then the function more checks the complete job.
type needs struct {
	ops  []acl.NamespaceCapability
	more func(*nomad.Job) error
}

// admit returns the validated job as it will be stored, and its warnings. A caller without
// the rights gets only the permission error.
func (s *Service) admit(c *rpc.Call, given *nomad.Job, w message.WriteRequest, need needs) (*nomad.Job, []string, error) {
	job, err := s.complete(c, given, w, need.ops...)
	if err != nil {
		return nil, nil, err
	}
	if err := need.more(job); err != nil {
		return nil, nil, err
	}
	if err := NeedPrivilege(c, job); err != nil {
		return nil, nil, err
	}
	if err := s.notOfServers(job); err != nil {
		return nil, nil, err
	}
	warns, err := s.validate(job)
	if err != nil {
		return nil, nil, handler.BadRequest(err)
	}
	return job, append(s.warnings(job), warns...), s.fits(job)
}

// complete returns the job of a request with its defaults. The caller must have one of the
// rights in its namespace.
func (s *Service) complete(c *rpc.Call, given *nomad.Job, w message.WriteRequest, ops ...acl.NamespaceCapability) (*nomad.Job, error) {
	namespace := cmp.Or(given.Namespace, handler.NamespaceOf(w.Namespace))
	if w.Namespace != "" && w.Namespace != namespace {
		return nil, nomad.Errorf(400, "mismatched request namespace %q and job namespace %q", w.Namespace, namespace)
	}
	if err := c.Access.Need(acl.InNamespace(namespace, ops...)); err != nil {
		return nil, err
	}
	if err := boundParts(given); err != nil {
		return nil, err
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
	if ns := s.Snapshot().Namespace(nil, job.Namespace); job.NodePool == "" && ns != nil {
		job.NodePool = ns.DefaultPool()
	}
	jobrules.Canonicalize(job)
	addImplicitConstraints(job, s.names())
	clearServerFields(job)
	return job, nil
}

// clearServerFields resets the fields that only servers set, because clients may send back a
// job that they read. The FSM sets status, version and indexes.
func clearServerFields(job *nomad.Job) {
	job.Status, job.StatusDescription, job.Stable, job.VersionTag = "", "", false, nil
	job.Version, job.CreateIndex, job.ModifyIndex, job.JobModifyIndex, job.SubmitTime = 0, 0, 0, 0, 0
	job.NomadTokenID, job.DispatchIdempotencyToken = "", ""
}

// notOfServers rejects a submitted job with fields that only servers set. A job with the
// ParentID of another job would get its identity and rights. A resubmitted job may keep its
// stored ParentID.
func (s *Service) notOfServers(job *nomad.Job) error {
	switch {
	case job.Dispatched || len(job.Payload) > 0:
		return nomad.Errorf(400, "job cannot be submitted with a payload or as dispatched: dispatch its parent")
	case job.ParentID == "":
		return nil
	}
	if old := s.Snapshot().Job(nil, job.Namespace, job.ID); old != nil && old.ParentID == job.ParentID {
		return nil
	}
	return nomad.Errorf(400, "job %q cannot be submitted with a ParentID: only servers set it", job.ID)
}

// boundParts rejects a job with too many groups and tasks.
func boundParts(job *nomad.Job) error {
	n := len(job.TaskGroups)
	for _, tg := range job.TaskGroups {
		n += len(tg.Tasks)
	}
	if n > maxParts {
		return nomad.Errorf(400, "the job has %d groups and tasks: the limit is %d", n, maxParts)
	}
	return nil
}

// fits rejects a valid job that does not belong to the region, or which its namespace does not admit.
func (s *Service) fits(job *nomad.Job) error {
	ns, err := s.belongs(job)
	if err != nil {
		return err
	}
	if err := ns.Admits(job); err != nil {
		return err
	}
	return errors.Join(s.isolated(ns, job), s.isolates(job), s.dropped(job), s.spiffe(job))
}

// belongs returns the namespace of a job. It rejects a job of another region, or whose namespace or
// node pool does not exist.
func (s *Service) belongs(job *nomad.Job) (*nomad.Namespace, error) {
	if job.Region != s.Region {
		return nil, nomad.Errorf(400, "job %q is for region %q, but this is region %q", job.ID, job.Region, s.Region)
	}
	snap := s.Snapshot()
	ns := snap.Namespace(nil, job.Namespace)
	if ns == nil {
		return nil, nomad.Errorf(400, "job %q is in nonexistent namespace %q", job.ID, job.Namespace)
	}
	if snap.NodePool(nil, job.NodePool) == nil {
		return nil, nomad.Errorf(400, "job %q is in nonexistent node pool %q", job.ID, job.NodePool)
	}
	return ns, nil
}

// validate returns all errors of a canonical job, and an excess over a limit of the servers. The
// config blocks of an otherwise valid job are checked against the schemas of the nodes, which gives
// warnings too.
func (s *Service) validate(job *nomad.Job) (warns []string, err error) {
	names := s.names()
	if all := slices.Concat(parts(validate(job, names)), unprivileged(job, names), parts(s.withinLimits(job))); len(all) > 0 {
		return nil, errors.Join(all...)
	}
	c := s.checkConfigs(job, names)
	return c.warns, errors.Join(c.wrong...)
}

// withinLimits rejects a job that exceeds the priority or count limits of the servers.
func (s *Service) withinLimits(job *nomad.Job) error {
	if p := job.Priority; p > s.cfg.MaxPriority && p <= nomad.JobMaxPriority { // the rules of jobs reject a higher one
		return nomad.Errorf(400, "job %q: priority is %d: it must be %d to %d, the job_max_priority of the servers", job.ID, job.Priority, nomad.JobMinPriority, s.cfg.MaxPriority)
	}
	count := 0
	for _, tg := range job.TaskGroups {
		count += tg.Count
	}
	if count > s.cfg.MaxCount {
		return nomad.Errorf(400, "job %q requests %d allocations: the limit is %d", job.ID, count, s.cfg.MaxCount)
	}
	return nil
}

// registrationOpen rejects new jobs while the operator has disabled registration. Management
// tokens are exempt.
func registrationOpen(snap *state.Snapshot, c *rpc.Call) error {
	_, cfg := snap.SchedulerConfig(nil)
	if cfg != nil && cfg.RejectJobRegistration && (c.Access.Disabled || !c.Access.IsManagement()) {
		return nomad.ErrRegistrationClosed
	}
	return nil
}

// replaces rejects a job that cannot update the existing job.
func replaces(old, job *nomad.Job) error {
	switch {
	case old == nil:
		return nil
	case old.Type != job.Type && !old.Stopped():
		return nomad.Errorf(400, "cannot update job from type %q to %q", old.Type, job.Type)
	case old.IsParameterized() != job.IsParameterized():
		return nomad.Errorf(400, "cannot update non-parameterized job to being parameterized or back")
	case old.IsPeriodic() != job.IsPeriodic():
		return nomad.Errorf(400, "cannot update non-periodic job to being periodic or back")
	}
	return nil
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
		return nil, append(warnings, fmt.Sprintf("job source size of %d bytes exceeds the maximum of %d and will be discarded", size, s.cfg.MaxSource))
	}
	return source, warnings
}

// enforced reports whether a compare-and-set of the request would fail now. The final check is
// that of the FSM, when it applies the entry.
func enforced(req *message.JobRegisterRequest, old *nomad.Job) bool {
	return req.EnforceIndex && req.JobModifyIndex != old.JobModifyIndex
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
	fresh.SubmitTime, fresh.NomadTokenID = old.SubmitTime, old.NomadTokenID
	return reflect.DeepEqual(old, &fresh)
}

// isStill reports whether a job is unchanged. It confirms leadership first, so that no other
// leader can have changed it.
func (s *Service) isStill(ctx context.Context, old *nomad.Job) bool {
	if s.Cluster.Confirm(ctx) != nil {
		return false
	}
	now := s.Snapshot().Job(nil, old.Namespace, old.ID)
	return now != nil && now.ModifyIndex == old.ModifyIndex
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
