package admission

import (
	"errors"
	"slices"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/jobrules"
	"github.com/open-nomad/open-nomad/nomad/rules"
)

// write is a job that is checked. ns is set by the rule that requires it to exist.
type write struct {
	*View
	who      Asker
	job      *nomad.Job
	old      *nomad.Job // the registered version, or nil
	ns       *nomad.Namespace
	warnings []string
	granted  string // the warning about added privilege, or ""
	mapped   string // the warning about services that were made native, or ""
}

// rule is one rule of admission.
type rule struct {
	name  string
	check func(*write) error
}

// checks are the rules of admission, in the order in which they are checked. The rights are first, so that a caller
// without them gets only the permission error. The first three rules are the only ones that change the job, so that the
// others check it as it will be stored.
var checks = []rule{
	{"use of Consul", (*write).consul},
	{"use of Vault", (*write).vault},
	{"privilege of tasks that need it", (*write).grant},
	{"rights of the asker", func(w *write) error { return w.Rights(w.who, w.job) }},
	{"CSI plugins of other namespaces", (*write).joins},
	{"registration is open", (*write).open},
	{"fields of the servers", (*write).ofServers},
	{"validation", (*write).valid},
	{"region, namespace and node pool", (*write).belongs},
	{"rules of the namespace", func(w *write) error { return rules.JobInNamespace(w.ns, w.job) }},
	{"isolation and features of this project", func(w *write) error {
		return errors.Join(w.isolated(w.ns, w.job), w.isolates(w.job), w.dropped(w.job), w.spiffe(w.job))
	}},
	{"change of the registered job", func(w *write) error { return Replaces(w.old, w.job) }},
}

// pass returns the error of the first rule that rejects the job.
func (w *write) pass() error {
	for _, r := range checks {
		if err := r.check(w); err != nil {
			return err
		}
	}
	return nil
}

// open rejects writes while the operator has closed registration. Management tokens are exempt.
func (w *write) open() error {
	_, cfg := w.snap.SchedulerConfig(nil)
	if cfg == nil || !cfg.RejectJobRegistration || w.who.dry || w.who.isManagement() {
		return nil
	}
	return apierror.ErrRegistrationClosed
}

// ofServers rejects a submitted job with fields that only servers set. A job with the ParentID of another job would get
// its identity and rights. A resubmitted job may keep its stored ParentID.
func (w *write) ofServers() error {
	if !w.who.submits() {
		return nil
	}
	switch {
	case w.job.Dispatched || len(w.job.Payload) > 0:
		return apierror.Errorf(400, "job cannot be submitted with a payload or as dispatched: dispatch its parent")
	case w.job.ParentID == "":
		return nil
	}
	if old := w.snap.Job(nil, w.job.Namespace, w.job.ID); old != nil && old.ParentID == w.job.ParentID {
		return nil
	}
	return apierror.Errorf(400, "job %q cannot be submitted with a ParentID: only servers set it", w.job.ID)
}

// valid rejects an invalid job with all its errors, and one that exceeds a limit of the servers. It adds the warnings.
func (w *write) valid() error {
	w.warnings = w.Warnings(w.job)
	more, err := w.Validate(w.who, w.job)
	w.warnings = append(w.warnings, more...)
	for _, text := range []string{w.granted, w.mapped} {
		if text != "" {
			w.warnings = append(w.warnings, text)
		}
	}
	return err
}

// Validate returns all errors of a canonical job as an Invalid, also an excess over a limit of the servers. The
// config blocks of an otherwise valid job are checked against the schemas of the nodes, which gives warnings too.
func (v *View) Validate(who Asker, job *nomad.Job) (warns []string, err error) {
	all := slices.Concat(parts(validate(job, v.names)), unprivileged(job, v.names, v.explicit(job.Namespace)),
		v.consulFaults(who, job), jobrules.NeedsVault(job, v.cfg.Vault), parts(v.withinLimits(job)))
	if len(all) > 0 {
		return nil, invalid(all)
	}
	c := v.checkConfigs(job)
	return c.warns, invalid(c.wrong)
}

// Explainable is Validate for an explanation: nodes need not accept the configs of the job or its lack of privilege, and
// its namespace need not admit it. It changes the job as Admit would.
func (v *View) Explainable(who Asker, job *nomad.Job) error {
	w := &write{View: v, who: who, job: job}
	if err := w.ofServers(); err != nil {
		return err
	}
	if err := w.consul(); err != nil {
		return err
	}
	if err := w.vault(); err != nil {
		return err
	}
	if all := slices.Concat(parts(validate(job, v.names)), v.consulFaults(who, job), jobrules.NeedsVault(job, v.cfg.Vault),
		parts(v.withinLimits(job))); len(all) > 0 {
		return invalid(all)
	}
	if err := v.Rights(who, job); err != nil {
		return err
	}
	_ = w.grant() // without the right, the explanation shows that nodes do not run the task
	return w.belongs()
}

// Invalid is the error (400) of a job with faults.
type Invalid struct{ Faults []error }

// invalid returns an Invalid, or nil without faults.
func invalid(faults []error) error {
	if len(faults) == 0 {
		return nil
	}
	return &Invalid{faults}
}

// Error returns the faults, one per line.
func (e *Invalid) Error() string { return errors.Join(e.Faults...).Error() }

// Unwrap returns the status, and the faults.
func (e *Invalid) Unwrap() []error {
	return append([]error{&apierror.Coded{Code: 400, Message: e.Error()}}, e.Faults...)
}

// withinLimits rejects a job that exceeds the priority or count limits of the servers.
func (a *Admitter) withinLimits(job *nomad.Job) error {
	if p := job.Priority; p > a.cfg.MaxPriority && p <= nomad.JobMaxPriority { // the rules of jobs reject a higher one
		return apierror.Errorf(400, "job %q: priority is %d: it must be %d to %d, the job_max_priority of the servers", job.ID, job.Priority,
			nomad.JobMinPriority, a.cfg.MaxPriority)
	}
	count := 0
	for _, tg := range job.TaskGroups {
		count += tg.Count
	}
	if count > a.cfg.MaxCount {
		return apierror.Errorf(400, "job %q requests %d allocations: the limit is %d", job.ID, count, a.cfg.MaxCount)
	}
	return nil
}

// belongs rejects a job of another region, or whose namespace or node pool does not exist.
func (w *write) belongs() error {
	job := w.job
	if job.Region != w.cfg.Region {
		return apierror.Errorf(400, "job %q is for region %q, but this is region %q", job.ID, job.Region, w.cfg.Region)
	}
	if w.ns = w.snap.Namespace(nil, job.Namespace); w.ns == nil {
		return apierror.Errorf(400, "job %q is in nonexistent namespace %q", job.ID, job.Namespace)
	}
	if w.snap.NodePool(nil, job.NodePool) == nil {
		return apierror.Errorf(400, "job %q is in nonexistent node pool %q", job.ID, job.NodePool)
	}
	return nil
}

// Replaces rejects a job that cannot update the existing job.
func Replaces(old, job *nomad.Job) error {
	switch {
	case old == nil:
		return nil
	case old.Type != job.Type && !old.Stopped():
		return apierror.Errorf(400, "cannot update job from type %q to %q", old.Type, job.Type)
	case old.IsParameterized() != job.IsParameterized():
		return apierror.Errorf(400, "cannot update non-parameterized job to being parameterized or back")
	case old.IsPeriodic() != job.IsPeriodic():
		return apierror.Errorf(400, "cannot update non-periodic job to being periodic or back")
	}
	return nil
}
