package feasible

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/hashicorp/go-version"

	"github.com/open-nomad/open-nomad/internal/parsed"
	"github.com/open-nomad/open-nomad/internal/untrusted"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/nodeclass"
)

// Constraint is a compiled constraint or affinity: two targets and an operator. It caches parsed
// values, so that checking many nodes is cheap.
type Constraint struct {
	text        string
	left, right Target
	unique      bool
	holds       relation
}

// relation reports whether the operator holds for left and right. lok and rok report whether the
// node has the values.
type relation func(left, right string, lok, rok bool) bool

// Compile prepares a constraint for many nodes. It returns an error for an unknown operand, an
// invalid expression or an invalid version range; such a constraint holds on no node.
func Compile(left, operand, right string) (*Constraint, error) {
	c := &Constraint{
		text:   strings.TrimSpace(left + " " + operand + " " + right),
		left:   ParseTarget(left),
		right:  ParseTarget(right),
		unique: nodeclass.IsUniqueTarget(left) || nodeclass.IsUniqueTarget(right),
		holds:  never,
	}
	build, ok := relations[operand]
	if !ok {
		return c, fmt.Errorf("constraint %q: unknown operand %q", c.text, operand)
	}
	literal := ""
	if !c.right.node {
		literal = right
	}
	holds, err := build(literal)
	if err != nil {
		return c, fmt.Errorf("constraint %q: %w", c.text, err)
	}
	c.holds = holds
	return c, nil
}

// String returns the constraint as written in the job.
func (c *Constraint) String() string { return c.text }

// Unique reports whether the constraint may differ between nodes of one computed class.
func (c *Constraint) Unique() bool { return c.unique }

// Holds reports whether the node satisfies the constraint.
func (c *Constraint) Holds(n *nomad.Node) bool {
	l, lok := c.left.Value(n)
	r, rok := c.right.Value(n)
	return c.holds(l, r, lok, rok)
}

// Found returns the values that the constraint reads from the node.
func (c *Constraint) Found(n *nomad.Node) string {
	var out []string
	for _, t := range []Target{c.left, c.right} {
		if !t.node {
			continue
		}
		if v, ok := t.Value(n); ok {
			out = append(out, fmt.Sprintf("%s is %q", t.text, v))
		} else {
			out = append(out, t.text+" is not set")
		}
	}
	return strings.Join(out, ", ")
}

// relations maps each operand to its builder. The builder gets the right side if it is a literal,
// and rejects one that cannot be parsed.
var relations = map[string]func(literal string) (relation, error){
	"=":                               plain(equal),
	"==":                              plain(equal),
	"is":                              plain(equal),
	"!=":                              plain(unequal),
	"not":                             plain(unequal),
	"<":                               plain(ordered(func(c int) bool { return c < 0 })),
	"<=":                              plain(ordered(func(c int) bool { return c <= 0 })),
	">":                               plain(ordered(func(c int) bool { return c > 0 })),
	">=":                              plain(ordered(func(c int) bool { return c >= 0 })),
	nomad.ConstraintAttributeIsSet:    plain(func(_, _ string, lok, _ bool) bool { return lok }),
	nomad.ConstraintAttributeIsNotSet: plain(func(_, _ string, lok, _ bool) bool { return !lok }),
	nomad.ConstraintSetContains:       plain(containsAll),
	nomad.ConstraintSetContainsAll:    plain(containsAll),
	nomad.ConstraintSetContainsAny:    plain(containsAny),
	nomad.ConstraintRegex:             matches,
	nomad.ConstraintVersion:           versions(untrusted.Version, parseVersionRange),
	nomad.ConstraintSemver:            versions(untrusted.Semver, parseSemverRange),
}

func plain(r relation) func(string) (relation, error) {
	return func(string) (relation, error) { return r, nil }
}

func never(string, string, bool, bool) bool   { return false }
func equal(l, r string, lok, rok bool) bool   { return lok && rok && l == r }
func unequal(l, r string, lok, rok bool) bool { return !equal(l, r, lok, rok) }

// ordered compares integers, then floats, then strings.
func ordered(want func(int) bool) relation {
	return func(l, r string, lok, rok bool) bool {
		return lok && rok && want(compare(l, r))
	}
}

