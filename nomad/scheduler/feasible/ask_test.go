package feasible_test

import (
	"testing"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/quota"
	"github.com/open-nomad/open-nomad/nomad/scheduler/feasible"
)

// The memory that a task can use by an option of its own counts, also without oversubscription.
func TestAsk_HardMemory(t *testing.T) {
	for name, c := range map[string]struct {
		oversubscription bool
		memory, most     int
		hard             any
		want             int64
	}{
		"none": {false, 32, 0, nil, 0}, "alone": {false, 32, 0, 20000, 20000}, "text": {false, 32, 0, "20000", 20000},
		"below memory":     {false, 32, 0, 16, 0},
		"above memory_max": {true, 32, 64, 128, 128}, "below memory_max": {true, 32, 64, 48, 64},
		"no limit": {true, 32, nomad.MemoryNoLimit, 128, nomad.MemoryNoLimit},
	} {
		task := &nomad.Task{Name: "t", Config: map[string]any{"memory_hard_limit": c.hard},
			Resources: &nomad.Resources{CPU: 1, MemoryMB: c.memory, MemoryMaxMB: c.most}}
		usage, err := feasible.NewUsage(node())
		if err != nil {
			t.Fatal(err)
		}
		ask := feasible.NewAsk(&nomad.TaskGroup{Name: "g", Tasks: []*nomad.Task{task}},
			&nomad.SchedulerConfiguration{MemoryOversubscriptionEnabled: c.oversubscription})
		got, why := usage.Fit(ask, nil)
		if got == nil || got.Tasks["t"].Memory.MemoryMaxMB != c.want {
			t.Errorf("%s: Fit() = %+v, %q, want memory_max %d", name, got, why, c.want)
			continue
		}
		if counted := quota.OfResources(got).MemoryMaxMB; c.want > 0 && counted != c.want {
			t.Errorf("%s: the quota counts %d MiB, want %d", name, counted, c.want)
		}
	}
}
