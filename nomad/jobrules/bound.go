package jobrules

import (
	"fmt"
	"maps"
	"strings"

	"github.com/open-nomad/open-nomad/nomad"
)

// Bounds of a job. Below them, each step of registration takes little time and memory, whatever the job is. They are
// above the limits of Validate, whose errors are more exact.
const (
	maxParts       = 5_000 // groups and tasks: each takes thousands of bytes with its defaults
	maxConditions  = 5_000 // constraints, affinities and spreads
	maxBoundedID   = 2 << 10
	maxBoundedName = 256
	maxMetaKeys    = 5_000 // of dispatches
	maxVariables   = 8     // in the name of a service, such as ${JOB}
	maxMesh        = 1_000 // services with a connect block and exposed checks: the servers add a task or a port for each
)

// bounds checks the texts that are repeated in the names and messages of other parts of the job.
type bounds struct {
	err                     error
	parts, conditions, mesh int
}

// Bound returns an error if a job is too large for Canonicalize and Validate.
func Bound(j *nomad.Job) error {
	var b bounds
	b.text("ID", j.ID, maxBoundedID)
	b.text("name", j.Name, maxBoundedID)
	for what, text := range map[string]string{"namespace": j.Namespace, "region": j.Region, "node_pool": j.NodePool, "type": j.Type} {
		b.text(what, text, maxBoundedName)
	}
	b.parts = len(j.TaskGroups)
	b.conditions = len(j.Constraints) + len(j.Affinities) + len(j.Spreads)
	for _, tg := range j.TaskGroups {
		b.group(tg)
	}
	if p := j.ParameterizedJob; p != nil && len(p.MetaRequired)+len(p.MetaOptional) > maxMetaKeys && b.err == nil {
		b.err = fmt.Errorf("the parameterized block lists %d meta keys: the limit is %d", len(p.MetaRequired)+len(p.MetaOptional), maxMetaKeys)
	}
	if b.err == nil && b.parts > maxParts {
		b.err = fmt.Errorf("the job has %d groups and tasks: the limit is %d", b.parts, maxParts)
	}
	if b.err == nil && b.conditions > maxConditions {
		b.err = fmt.Errorf("the job has %d constraints, affinities and spreads: the limit is %d", b.conditions, maxConditions)
	}
	if b.err == nil && b.mesh > maxMesh {
		b.err = fmt.Errorf("the job has %d services with a connect block and exposed checks: the limit is %d", b.mesh, maxMesh)
	}
	return b.err
}

func (b *bounds) group(tg *nomad.TaskGroup) {
	if b.null("group", tg == nil) {
		return
	}
	b.text("name of a group", tg.Name, maxBoundedName)
	for _, n := range tg.Networks {
		if b.null("network", n == nil) {
			return
		}
		b.text("mode of a network", n.Mode, maxBoundedName)
	}
	for name := range maps.Keys(tg.Volumes) {
		b.text("name of a volume", name, maxBoundedName)
	}
	b.services(tg.Services)
	b.parts += len(tg.Tasks)
	b.conditions += len(tg.Constraints) + len(tg.Affinities) + len(tg.Spreads)
	for _, t := range tg.Tasks {
		if b.null("task", t == nil) {
			return
		}
		b.text("name of a task", t.Name, maxBoundedName)
		b.text("driver of a task", t.Driver, maxBoundedName)
		b.services(t.Services)
		b.conditions += len(t.Constraints) + len(t.Affinities)
	}
}

func (b *bounds) services(list []*nomad.Service) {
	for _, s := range list {
		if s == nil {
			continue
		}
		b.text("name of a service", s.Name, maxBoundedName)
		if n := strings.Count(s.Name, "${"); b.err == nil && n > maxVariables {
			b.err = fmt.Errorf("the name of a service has %d variables: the limit is %d", n, maxVariables)
		}
		if s.Connect == nil {
			continue
		}
		b.mesh++
		for _, c := range s.Checks {
			if c != nil && c.Expose {
				b.mesh++
			}
		}
	}
}

// null records and reports a null. The HTTP API refuses them, so that one comes from another caller of the RPC.
func (b *bounds) null(what string, null bool) bool {
	if null && b.err == nil {
		b.err = fmt.Errorf("a %s of the job is null", what)
	}
	return null
}

func (b *bounds) text(what, text string, limit int) {
	if b.err == nil && len(text) > limit {
		b.err = fmt.Errorf("the %s has %d bytes: the limit is %d", what, len(text), limit)
	}
}
