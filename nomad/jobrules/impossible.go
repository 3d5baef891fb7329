package jobrules

import (
	"fmt"
	"slices"
	"strings"

	"github.com/open-nomad/open-nomad/internal/untrusted"
	"github.com/open-nomad/open-nomad/nomad"
)

// requirements collects what the constraints of one allocation require of a node, by attribute. They are
// impossible if no node can meet all of them, whatever its attributes. Only contradictions in the form of
// the constraints are found: orders of numbers, regular expressions and sets are not compared.
type requirements struct {
	of  map[string]*requirement
	job map[string]*requirement // of the job, for a group: a requirement is copied when the group adds to it
}

// requirement is what constraints require of one attribute.
type requirement struct {
	is     string // the required value, if isSet
	isSet  bool
	not    []string
	unset  bool      // must not be set
	set    string    // the operator that requires the attribute, or ""
	ranges [2]string // of the operators version and semver
}

// impossible returns a warning for each group whose constraints no node can meet. The constraints of a group and its
// tasks apply to the node together with those of the job. Such a job is registered, and waits.
func impossible(j *nomad.Job) []string {
	var list []error
	f := &faults{place: fmt.Sprintf("job %q", untrusted.Shorten(j.ID, maxShown)), list: &list}
	all := requirements{of: map[string]*requirement{}}
	if all.addAll(j.Constraints, f) {
		for _, tg := range j.TaskGroups {
			group := requirements{of: map[string]*requirement{}, job: all.of}
			in := f.in("group", tg.Name)
			ok := group.addAll(tg.Constraints, in)
			for _, t := range tg.Tasks {
				ok = ok && group.addAll(t.Constraints, in.in("task", t.Name))
			}
		}
	}
	out := make([]string, len(list))
	for i, err := range list {
		out[i] = err.Error()
	}
	return out
}

// addAll adds constraints until one is impossible. It reports whether all are possible.
func (r requirements) addAll(list []*nomad.Constraint, f *faults) bool {
	for _, c := range list {
		if why := r.add(c); why != "" {
			f.add("the constraint %q is impossible, so the group is never placed: %s", strings.TrimSpace(c.LTarget+" "+c.Operand+" "+c.RTarget), why)
			return false
		}
	}
	return true
}

// add adds a constraint and returns why it is impossible, or "".
func (r requirements) add(c *nomad.Constraint) string {
	switch c.Operand {
	case nomad.ConstraintDistinctHosts, nomad.ConstraintDistinctProperty:
		return ""
	case nomad.ConstraintVersion, nomad.ConstraintSemver:
		if !reference(c.RTarget) && empty(c.Operand, c.RTarget) {
			return "no version is in this range"
		}
	}
	if !reference(c.LTarget) {
		return r.addText(c)
	}
	if needsValue(c.Operand) && !resolvable(c.LTarget) {
		return "nodes have no " + c.LTarget + ": use ${attr.NAME}, ${meta.NAME} or a property such as ${node.class}"
	}
	if reference(c.RTarget) {
		return ""
	}
	q := r.of[c.LTarget]
	if q == nil {
		q = &requirement{}
		if common := r.job[c.LTarget]; common != nil {
			*q = *common
			q.not = slices.Clip(q.not)
		}
		r.of[c.LTarget] = q
	}
	return q.add(c)
}

// addText handles a constraint whose attribute is not a reference, so that it is the same on all nodes.
func (r requirements) addText(c *nomad.Constraint) string {
	if reference(c.RTarget) {
		return ""
	}
	const why = "its attribute is a text and not a reference such as ${attr.NAME}"
	switch c.Operand {
	case "", "=", "==", "is":
		if c.LTarget != c.RTarget {
			return why
		}
	case "!=", "not":
		if c.LTarget == c.RTarget {
			return why
		}
	case nomad.ConstraintAttributeIsNotSet:
		return why
	}
	return ""
}

// add adds a constraint on the attribute and returns why it contradicts earlier ones, or "".
func (q *requirement) add(c *nomad.Constraint) string {
	if needsValue(c.Operand) {
		if q.unset {
			return "another constraint requires that " + c.LTarget + " is not set"
		}
		q.set = c.Operand
	}
	switch c.Operand {
	case "", "=", "==", "is":
		return q.equal(c)
	case "!=", "not":
		if q.isSet && q.is == c.RTarget {
			return "another constraint requires this value"
		}
		q.not = append(q.not, c.RTarget)
	case nomad.ConstraintAttributeIsNotSet:
		if q.set != "" {
			return "another constraint requires that " + c.LTarget + " is set"
		}
		q.unset = true
	case nomad.ConstraintVersion:
		return q.within(0, c)
	case nomad.ConstraintSemver:
		return q.within(1, c)
	}
	return ""
}

// equal adds a constraint that requires one value.
func (q *requirement) equal(c *nomad.Constraint) string {
	if q.isSet && q.is != c.RTarget {
		return "another constraint requires the value \"" + q.is + "\""
	}
	for _, not := range q.not {
		if not == c.RTarget {
			return "another constraint excludes this value"
		}
	}
	q.is, q.isSet = c.RTarget, true
	return ""
}

// within adds a range of versions.
func (q *requirement) within(kind int, c *nomad.Constraint) string {
	joined := c.RTarget
	if q.ranges[kind] != "" {
		joined = q.ranges[kind] + ", " + c.RTarget
	}
	if strings.Count(joined, ",") >= maxBounds { // too many to compare
		return ""
	}
	if empty(c.Operand, joined) {
		return "with the other constraints on " + c.LTarget + ", no version is in its range"
	}
	q.ranges[kind] = joined
	return ""
}

// needsValue reports whether the operator holds only on nodes that have the attribute.
func needsValue(operand string) bool {
	switch operand {
	case "!=", "not", nomad.ConstraintAttributeIsNotSet:
		return false
	}
	return true
}

// reference reports whether a side of a constraint is read from the node. Everything else is a text.
func reference(side string) bool {
	return strings.HasPrefix(side, "${") && strings.HasSuffix(side, "}")
}

// resolvable reports whether nodes can have the reference.
func resolvable(side string) bool {
	root, _, found := strings.Cut(strings.TrimPrefix(side, "${"), ".")
	return found && (root == "attr" || root == "meta" || root == "node")
}
