package jobrules

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/open-nomad/open-nomad/internal/parsed"
	"github.com/open-nomad/open-nomad/internal/pattern"
	"github.com/open-nomad/open-nomad/internal/untrusted"
	"github.com/open-nomad/open-nomad/nomad"
)

// comparisons are the operands common to constraints and affinities.
var comparisons = map[string]bool{
	"": true, "=": true, "==": true, "is": true, "!=": true, "not": true, ">": true, ">=": true, "<": true, "<=": true,
	nomad.ConstraintRegex: true, nomad.ConstraintVersion: true, nomad.ConstraintSemver: true,
	nomad.ConstraintSetContains: true, nomad.ConstraintSetContainsAll: true, nomad.ConstraintSetContainsAny: true,
}

func validateConstraints(f *faults, list []*nomad.Constraint) {
	for _, c := range list {
		validateConstraint(c, f)
	}
}

func validateConstraint(c *nomad.Constraint, f *faults) {
	switch c.Operand {
	case nomad.ConstraintDistinctHosts:
		if _, err := strconv.ParseBool(c.RTarget); c.RTarget != "" && err != nil {
			f.add("the value of a distinct_hosts constraint is %q: use true or false", c.RTarget)
		}
		return
	case nomad.ConstraintDistinctProperty:
		if n, err := strconv.ParseUint(c.RTarget, 10, 31); c.RTarget != "" && (err != nil || n == 0) {
			f.add("the value of a distinct_property constraint is %q: use an integer of 1 or more", c.RTarget)
		}
	case nomad.ConstraintAttributeIsSet, nomad.ConstraintAttributeIsNotSet:
		if c.RTarget != "" {
			f.add("a constraint with the operator %s must not have a value, got %q: remove it", c.Operand, c.RTarget)
		}
	default:
		if !comparisons[c.Operand] {
			f.add("unknown constraint operator %q", c.Operand)
			return
		}
		validateOperand(f, "a constraint", c.Operand, c.RTarget)
	}
	if c.LTarget == "" {
		f.add("a constraint with the operator %q has no attribute: set attribute", c.Operand)
	}
}

func validateAffinities(f *faults, list []*nomad.Affinity) {
	for _, a := range list {
		if !comparisons[a.Operand] {
			f.add("unknown affinity operator %q", a.Operand)
			continue
		}
		validateOperand(f, "an affinity", a.Operand, a.RTarget)
		if a.LTarget == "" {
			f.add("an affinity with the operator %q has no attribute: set attribute", a.Operand)
		}
		if a.Weight == 0 || a.Weight < -100 || a.Weight > 100 {
			f.add("the weight of an affinity is %d: it must be -100 to 100 and not 0", a.Weight)
		}
	}
}

// versionRanges caches parsed version constraints.
var versionRanges = parsed.New(untrusted.VersionRange)

// maxRegexps is the maximum size of all regular expressions of a job, in instructions. Validation and each
// evaluation compile them.
const maxRegexps = 200_000

// fitRegexp checks a regular expression, and that those of the job are not too large together.
func (f *faults) fitRegexp(text string) error {
	_, size, err := untrusted.SizedRegexp(text)
	if err != nil {
		return err
	}
	if *f.regexps += size; *f.regexps > maxRegexps {
		return fmt.Errorf("the regular expressions of the job are too large together: they have more than %d instructions", maxRegexps)
	}
	return nil
}

// validateOperand checks the right side of a comparison that has its own syntax, such as a regular expression
// or a version range.
func validateOperand(f *faults, kind, operand, value string) {
	var err error
	switch operand {
	case nomad.ConstraintRegex:
		err = f.fitRegexp(value)
	case nomad.ConstraintVersion:
		_, err = versionRanges.Of(value)
	case nomad.ConstraintSemver:
		_, err = parseSemverRange(value)
	case nomad.ConstraintSetContains, nomad.ConstraintSetContainsAll, nomad.ConstraintSetContainsAny:
		if value == "" {
			f.add("%s with the operator %s has no value: list the required elements", kind, operand)
		}
	case ">", ">=", "<", "<=":
		if value == "" {
			f.add("%s with the operator %s has no value: set value", kind, operand)
		}
	}
	if err != nil {
		f.add("the value %q of %s with the operator %s is malformed: %v", value, kind, operand, err)
	}
}

