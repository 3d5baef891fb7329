package jobspec

import (
	"strconv"
	"strings"

	"github.com/hashicorp/hcl/v2/hclsyntax"

	"github.com/open-nomad/open-nomad/api"
)

// decodeShort decodes blocks whose syntax differs from the fields of their struct. It
// reports whether dst is the struct of such a block.
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

// decodeJob decodes a job. A task outside a group becomes a group of its own. The vault
// and secret blocks of the job apply to every task.
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

// decodeGroup decodes a group. Its vault block applies to tasks without a vault block. Its
// secret blocks apply to every task, unlike in Nomad, which repeats those of a task that has some.
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
		for _, s := range extra.Secrets {
			t.Secrets = append(t.Secrets, new(*s))
		}
	}
}

// labeledScaling is the scaling block of a task. Its label is the resource to scale.
type labeledScaling struct {
	Label string `hcl:",label"`
	api.ScalingPolicy
}

// decodeTask decodes a task. An identity without a name, or named default, is the
// default identity.
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
			p.errorf(p.at[c], "Invalid constraint", "The operator %s is not allowed in a task: move the constraint to the group or the job.",
				c.Operand)
		}
	}
	var named []*api.WorkloadIdentity
	for _, id := range t.Identities {
		if id.Name != "" && id.Name != "default" {
			named = append(named, id)
			continue
		}
		if t.Identity != nil {
			p.errorf(b.at, "Duplicate identity", "The task %q has more than one identity block without a name.", t.Name)
		}
		t.Identity = id
	}
	t.Identities = named
}

// decodeConstraint decodes a constraint, in the long form or as one shorthand.
func (p *parser) decodeConstraint(b block, c *api.Constraint) {
	var short struct {
		DistinctProperty *string `hcl:"distinct_property"`
		DistinctHosts    *bool   `hcl:"distinct_hosts"`
		Regexp           *string `hcl:"regexp"`
		Version          *string `hcl:"version"`
		Semver           *string `hcl:"semver"`
		SetContains      *string `hcl:"set_contains"`
		// These are accepted and ignored: only the operator has an effect.
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

// shorthandOf returns a function that sets operand and target to the name and the value
// of a shorthand, if it is set.
func shorthandOf(operand, target *string) func(name string, value *string) {
	return func(name string, value *string) {
		if value != nil {
			*operand, *target = name, *value
		}
	}
}

// decodeAffinity decodes an affinity, in the long form or as one shorthand.
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

// decodeNetwork decodes a network. A port with a static number is reserved, other ports
// are dynamic.
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

// decodePeriodic decodes a periodic block. A cron expression sets the spec type to cron.
func (p *parser) decodePeriodic(b block, c *api.PeriodicConfig) {
	p.decode(b, c)
	if c.Spec != nil && c.Specs != nil {
		p.errorf(b.at, "Invalid periodic block", "cron and crons are mutually exclusive.")
	}
	if c.Spec != nil || c.Specs != nil {
		c.SpecType = new(api.PeriodicSpecCron)
	}
}

// decodeTaskScaling decodes a scaling block of a task.
func (p *parser) decodeTaskScaling(b block, s *labeledScaling) {
	s.Label = b.labels[0]
	kind := strings.ToLower(s.Label)
	if kind != "cpu" && kind != "mem" {
		p.errorf(b.at, "Invalid scaling block", "The label of a task's scaling block must be cpu or mem, not %q.", s.Label)
		return
	}
	p.decodeScaling(b, &s.ScalingPolicy, "vertical_"+kind)
}

// decodeScaling decodes a scaling block. Its type must be kind, or empty.
func (p *parser) decodeScaling(b block, s *api.ScalingPolicy, kind string) {
	p.decode(b, s)
	if s.Type == "" {
		s.Type = kind
	}
	if s.Type != kind {
		p.errorf(b.at, "Invalid scaling block", "The type of this scaling block must be %s, not %q.", kind, s.Type)
	}
	switch {
	case s.Max == nil && b.body.Attributes["max"] == nil:
		p.errorf(b.at, "Invalid scaling block", "max is required.")
	case s.Max == nil: // the decoder reported an invalid value
	case *s.Max < 0 || s.Min != nil && *s.Min > *s.Max:
		p.errorf(b.at, "Invalid scaling block", "max must be 0 or more, and not less than min.")
	}
}
