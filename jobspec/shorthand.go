package jobspec

import (
	"strconv"
	"strings"

	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/open-nomad/open-nomad/api"
)

// decodeShort reads a block whose text holds more than the fields of its struct, and
// says whether dst is one.
func (p *parser) decodeShort(b block, dst any) bool {
	switch dst := dst.(type) {
	case *api.Job:
		p.decodeJob(b, dst)
	case *api.TaskGroup:
		p.decodeGroup(b, dst)
	case *api.Task:
		p.decodeTask(b, dst)
	case *api.Constraint:
		p.decodeConstraint(b, dst)
	case *api.Affinity:
		p.decodeAffinity(b, dst)
	case *api.NetworkResource:
		p.decodeNetwork(b, dst)
	case *api.PeriodicConfig:
		p.decodePeriodic(b, dst)
	case *api.ScalingPolicy:
		p.decodeScaling(b, dst, "horizontal")
	case *labeledScaling:
		p.decodeTaskScaling(b, dst)
	default:
		return false
	}
	return true
}

// job decodes the job block.
func (p *parser) job(blk *hclsyntax.Block) *api.Job {
	job := &api.Job{}
	p.decodeJob(block{kind: blk.Type, labels: blk.Labels, body: blk.Body, scope: p.root, at: blk.DefRange()}, job)
	if p.diags.HasErrors() {
		return nil
	}
	if job.ID == nil {
		job.ID = &blk.Labels[0]
	}
	if job.Name == nil {
		job.Name = new(*job.ID)
	}
	return job
}

// decodeJob reads a job. A task written in it is a group of its own; vault and
// secret blocks go to every task.
func (p *parser) decodeJob(b block, job *api.Job) {
	var extra struct {
		Vault   *api.Vault    `hcl:"vault,block"`
		Tasks   []*api.Task   `hcl:"task,block"`
		Secrets []*api.Secret `hcl:"secret,block"`
	}
	p.decode(b, job, &extra)
	for _, t := range extra.Tasks {
		job.TaskGroups = append(job.TaskGroups, &api.TaskGroup{Name: new(t.Name), Tasks: []*api.Task{t}})
	}
	for _, g := range job.TaskGroups {
		for _, t := range g.Tasks {
			if t.Vault == nil && extra.Vault != nil {
				t.Vault = new(*extra.Vault)
			}
			for _, s := range extra.Secrets {
				t.Secrets = append(t.Secrets, new(*s))
			}
		}
	}
}

// decodeGroup reads a group. Its vault block goes to tasks without one, its
// secret blocks to tasks without any.
func (p *parser) decodeGroup(b block, g *api.TaskGroup) {
	var extra struct {
		Vault   *api.Vault    `hcl:"vault,block"`
		Secrets []*api.Secret `hcl:"secret,block"`
	}
	p.decode(b, g, &extra)
	for _, t := range g.Tasks {
		if t.Vault == nil && extra.Vault != nil {
			t.Vault = new(*extra.Vault)
		}
		if len(t.Secrets) == 0 {
			for _, s := range extra.Secrets {
				t.Secrets = append(t.Secrets, new(*s))
			}
		}
	}
}

// labeledScaling is the scaling block of a task, whose label says what it scales.
type labeledScaling struct {
	Label string `hcl:",label"`
	api.ScalingPolicy
}

// decodeTask reads a task. The identity without a name, or named default, is the
// task's own.
func (p *parser) decodeTask(b block, t *api.Task) {
	var extra struct {
		Scaling []*labeledScaling `hcl:"scaling,block"`
	}
	p.decode(b, t, &extra)
	for _, s := range extra.Scaling {
		t.ScalingPolicies = append(t.ScalingPolicies, &s.ScalingPolicy)
	}
	for _, c := range t.Constraints {
		if c.Operand == api.ConstraintDistinctHosts || c.Operand == api.ConstraintDistinctProperty {
			p.errorf(p.at[c], "Invalid constraint", "The operator %s is not for tasks: move the constraint to the group or the job.", c.Operand)
		}
	}
	var named []*api.WorkloadIdentity
	for _, id := range t.Identities {
		if id.Name != "" && id.Name != "default" {
			named = append(named, id)
			continue
		}
		if t.Identity != nil {
			p.errorf(b.at, "Duplicate identity", "The task %q has two identity blocks without a name.", t.Name)
		}
		t.Identity = id
	}
	t.Identities = named
}

