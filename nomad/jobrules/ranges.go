package jobrules

import (
	"fmt"
	"strings"

	"github.com/hashicorp/go-version"

	"github.com/open-nomad/open-nomad/internal/untrusted"
	"github.com/open-nomad/open-nomad/nomad"
)

const (
	// maxBounds and maxSegments limit the ranges whose emptiness is checked.
	maxBounds   = 64
	maxSegments = 16
)

// bound is one part of a version range, such as ">= 1.2".
type bound struct {
	operand string
	version *version.Version
}

// parseBounds parses the parts of a range.
func parseBounds(text string) ([]bound, error) {
	if err := untrusted.FitRange(text); err != nil {
		return nil, err
	}
	var out []bound
	for part := range strings.SplitSeq(text, ",") {
		part = strings.TrimSpace(part)
		digits := strings.TrimLeft(part, "=!<>~ ")
		v, err := untrusted.Version(digits)
		if err != nil {
			return nil, err
		}
		out = append(out, bound{strings.TrimSpace(strings.TrimSuffix(part, digits)), v})
	}
	return out, nil
}

// semverHolds are the operators of semver ranges.
var semverHolds = map[string]func(order int) bool{
	"": isEqual, "=": isEqual, "!=": func(c int) bool { return c != 0 },
	"<": func(c int) bool { return c < 0 }, "<=": func(c int) bool { return c <= 0 },
	">": func(c int) bool { return c > 0 }, ">=": func(c int) bool { return c >= 0 },
}

func isEqual(order int) bool { return order == 0 }

// parseSemverRange parses a range of the operator semver. Unlike those of version, it has no "~>".
func parseSemverRange(text string) ([]bound, error) {
	bounds, err := parseBounds(text)
	if err != nil {
		return nil, err
	}
	for _, b := range bounds {
		if semverHolds[b.operand] == nil {
			return nil, fmt.Errorf("unknown comparison %q", b.operand)
		}
		if _, err := untrusted.Semver(b.version.Original()); err != nil {
			return nil, err
		}
	}
	return bounds, nil
}

// empty reports whether no version is in the range of an operator, version or semver. It is false for
// ranges with prereleases, and for very long ones, which are not checked.
//
// The bounds divide all versions into regions, and each bound holds in all of a region or in none. So it
// is enough to try one version of each region.
func empty(operand, text string) bool {
	inRange := versionRange(text)
	if operand == nomad.ConstraintSemver {
		inRange = semverRange(text)
	}
	bounds, err := parseBounds(text)
	if err != nil || len(bounds) > maxBounds || inRange == nil {
		return false
	}
	depth := 3
	for _, b := range bounds {
		if b.version.Prerelease() != "" {
			return false
		}
		depth = max(depth, len(b.version.Segments64()))
	}
	if depth > maxSegments {
		return false
	}
	for _, s := range samples(bounds, operand, depth) {
		if v, err := untrusted.Version(s); err != nil || inRange(v) {
			return false
		}
	}
	return true
}

func versionRange(text string) func(*version.Version) bool {
	c, err := versionRanges.Of(text)
	if err != nil {
		return nil
	}
	return c.Check
}

func semverRange(text string) func(*version.Version) bool {
	bounds, err := parseSemverRange(text)
	if err != nil {
		return nil
	}
	return func(v *version.Version) bool {
		for _, b := range bounds {
			if !semverHolds[b.operand](v.Compare(b.version)) {
				return false
			}
		}
		return true
	}
}

// samples returns a version of each region: the lowest one, each bound, and the one after each bound.
func samples(bounds []bound, operand string, depth int) []string {
	lowest := "0.0.0"
	if operand == nomad.ConstraintSemver { // has prereleases between any two releases
		lowest = "0.0.0-0"
	}
	out := []string{lowest}
	for _, b := range bounds {
		exact := dotted(b.version.Segments64(), depth)
		out = append(out, exact)
		if operand == nomad.ConstraintSemver {
			next := b.version.Segments64()
			next[len(next)-1]++
			out = append(out, dotted(next, depth)+"-0")
			continue
		}
		out = append(out, exact+".1")
	}
	return out
}

// dotted joins the segments of a version, with zeros up to depth.
func dotted(segments []int64, depth int) string {
	var b strings.Builder
	for i := range depth {
		n := int64(0)
		if i < len(segments) {
			n = segments[i]
		}
		if i > 0 {
			b.WriteByte('.')
		}
		fmt.Fprint(&b, n)
	}
	return b.String()
}
