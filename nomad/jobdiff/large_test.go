package jobdiff_test

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/jobdiff"
)

// large returns a job with n elements in lists of all kinds: with and without an identity, and of strings.
func large(n int, prefix string) *nomad.Job {
	j := &nomad.Job{ID: "x", TaskGroups: []*nomad.TaskGroup{{Name: "g"}}}
	for i := range n {
		text := fmt.Sprint(prefix, i)
		j.Constraints = append(j.Constraints, &nomad.Constraint{LTarget: "${attr.x}", Operand: "=", RTarget: text})
		j.Datacenters = append(j.Datacenters, text)
		j.TaskGroups[0].Services = append(j.TaskGroups[0].Services, &nomad.Service{Name: text})
	}
	return j
}

// TestLargeLists checks that the cost of a comparison is proportional to the length of the lists, by its allocations.
func TestLargeLists(t *testing.T) {
	cost := func(n int) float64 {
		old, new := large(n, "a"), large(n, "b")
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		d := jobdiff.Compare(old, new)
		runtime.ReadMemStats(&after)
		if got := len(d.Objects); got != 2*n+1 {
			t.Errorf("%d objects differ in the job, want %d", got, 2*n+1)
		}
		return float64(after.TotalAlloc - before.TotalAlloc)
	}
	if small, big := cost(100), cost(1000); big > 20*small {
		t.Errorf("1000 elements allocate %.0f times as much as 100, want about 10 times", big/small)
	}
}
