package scheduler_test

import (
	"slices"
	"testing"

	"github.com/open-nomad/open-nomad/nomad"
)

// fill places allocations of other jobs on a node, one of each priority, each with the given CPU.
func (w *world) fill(node string, cpu int64, priorities ...int) {
	for i, p := range priorities {
		w.set(&nomad.Allocation{
			ID: node + string(rune('a'+i)), Name: "other.g[0]", JobID: "other", NodeID: node, TaskGroup: "g", Namespace: "default",
			Job:           &nomad.Job{ID: "other", Priority: p},
			DesiredStatus: nomad.AllocDesiredStatusRun, ClientStatus: nomad.AllocClientStatusRunning,
			AllocatedResources: &nomad.AllocatedResources{Tasks: map[string]*nomad.AllocatedTaskResources{
				"t": {Cpu: nomad.AllocatedCpuResources{CpuShares: cpu}}}},
		})
	}
}

func (w *world) evicted() []string {
	var out []string
	for a := range sorted(w.allocs) {
		if a.DesiredStatus == nomad.AllocDesiredStatusEvict {
			out = append(out, a.ID)
		}
	}
	return out
}

func TestPreemption(t *testing.T) {
	on := nomad.PreemptionConfig{SystemSchedulerEnabled: true}
	cases := []struct {
		name   string
		config nomad.PreemptionConfig
		typ    string
		cpu    int // requested; the node has 4000
		with   []int
		want   []string
		placed bool
	}{
		{"lowest first", on, "system", 1000, []int{20, 10, 30, 30}, []string{"n1b"}, true},
		{"as many as needed", on, "system", 2000, []int{20, 10, 30, 30}, []string{"n1a", "n1b"}, true},
		{"too close in priority", on, "system", 1000, []int{41, 41, 41, 41}, nil, false},
		{"not enough", on, "system", 2000, []int{10, 45, 45, 45}, nil, false},
		{"room enough", on, "system", 1000, []int{10, 10}, nil, true},
		{"off", nomad.PreemptionConfig{}, "system", 1000, []int{10, 10, 10, 10}, nil, false},
		{"off for services", on, "service", 1000, []int{10, 10, 10, 10}, nil, false},
		{"on for services", nomad.PreemptionConfig{ServiceSchedulerEnabled: true}, "service", 1000, []int{10, 10, 10, 10}, []string{"n1a"}, true},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			w.config.PreemptionConfig = c.config
			w.addNode("n1")
			w.fill("n1", 1000, c.with...)
			w.register(job(c.typ, 1, func(j *nomad.Job) { j.TaskGroups[0].Tasks[0].Resources.CPU = c.cpu }))
			w.process(func(e *nomad.Evaluation) { e.AnnotatePlan = true })
			if got := w.evicted(); !slices.Equal(got, c.want) {
				t.Errorf("evicted %v, want %v", got, c.want)
			}
			placed := 0
			for _, a := range w.live() {
				if a.JobID == "j" {
					placed++
					if !slices.Equal(slices.Sorted(slices.Values(a.PreemptedAllocations)), c.want) {
						t.Errorf("PreemptedAllocations = %v, want %v", a.PreemptedAllocations, c.want)
					}
				}
			}
			if (placed == 1) != c.placed {
				t.Errorf("placed %d, want %v", placed, c.placed)
			}
			if d := w.plans[0].Annotations.DesiredTGUpdates["g"]; int(d.Preemptions) != len(c.want) ||
				len(w.plans[0].Annotations.PreemptedAllocs) != len(c.want) {
				t.Errorf("annotations = %+v", d)
			}
		})
	}
}

func TestPreemption_Priority(t *testing.T) {
	w := newWorld(t)
	w.config.PreemptionConfig.ServiceSchedulerEnabled = true
	for _, id := range []string{"n1", "n2", "n3"} {
		w.addNode(id)
	}
	w.fill("n1", 1000, 30, 30, 30, 30)
	w.fill("n2", 1000, 45, 45, 45, 20)
	w.fill("n3", 500, 20, 20, 45, 45, 45, 45, 45, 45)
	w.register(job(nomad.JobTypeService, 1, func(j *nomad.Job) { j.TaskGroups[0].Tasks[0].Resources.CPU = 1000 }))
	w.process()
	if got := w.evicted(); !slices.Equal(got, []string{"n2d"}) {
		t.Errorf("evicted %v, want n2d alone", got)
	}
}
