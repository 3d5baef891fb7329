package api

import "maps"

// NewServiceJob returns a service job without groups.
func NewServiceJob(id, name, region string, pri int) *Job {
	return newJob(id, name, region, pri).ofType(JobTypeService)
}

// NewBatchJob returns a batch job without groups.
func NewBatchJob(id, name, region string, pri int) *Job {
	return newJob(id, name, region, pri).ofType(JobTypeBatch)
}

// NewSystemJob returns a system job without groups.
func NewSystemJob(id, name, region string, pri int) *Job {
	return newJob(id, name, region, pri).ofType(JobTypeSystem)
}

// NewSysbatchJob returns a sysbatch job without groups.
func NewSysbatchJob(id, name, region string, pri int) *Job {
	return newJob(id, name, region, pri).ofType(JobTypeSysbatch)
}

// ofType sets the type and returns the job.
func (j *Job) ofType(kind string) *Job {
	j.Type = &kind
	return j
}

func newJob(id, name, region string, priority int) *Job {
	return &Job{ID: &id, Name: &name, Region: &region, Priority: &priority}
}

// AddDatacenter adds a datacenter and returns the job.
func (j *Job) AddDatacenter(dc string) *Job {
	j.Datacenters = append(j.Datacenters, dc)
	return j
}

// SetMeta sets a value of the metadata and returns the job.
func (j *Job) SetMeta(key, val string) *Job {
	j.Meta = withMeta(j.Meta, key, val)
	return j
}

// Constrain adds a constraint and returns the job.
func (j *Job) Constrain(c *Constraint) *Job {
	j.Constraints = append(j.Constraints, c)
	return j
}

// AddAffinity adds an affinity and returns the job.
func (j *Job) AddAffinity(a *Affinity) *Job {
	j.Affinities = append(j.Affinities, a)
	return j
}

// AddSpread adds a spread and returns the job.
func (j *Job) AddSpread(s *Spread) *Job {
	j.Spreads = append(j.Spreads, s)
	return j
}

// AddTaskGroup adds a group and returns the job.
func (j *Job) AddTaskGroup(grp *TaskGroup) *Job {
	j.TaskGroups = append(j.TaskGroups, grp)
	return j
}

// AddPeriodicConfig makes the job periodic and returns it.
func (j *Job) AddPeriodicConfig(cfg *PeriodicConfig) *Job {
	j.Periodic = cfg
	return j
}

// IsPeriodic reports whether the job has a periodic block.
func (j *Job) IsPeriodic() bool { return j.Periodic != nil }

// IsParameterized reports whether the job is parameterized and not a dispatched instance.
func (j *Job) IsParameterized() bool { return j.ParameterizedJob != nil && !j.Dispatched }

// IsMultiregion reports whether the job lists regions.
func (j *Job) IsMultiregion() bool { return j.Multiregion != nil && len(j.Multiregion.Regions) > 0 }

// LookupTaskGroup returns the group with the name, or nil.
func (j *Job) LookupTaskGroup(name string) *TaskGroup {
	for _, g := range j.TaskGroups {
		if g.Name != nil && *g.Name == name {
			return g
		}
	}
	return nil
}

// GetScalingPoliciesPerTaskGroup returns the scaling policies of groups, by the name of the group.
func (j *Job) GetScalingPoliciesPerTaskGroup() map[string]*ScalingPolicy {
	out := map[string]*ScalingPolicy{}
	for _, g := range j.TaskGroups {
		if g.Scaling != nil {
			out[*g.Name] = g.Scaling
		}
	}
	return out
}

// NewTaskGroup returns a group without tasks.
func NewTaskGroup(name string, count int) *TaskGroup { return &TaskGroup{Name: &name, Count: &count} }

// Constrain adds a constraint and returns the group.
func (g *TaskGroup) Constrain(c *Constraint) *TaskGroup {
	g.Constraints = append(g.Constraints, c)
	return g
}

// AddAffinity adds an affinity and returns the group.
func (g *TaskGroup) AddAffinity(a *Affinity) *TaskGroup {
	g.Affinities = append(g.Affinities, a)
	return g
}

// AddSpread adds a spread and returns the group.
func (g *TaskGroup) AddSpread(s *Spread) *TaskGroup {
	g.Spreads = append(g.Spreads, s)
	return g
}

// AddTask adds a task and returns the group.
func (g *TaskGroup) AddTask(t *Task) *TaskGroup {
	g.Tasks = append(g.Tasks, t)
	return g
}

// SetMeta sets a value of the metadata and returns the group.
func (g *TaskGroup) SetMeta(key, val string) *TaskGroup {
	g.Meta = withMeta(g.Meta, key, val)
	return g
}

// RequireDisk sets the ephemeral disk and returns the group.
func (g *TaskGroup) RequireDisk(disk *EphemeralDisk) *TaskGroup {
	g.EphemeralDisk = disk
	return g
}

// ScalingPolicy sets the scaling policy and returns the group.
func (g *TaskGroup) ScalingPolicy(sp *ScalingPolicy) *TaskGroup {
	g.Scaling = sp
	return g
}

// NewTask returns a task of a driver.
func NewTask(name, driver string) *Task { return &Task{Name: name, Driver: driver} }

// Constrain adds a constraint and returns the task.
func (t *Task) Constrain(c *Constraint) *Task {
	t.Constraints = append(t.Constraints, c)
	return t
}

// AddAffinity adds an affinity and returns the task.
func (t *Task) AddAffinity(a *Affinity) *Task {
	t.Affinities = append(t.Affinities, a)
	return t
}

// SetConfig sets a value of the driver's configuration and returns the task.
func (t *Task) SetConfig(key string, val any) *Task {
	if t.Config == nil {
		t.Config = map[string]any{}
	}
	t.Config[key] = val
	return t
}

// SetMeta sets a value of the metadata and returns the task.
func (t *Task) SetMeta(key, val string) *Task {
	t.Meta = withMeta(t.Meta, key, val)
	return t
}

// Require sets the resources and returns the task.
func (t *Task) Require(r *Resources) *Task {
	t.Resources = r
	return t
}

// SetLogConfig sets the log files and returns the task.
func (t *Task) SetLogConfig(l *LogConfig) *Task {
	t.LogConfig = l
	return t
}

// SetLifecycle sets the lifecycle and returns the task.
func (t *Task) SetLifecycle(l *TaskLifecycle) *Task {
	t.Lifecycle = l
	return t
}

// NewConstraint returns a constraint.
func NewConstraint(left, operand, right string) *Constraint {
	return &Constraint{LTarget: left, Operand: operand, RTarget: right}
}

// NewAffinity returns an affinity.
func NewAffinity(lTarget, operand, rTarget string, weight int8) *Affinity {
	return &Affinity{LTarget: lTarget, Operand: operand, RTarget: rTarget, Weight: &weight}
}

// NewSpread returns a spread.
func NewSpread(attribute string, weight int8, spreadTargets []*SpreadTarget) *Spread {
	return &Spread{Attribute: attribute, Weight: &weight, SpreadTarget: spreadTargets}
}

// NewSpreadTarget returns the target of a spread for one value.
func NewSpreadTarget(value string, percent uint8) *SpreadTarget {
	return &SpreadTarget{Value: value, Percent: percent}
}

func withMeta(meta map[string]string, key, val string) map[string]string {
	out := maps.Clone(meta)
	if out == nil {
		out = map[string]string{}
	}
	out[key] = val
	return out
}