func validateSpreads(f *faults, list []*nomad.Spread) {
	for _, s := range list {
		if s.Attribute == "" {
			f.add("a spread has no attribute: set attribute")
		}
		if s.Weight <= 0 || s.Weight > 100 {
			f.add("the weight of the spread over %q is %d: it must be 1 to 100", s.Attribute, s.Weight)
		}
		seen, sum := map[string]bool{}, 0
		for _, t := range s.SpreadTarget {
			if seen[t.Value] {
				f.add("the spread over %q has duplicate targets %q: keep one", s.Attribute, t.Value)
			}
			seen[t.Value] = true
			sum += int(t.Percent)
		}
		if sum > 100 {
			f.add("the targets of the spread over %q sum to %d percent: the limit is 100", s.Attribute, sum)
		}
	}
}

// identityName matches a valid name of an identity.
var identityName = pattern.Lazy(`^[a-zA-Z0-9_-]{1,128}$`)

func validateIdentities(t *nomad.Task, f *faults) {
	if id := t.Identity; id != nil {
		if id.TTL != 0 {
			f.add("the default identity has a ttl, but it is valid as long as its allocation: remove ttl or name the identity")
		}
		validateWorkloadIdentity(id, f)
	}
	seen := map[string]bool{nomad.WorkloadIdentityDefaultName: true}
	for _, id := range t.Identities {
		if seen[id.Name] {
			f.add("duplicate identity name %q: rename one", id.Name)
		}
		seen[id.Name] = true
		validateWorkloadIdentity(id, f)
	}
}

func validateWorkloadIdentity(id *nomad.WorkloadIdentity, f *faults) {
	if !identityName().MatchString(id.Name) {
		f.add("the identity name %q is malformed: use 1 to 128 letters, digits, - and _", id.Name)
	}
	if a := id.Alg; a != "" && a != nomad.IdentityAlgEdDSA && a != nomad.IdentityAlgRS256 {
		f.add("unknown alg %q of the identity %q: use %s or %s", a, id.Name, nomad.IdentityAlgEdDSA, nomad.IdentityAlgRS256)
	}
	switch {
	case id.TTL < 0:
		f.add("the ttl of the identity %q is negative", id.Name)
	case id.TTL > 0 && id.TTL < time.Second:
		f.add("the ttl %v of the identity %q is too short: the minimum is 1s", id.TTL, id.Name)
	}
	if id.Filepath != "" && !id.File {
		f.add("the identity %q has a filepath but no file = true: add it or remove filepath", id.Name)
	}
	if escapes(id.Filepath) {
		f.add("the filepath %q of the identity %q is outside the task directory", id.Filepath, id.Name)
	}
	switch id.ChangeMode {
	case nomad.WIChangeModeSignal:
		if id.ChangeSignal == "" {
			f.add("the identity %q has change_mode signal but no change_signal", id.Name)
		} else if !KnownSignal(id.ChangeSignal) {
			f.add("unknown change_signal %q of the identity %q", id.ChangeSignal, id.Name)
		}
	case "", nomad.WIChangeModeNoop, nomad.WIChangeModeRestart:
		if id.ChangeSignal != "" {
			f.add("the identity %q has a change_signal but its change_mode is not signal", id.Name)
		}
	default:
		f.add("unknown change_mode %q of the identity %q: use noop, restart or signal", id.ChangeMode, id.Name)
	}
}

// escapes reports whether a path is lexically outside of the directory that it is relative to. The client checks
// again after interpolation.
func escapes(path string) bool {
	if strings.HasPrefix(path, "/") || strings.ContainsRune(path, 0) {
		return true
	}
	for _, part := range strings.Split(path, "/") {
		if part == ".." {
			return true
		}
	}
	return false
}
