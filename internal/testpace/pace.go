// Package testpace helps tests that depend on time, on machines that are busy with other work.
//
// Until, Within and Succeeds poll a condition, with limits that only a hanging program exceeds. Once
// checks a time limit of the product. A single measurement is not conclusive, since other processes
// may use the CPU. Code that does not wait is fast in at least one of a few tries. Code that waits
// for a timer is slow in all of them. Main runs the parallel tests of a package, many at a time.
package testpace

import (
	"slices"
	"testing"
	"time"
)

// tries is the maximum number of measurements.
const tries = 8

// Once fails the test unless one of a few tries takes at most limit. Try performs the operation and
// returns its duration.
func Once(t testing.TB, limit time.Duration, what string, try func() time.Duration) {
	t.Helper()
	var took []time.Duration
	for range tries {
		took = append(took, try())
		if took[len(took)-1] <= limit {
			return
		}
	}
	slices.Sort(took)
	t.Errorf("%s takes %v, want at most %v", what, took, limit)
}