func compare(l, r string) int {
	li, lerr := strconv.ParseInt(l, 10, 64)
	ri, rerr := strconv.ParseInt(r, 10, 64)
	if lerr == nil && rerr == nil {
		switch {
		case li < ri:
			return -1
		case li > ri:
			return 1
		}
		return 0
	}
	lf, lerr := strconv.ParseFloat(l, 64)
	rf, rerr := strconv.ParseFloat(r, 64)
	if lerr == nil && rerr == nil {
		switch {
		case lf < rf:
			return -1
		case lf > rf:
			return 1
		}
		return 0
	}
	return strings.Compare(l, r)
}

func splitSet(s string) []string {
	parts := strings.Split(s, ",")
	for i := range parts {
		parts[i] = strings.TrimSpace(parts[i])
	}
	return parts
}

func containsAll(l, r string, lok, rok bool) bool {
	if !lok || !rok {
		return false
	}
	have := splitSet(l)
	for _, want := range splitSet(r) {
		if !slices.Contains(have, want) {
			return false
		}
	}
	return true
}

func containsAny(l, r string, lok, rok bool) bool {
	if !lok || !rok {
		return false
	}
	have := splitSet(l)
	return slices.ContainsFunc(splitSet(r), func(want string) bool { return slices.Contains(have, want) })
}

func matches(literal string) (relation, error) {
	parse := memo(untrusted.CompileRegexp)
	if literal != "" {
		if _, err := parse(literal); err != nil {
			return nil, err
		}
	}
	return func(l, r string, lok, rok bool) bool {
		if !lok || !rok {
			return false
		}
		re, err := parse(r)
		return err == nil && re.MatchString(l)
	}, nil
}

// memo caches the results of parse. The argument may be a node property, so there are few distinct
// values.
func memo[T any](parse func(string) (T, error)) func(string) (T, error) {
	type result struct {
		value T
		err   error
	}
	seen := map[string]result{}
	return func(s string) (T, error) {
		r, ok := seen[s]
		if !ok {
			r.value, r.err = parse(s)
			seen[s] = r
		}
		return r.value, r.err
	}
}

// inRange reports whether a version is in a range.
type inRange func(*version.Version) bool

func versions(one func(string) (*version.Version, error), many func(string) (inRange, error)) func(string) (relation, error) {
	ones, ranges := parsed.New(one), parsed.New(many) // shared by all evaluations
	return func(literal string) (relation, error) {
		parse, span := memo(ones.Of), memo(ranges.Of)
		if literal != "" {
			if _, err := span(literal); err != nil {
				return nil, err
			}
		}
		return func(l, r string, lok, rok bool) bool {
			if !lok || !rok {
				return false
			}
			within, err := span(r)
			if err != nil {
				return false
			}
			v, err := parse(l)
			return err == nil && within(v)
		}, nil
	}
}

func parseVersionRange(s string) (inRange, error) {
	c, err := untrusted.VersionRange(s)
	if err != nil {
		return nil, err
	}
	return c.Check, nil
}

// parseSemverRange parses ">= 1.2.0, < 2.0.0". Unlike a version range, it orders prereleases by the
// rules of semver and does not support "~>".
func parseSemverRange(s string) (inRange, error) {
	if err := untrusted.FitRange(s); err != nil {
		return nil, err
	}
	var bounds []inRange
	for _, part := range splitSet(s) {
		digits := strings.TrimLeft(part, "=!<> ")
		operand := strings.TrimSpace(strings.TrimSuffix(part, digits))
		v, err := untrusted.Semver(digits)
		if err != nil {
			return nil, err
		}
		ok := map[string]func(int) bool{
			"":   func(c int) bool { return c == 0 },
			"=":  func(c int) bool { return c == 0 },
			"!=": func(c int) bool { return c != 0 },
			"<":  func(c int) bool { return c < 0 },
			"<=": func(c int) bool { return c <= 0 },
			">":  func(c int) bool { return c > 0 },
			">=": func(c int) bool { return c >= 0 },
		}[operand]
		if ok == nil {
			return nil, fmt.Errorf("unknown comparison %q in %q", operand, s)
		}
		bounds = append(bounds, func(have *version.Version) bool { return ok(have.Compare(v)) })
	}
	return func(v *version.Version) bool {
		for _, within := range bounds {
			if !within(v) {
				return false
			}
		}
		return true
	}, nil
}
