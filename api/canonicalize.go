package api

import (
	"reflect"
	"time"
)

// Canonicalize sets all defaults that do not depend on the servers, so that equivalent
// jobs are equal. It copies the job's update, reschedule and migrate blocks to the groups,
// and a group's restart block to its tasks.
func (j *Job) Canonicalize() {
	dropNil(reflect.ValueOf(j).Elem())
	orDefault(&j.Region, GlobalRegion)
	orDefault(&j.Namespace, DefaultNamespace)
	orDefault(&j.ID, "")
	if j.Name == nil || *j.Name == "" {
		j.Name = new(*j.ID)
	}
	orDefault(&j.ParentID, "")
	orDefault(&j.Type, JobTypeService)
	orDefault(&j.Priority, JobDefaultPriority)
	if *j.Priority == 0 {
		j.Priority = new(JobDefaultPriority)
	}
	orDefault(&j.AllAtOnce, false)
	orDefault(&j.NodePool, "")
	orDefault(&j.ConsulNamespace, "")
	orDefault(&j.VaultNamespace, "")
	orDefault(&j.NomadTokenID, "")
	orDefault(&j.Status, "")
	orDefault(&j.StatusDescription, "")
	orDefault(&j.Stop, false)
	orDefault(&j.Stable, false)
	orDefault(&j.Version, 0)
	orDefault(&j.CreateIndex, 0)
	orDefault(&j.ModifyIndex, 0)
	orDefault(&j.JobModifyIndex, 0)
	if j.Periodic != nil {
		j.Periodic.canonicalize()
	}
	if j.Multiregion != nil {
		j.Multiregion.canonicalize()
	}
	if j.Update == nil && (*j.Type == JobTypeService || *j.Type == JobTypeSystem) {
		j.Update = &UpdateStrategy{}
	}
	if j.Update != nil {
		j.Update.canonicalize(nil)
	}
	canonicalizeConstraints(j.Constraints)
	canonicalizeAffinities(j.Affinities)
	canonicalizeSpreads(j.Spreads)
	for _, tg := range j.TaskGroups {
		tg.Canonicalize(j)
	}
}

// orDefault sets *p to a pointer to v if it is nil.
func orDefault[T any](p **T, v T) {
	if *p == nil {
		*p = &v
	}
}

// orEmpty sets *s to v if it is empty.
func orEmpty(s *string, v string) {
	if *s == "" {
		*s = v
	}
}

// dropNil removes nil elements from lists and maps of pointers. JSON can contain them, but
// they have no meaning.
func dropNil(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			dropNil(v.Elem())
		}
	case reflect.Struct:
		for i := range v.NumField() {
			dropNil(v.Field(i))
		}
	case reflect.Slice:
		if !holdsStructs(v.Type().Elem()) {
			return
		}
		kept := 0
		for i := range v.Len() {
			if e := v.Index(i); e.Kind() != reflect.Pointer || !e.IsNil() {
				dropNil(e)
				v.Index(kept).Set(e)
				kept++
			}
		}
		if v.Len() > 0 {
			v.SetLen(kept)
		}
	case reflect.Map:
		if !holdsStructs(v.Type().Elem()) {
			return
		}
		for _, k := range v.MapKeys() {
			if e := v.MapIndex(k); e.IsNil() {
				v.SetMapIndex(k, reflect.Value{})
			} else {
				dropNil(e)
			}
		}
	}
}

// holdsStructs reports whether t is a struct or a pointer to a struct.
func holdsStructs(t reflect.Type) bool {
	return t.Kind() == reflect.Struct || t.Kind() == reflect.Pointer && t.Elem().Kind() == reflect.Struct
}

// inherit sets a nil *p to a copy of the parent's value, or to v if the parent has none.
func inherit[T any](p **T, parent *T, v T) {
	if *p == nil && parent != nil {
		v = *parent
	}
	orDefault(p, v)
}

func (p *PeriodicConfig) canonicalize() {
	orDefault(&p.Enabled, true)
	orDefault(&p.Spec, "")
	if p.Specs == nil {
		p.Specs = []string{}
	}
	orDefault(&p.SpecType, PeriodicSpecCron)
	orDefault(&p.ProhibitOverlap, false)
	if p.TimeZone == nil || *p.TimeZone == "" {
		p.TimeZone = new("UTC")
	}
}

func (m *Multiregion) canonicalize() {
	if m.Strategy == nil {
		m.Strategy = &MultiregionStrategy{}
	}
	orDefault(&m.Strategy.MaxParallel, 0)
	orDefault(&m.Strategy.OnFailure, "")
	if m.Regions == nil {
		m.Regions = []*MultiregionRegion{}
	}
	for _, r := range m.Regions {
		orDefault(&r.Count, 1)
		if r.Meta == nil {
			r.Meta = map[string]string{}
		}
		if r.Datacenters == nil {
			r.Datacenters = []string{}
		}
	}
}

func canonicalizeConstraints(list []*Constraint) {
	for _, c := range list {
		orEmpty(&c.Operand, "=")
	}
}

func canonicalizeAffinities(list []*Affinity) {
	for _, a := range list {
		orEmpty(&a.Operand, "=")
		orDefault(&a.Weight, 50)
	}
}

func canonicalizeSpreads(list []*Spread) {
	for _, s := range list {
		orDefault(&s.Weight, 50)
	}
}

