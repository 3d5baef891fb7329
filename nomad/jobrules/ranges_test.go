package jobrules

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/hashicorp/go-version"

	"github.com/open-nomad/open-nomad/nomad"
)

// A range is empty exactly if it contains none of the versions around its bounds.
func TestEmptyRanges(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	number := func() string {
		return strings.TrimSuffix(fmt.Sprintf("%d.%d.%d", r.IntN(3), r.IntN(3), r.IntN(3)), ".0")
	}
	for _, tt := range []struct {
		operand   string
		operators []string
		inRange   func(string) func(*version.Version) bool
		patches   []string
	}{
		{nomad.ConstraintVersion, []string{"", "=", "!=", "<", "<=", ">", ">=", "~>"}, versionRange, []string{"", ".1"}},
		{nomad.ConstraintSemver, []string{"", "=", "!=", "<", "<=", ">", ">="}, semverRange, []string{"-0", ""}},
	} {
		var all []*version.Version
		for n := range 4 * 4 * 4 {
			for _, patch := range tt.patches {
				all = append(all, version.Must(version.NewVersion(fmt.Sprintf("%d.%d.%d%s", n/16, n/4%4, n%4, patch))))
			}
		}
		found := map[bool]int{}
		for range 5000 {
			parts := make([]string, 1+r.IntN(4))
			for i := range parts {
				parts[i] = tt.operators[r.IntN(len(tt.operators))] + " " + number()
			}
			text := strings.Join(parts, ", ")
			inRange := tt.inRange(text)
			if inRange == nil {
				t.Fatalf("%s %q is malformed", tt.operand, text)
			}
			want := true
			for _, v := range all {
				if inRange(v) {
					want = false
					break
				}
			}
			if got := empty(tt.operand, text); got != want {
				t.Errorf("empty(%s, %q) = %t, want %t", tt.operand, text, got, want)
			}
			found[want]++
		}
		if found[true] < 500 || found[false] < 500 {
			t.Errorf("%s: %v ranges are empty", tt.operand, found)
		}
	}
}

// Ranges that are too long are not checked, and take no time.
func TestLongRanges(t *testing.T) {
	for _, text := range []string{
		strings.Repeat("> 2, ", 5000) + "< 1",
		"> 2" + strings.Repeat(".0", 5000) + ", < 1",
	} {
		if empty(nomad.ConstraintVersion, text) {
			t.Errorf("a range of %d bytes was checked", len(text))
		}
	}
}