// decodeConstraint reads a constraint in its long form or as one shorthand.
func (p *parser) decodeConstraint(b block, c *api.Constraint) {
	var short struct {
		DistinctProperty *string `hcl:"distinct_property"`
		DistinctHosts    *bool   `hcl:"distinct_hosts"`
		Regexp           *string `hcl:"regexp"`
		Version          *string `hcl:"version"`
		Semver           *string `hcl:"semver"`
		SetContains      *string `hcl:"set_contains"`
		// These are accepted and do nothing: the operator is the way to say them.
		SetContainsAll *string `hcl:"set_contains_all"`
		SetContainsAny *string `hcl:"set_contains_any"`
		IsSet          *string `hcl:"is_set"`
		IsNotSet       *string `hcl:"is_not_set"`
	}
	p.decode(b, c, &short)
	p.at[c] = b.at
	if short.DistinctProperty != nil {
		c.Operand, c.LTarget = api.ConstraintDistinctProperty, *short.DistinctProperty
	}
	if short.DistinctHosts != nil {
		c.Operand, c.RTarget = api.ConstraintDistinctHosts, strconv.FormatBool(*short.DistinctHosts)
	}
	set := shorthandOf(&c.Operand, &c.RTarget)
	set(api.ConstraintRegex, short.Regexp)
	set(api.ConstraintVersion, short.Version)
	set(api.ConstraintSemver, short.Semver)
	set(api.ConstraintSetContains, short.SetContains)
	if c.Operand == "" {
		c.Operand = "="
	}
}

// shorthandOf returns what takes one shorthand, if it was given: its name is the
// operand, its value the target.
func shorthandOf(operand, target *string) func(name string, value *string) {
	return func(name string, value *string) {
		if value != nil {
			*operand, *target = name, *value
		}
	}
}

// decodeAffinity reads an affinity in its long form or as one shorthand.
func (p *parser) decodeAffinity(b block, a *api.Affinity) {
	var short struct {
		Regexp         *string `hcl:"regexp"`
		Version        *string `hcl:"version"`
		Semver         *string `hcl:"semver"`
		SetContains    *string `hcl:"set_contains"`
		SetContainsAll *string `hcl:"set_contains_all"`
		SetContainsAny *string `hcl:"set_contains_any"`
	}
	p.decode(b, a, &short)
	set := shorthandOf(&a.Operand, &a.RTarget)
	set(api.ConstraintRegex, short.Regexp)
	set(api.ConstraintVersion, short.Version)
	set(api.ConstraintSemver, short.Semver)
	set(api.ConstraintSetContains, short.SetContains)
	set(api.ConstraintSetContainsAll, short.SetContainsAll)
	set(api.ConstraintSetContainsAny, short.SetContainsAny)
	if a.Operand == "" {
		a.Operand = "="
	}
}

// decodeNetwork reads a network. A port with a static number is reserved, any
// other is dynamic.
func (p *parser) decodeNetwork(b block, n *api.NetworkResource) {
	var extra struct {
		Ports []api.Port `hcl:"port,block"`
	}
	p.decode(b, n, &extra)
	for _, port := range extra.Ports {
		if port.Value > 0 {
			n.ReservedPorts = append(n.ReservedPorts, port)
		} else {
			n.DynamicPorts = append(n.DynamicPorts, port)
		}
	}
}

// decodePeriodic reads a periodic block; a cron expression says what kind it is.
func (p *parser) decodePeriodic(b block, c *api.PeriodicConfig) {
	p.decode(b, c)
	if c.Spec != nil && c.Specs != nil {
		p.errorf(b.at, "Invalid periodic block", "It has cron and crons: give one of them.")
	}
	if c.Spec != nil || c.Specs != nil {
		c.SpecType = new(api.PeriodicSpecCron)
	}
}

// decodeTaskScaling reads a scaling block of a task.
func (p *parser) decodeTaskScaling(b block, s *labeledScaling) {
	s.Label = b.labels[0]
	kind := strings.ToLower(s.Label)
	if kind != "cpu" && kind != "mem" {
		p.errorf(b.at, "Invalid scaling block", "The label of a task's scaling block is cpu or mem, not %q.", s.Label)
		return
	}
	p.decodeScaling(b, &s.ScalingPolicy, "vertical_"+kind)
}

// decodeScaling reads a scaling block, which has one valid type where it is.
func (p *parser) decodeScaling(b block, s *api.ScalingPolicy, kind string) {
	p.decode(b, s)
	if s.Type == "" {
		s.Type = kind
	}
	if s.Type != kind {
		p.errorf(b.at, "Invalid scaling block", "The type of this scaling block is %s, not %q.", kind, s.Type)
	}
	switch {
	case s.Max == nil && b.body.Attributes["max"] == nil:
		p.errorf(b.at, "Invalid scaling block", "max is missing: it bounds what an autoscaler may set.")
	case s.Max == nil: // its value is wrong, as the decoder reported
	case *s.Max < 0 || s.Min != nil && *s.Min > *s.Max:
		p.errorf(b.at, "Invalid scaling block", "max must be 0 or more, and not less than min.")
	}
}
