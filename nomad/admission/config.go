package admission

import (
	"fmt"
	"maps"
	"slices"

	"github.com/open-nomad/open-nomad/internal/untrusted"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/kinds"
	"github.com/open-nomad/open-nomad/nomad/scheduler/feasible"
	"github.com/open-nomad/open-nomad/nomad/state"
	"github.com/open-nomad/open-nomad/plugins/drivers"
	"github.com/open-nomad/open-nomad/plugins/schema"
)

// configs are the results of checking the config blocks of a job against the schemas of drivers.
type configs struct {
	wrong []error  // blocks that no node accepts
	warns []string // blocks that some nodes accept
}

// checkConfigs checks the config blocks of a valid job. The schemas are those of the nodes that can
// run the group: in its node pool and datacenters, and of a class that meets its constraints. A node
// that does not report a schema, or one that the servers do not have, accepts every block. Without
// such nodes, the schema of the built-in kind counts.
func (v *View) checkConfigs(job *nomad.Job) (out configs) {
	classes := classesFor(v.snap, job)
	for _, tg := range job.TaskGroups {
		fits := suitable(classes, job, tg)
		schemas := map[string]map[string]int{} // by driver
		for _, t := range tg.Tasks {
			if schemas[t.Driver] == nil {
				schemas[t.Driver] = schemasOf(fits, t.Driver)
			}
			if len(schemas[t.Driver]) == 0 {
				out.builtin(v.names.Kind(t.Driver), Place{job, tg, t})
				continue
			}
			out.judge(v.judges(t, schemas[t.Driver]), Place{job, tg, t})
		}
	}
	return out
}

// builtin checks a block against the schema of a kind. A kind of nil is not known.
func (c *configs) builtin(k *drivers.Kind, p Place) {
	if k == nil || k.CheckTask != nil { // CheckTask has decoded the block
		return
	}
	c.refuse(schema.Check(p.Task.Config, k.TaskSpec), p)
}

func (c *configs) refuse(faults []schema.Fault, p Place) {
	for _, f := range faults {
		c.wrong = append(c.wrong, fmt.Errorf("%s: driver %q: %s", p, p.Task.Driver, f))
	}
}

// judgement is the verdict of the nodes on a block.
type judgement struct {
	nodes, refusing int
	faults          []schema.Fault // of the schema of most refusing nodes
}

// judges checks a block against the schemas, which map digests to counts of nodes.
func (v *View) judges(t *nomad.Task, schemas map[string]int) (out judgement) {
	stored := func(digest string) []byte {
		if d := v.snap.DriverSchema(nil, digest); d != nil {
			return d.Spec
		}
		return nil
	}
	most := 0
	for _, digest := range slices.Sorted(maps.Keys(schemas)) {
		n := schemas[digest]
		out.nodes += n
		faults, _ := v.cfg.Schemas.Faults(digest, t.Config, stored)
		if len(faults) == 0 {
			continue
		}
		if out.refusing += n; n > most {
			most, out.faults = n, faults
		}
	}
	return out
}

func (c *configs) judge(j judgement, p Place) {
	switch {
	case j.refusing == 0:
	case j.refusing == j.nodes:
		c.refuse(j.faults, p)
	default:
		c.warns = append(c.warns, fmt.Sprintf("%s: driver %q: %d of %d nodes do not accept the config and are not used: %s",
			p, p.Task.Driver, j.refusing, j.nodes, j.faults[0]))
	}
}

// class is one node of a computed class, and the count of its nodes.
type class struct {
	node  *nomad.Node
	count int
}

// classesFor returns the classes of the nodes in the pool and the datacenters of a job. Nodes of a
// class have the same attributes, and so the same schemas. The status of nodes does not count: they
// may come back.
func classesFor(snap *state.Snapshot, job *nomad.Job) map[string]*class {
	out := map[string]*class{}
	for n := range snap.NodesByPool(nil, job.NodePool) {
		key := n.ComputedClass
		if key == "" {
			key = n.ID
		}
		if known := out[key]; known != nil {
			known.count++
		} else if inDatacenters(n, job) {
			out[key] = &class{n, 1}
		}
	}
	return out
}

func inDatacenters(n *nomad.Node, job *nomad.Job) bool {
	return len(job.Datacenters) == 0 || slices.ContainsFunc(job.Datacenters, func(p string) bool { return untrusted.GlobMatch(p, n.Datacenter) })
}

// suitable returns the classes that meet the constraints of a group.
func suitable(classes map[string]*class, job *nomad.Job, tg *nomad.TaskGroup) (out []*class) {
	constraints := feasible.NewConstraints(job, tg)
	for _, c := range classes {
		if constraints.Met(c.node) {
			out = append(out, c)
		}
	}
	return out
}

// schemasOf returns the digests of the schemas of a driver on the nodes that have it, with the counts
// of nodes. It is empty if no node has it.
func schemasOf(classes []*class, driver string) map[string]int {
	out := map[string]int{}
	for _, c := range classes {
		if info := c.node.Drivers[driver]; info != nil && info.Detected {
			out[c.node.SchemaDigest(driver)] += c.count
		}
	}
	return out
}

// builtinConfigs checks the config blocks of a job against the schemas of the built-in kinds.
func builtinConfigs(job *nomad.Job, names *kinds.Names) []error {
	var out configs
	for _, p := range Places(job) {
		out.builtin(names.Kind(p.Task.Driver), p)
	}
	return out.wrong
}