// canonicalize sets unset fields from the job's update block, if any, or to the defaults.
func (u *UpdateStrategy) canonicalize(job *UpdateStrategy) {
	if job == nil {
		job = &UpdateStrategy{}
	}
	inherit(&u.Stagger, job.Stagger, 30*time.Second)
	inherit(&u.MaxParallel, job.MaxParallel, 1)
	inherit(&u.HealthCheck, job.HealthCheck, "checks")
	inherit(&u.MinHealthyTime, job.MinHealthyTime, 10*time.Second)
	inherit(&u.HealthyDeadline, job.HealthyDeadline, 5*time.Minute)
	inherit(&u.ProgressDeadline, job.ProgressDeadline, 10*time.Minute)
	inherit(&u.Canary, job.Canary, 0)
	inherit(&u.AutoRevert, job.AutoRevert, false)
	inherit(&u.AutoPromote, job.AutoPromote, false)
}

// rescheduleDefaults returns the defaults for the job type, or zero for types that are
// never rescheduled.
func rescheduleDefaults(jobType string) ReschedulePolicy {
	switch jobType {
	case JobTypeService:
		return ReschedulePolicy{
			Attempts: new(0), Interval: new(time.Duration(0)), Delay: new(30 * time.Second),
			DelayFunction: new("exponential"), MaxDelay: new(time.Hour), Unlimited: new(true),
		}
	case JobTypeBatch:
		return ReschedulePolicy{
			Attempts: new(1), Interval: new(24 * time.Hour), Delay: new(5 * time.Second),
			DelayFunction: new("constant"), MaxDelay: new(time.Duration(0)), Unlimited: new(false),
		}
	}
	return ReschedulePolicy{
		Attempts: new(0), Interval: new(time.Duration(0)), Delay: new(time.Duration(0)),
		DelayFunction: new(""), MaxDelay: new(time.Duration(0)), Unlimited: new(false),
	}
}

// canonicalize sets unset fields from the job's reschedule block, if any, or to the
// defaults of the job type. If attempts is set, unlimited is false.
func (r *ReschedulePolicy) canonicalize(job *ReschedulePolicy, jobType string) {
	if job == nil {
		job = &ReschedulePolicy{}
	}
	d := rescheduleDefaults(jobType)
	attempts := r.Attempts
	if attempts == nil {
		attempts = job.Attempts
	}
	if attempts != nil && *attempts > 0 {
		d.Unlimited = new(false)
	}
	inherit(&r.Attempts, job.Attempts, *d.Attempts)
	inherit(&r.Interval, job.Interval, *d.Interval)
	inherit(&r.Delay, job.Delay, *d.Delay)
	inherit(&r.DelayFunction, job.DelayFunction, *d.DelayFunction)
	inherit(&r.MaxDelay, job.MaxDelay, *d.MaxDelay)
	inherit(&r.Unlimited, job.Unlimited, *d.Unlimited)
}

func (m *MigrateStrategy) canonicalize(job *MigrateStrategy) {
	if job == nil {
		job = &MigrateStrategy{}
	}
	inherit(&m.MaxParallel, job.MaxParallel, 1)
	inherit(&m.HealthCheck, job.HealthCheck, "checks")
	inherit(&m.MinHealthyTime, job.MinHealthyTime, 10*time.Second)
	inherit(&m.HealthyDeadline, job.HealthyDeadline, 5*time.Minute)
}

// restartDefaults returns the defaults for the job type.
func restartDefaults(jobType string) *RestartPolicy {
	r := &RestartPolicy{
		Attempts: new(2), Interval: new(30 * time.Minute), Delay: new(15 * time.Second),
		Mode: new(RestartPolicyModeFail), RenderTemplates: new(false),
	}
	if jobType == JobTypeBatch || jobType == JobTypeSysbatch {
		r.Attempts, r.Interval = new(3), new(24*time.Hour)
	}
	return r
}

// canonicalize sets unset fields from parent, which has all fields.
func (r *RestartPolicy) canonicalize(parent *RestartPolicy) {
	orDefault(&r.Attempts, *parent.Attempts)
	orDefault(&r.Interval, *parent.Interval)
	orDefault(&r.Delay, *parent.Delay)
	orDefault(&r.Mode, *parent.Mode)
	orDefault(&r.RenderTemplates, *parent.RenderTemplates)
}

// DefaultUpdateStrategy returns the update block of a job without one.
func DefaultUpdateStrategy() *UpdateStrategy {
	out := &UpdateStrategy{}
	out.canonicalize(nil)
	return out
}

// DefaultMigrateStrategy returns the migrate block of a group without one.
func DefaultMigrateStrategy() *MigrateStrategy {
	out := &MigrateStrategy{}
	out.canonicalize(nil)
	return out
}

// NewDefaultReschedulePolicy returns the reschedule block of a group without one, for a type of jobs.
func NewDefaultReschedulePolicy(jobType string) *ReschedulePolicy {
	out := &ReschedulePolicy{}
	out.canonicalize(nil, jobType)
	return out
}

// DefaultLogConfig returns the logs block of a task without one.
func DefaultLogConfig() *LogConfig {
	out := &LogConfig{}
	out.canonicalize()
	return out
}

// DefaultResources returns the resources of a task without a resources block.
func DefaultResources() *Resources {
	out := &Resources{}
	out.Canonicalize()
	return out
}
