package telemetry

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/go-metrics"

	"github.com/open-nomad/open-nomad/nomad"
)

// gauges returns the gauges that fill sets.
func gauges(fill func(set Gauge)) []string {
	var out []string
	fill(func(key []string, val float32, labels []metrics.Label) {
		out = append(out, fmt.Sprintf("%s=%v%v", strings.Join(key, "."), val, labels))
	})
	slices.Sort(out)
	return out
}

func TestBlocked(t *testing.T) {
	lack := func(cpu, mb int) *nomad.AllocMetric {
		return &nomad.AllocMetric{NodePool: "p", NodesAvailable: map[string]int{"dc1": 1}, ClassExhausted: map[string]int{"big": 1},
			ResourcesExhausted: map[string]*nomad.Resources{"t": {CPU: cpu, MemoryMB: mb}, "nothing": nil}}
	}
	evals := []*nomad.Evaluation{
		{JobID: "a", Namespace: "n", FailedTGAllocs: map[string]*nomad.AllocMetric{"g": lack(10, 20), "h": lack(1, 2), "nil": nil}},
		{JobID: "b", Namespace: "n", FailedTGAllocs: map[string]*nomad.AllocMetric{"g": lack(100, 200)}},
	}
	got := gauges(func(set Gauge) { Blocked(evals, set) })
	want := []string{
		"nomad.blocked_evals.cpu=111[{datacenter dc1} {node_class big} {node_pool p}]",
		"nomad.blocked_evals.job.cpu=100[{namespace n} {job b}]",
		"nomad.blocked_evals.job.cpu=11[{namespace n} {job a}]",
		"nomad.blocked_evals.job.memory=200[{namespace n} {job b}]",
		"nomad.blocked_evals.job.memory=22[{namespace n} {job a}]",
		"nomad.blocked_evals.memory=222[{datacenter dc1} {node_class big} {node_pool p}]",
	}
	if !slices.Equal(got, want) {
		t.Errorf("Blocked() sets\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestSummaryOfAChild(t *testing.T) {
	s := &nomad.JobSummary{JobID: "p/periodic-7", Namespace: "n", Summary: map[string]nomad.TaskGroupSummary{"g": {Running: 3}}}
	got := gauges(func(set Gauge) { summary(s, set) })
	if want := "nomad.job_summary.running=3[{job p/periodic-7} {task_group g} {namespace n} {parent_id p} {periodic_id 7}]"; len(got) != 7 ||
		!slices.Contains(got, want) {
		t.Errorf("summary() sets %q, want 7 with %s", got, want)
	}
}
