package jobrules_test

import (
	"math"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/jobrules"
)

// Amounts whose sum or product would overflow are rejected. Such a job would fit on every node.
func TestAmountsThatWrap(t *testing.T) {
	const huge = 1 << 62
	for name, edit := range map[string]func(*nomad.TaskGroup, *nomad.Task){
		"cpu is":                   func(_ *nomad.TaskGroup, t *nomad.Task) { t.Resources.CPU = huge },
		"cores is":                 func(_ *nomad.TaskGroup, t *nomad.Task) { t.Resources.CPU, t.Resources.Cores = 0, huge },
		"memory is":                func(_ *nomad.TaskGroup, t *nomad.Task) { t.Resources.MemoryMB = huge },
		"memory_max is":            func(_ *nomad.TaskGroup, t *nomad.Task) { t.Resources.MemoryMaxMB = math.MaxInt64 },
		"secrets is":               func(_ *nomad.TaskGroup, t *nomad.Task) { t.Resources.MemoryMB, t.Resources.SecretsMB = huge, huge },
		"size of ephemeral_disk":   func(tg *nomad.TaskGroup, _ *nomad.Task) { tg.EphemeralDisk.SizeMB = huge },
		"max_files of logs is":     func(_ *nomad.TaskGroup, t *nomad.Task) { t.LogConfig.MaxFiles, t.LogConfig.MaxFileSizeMB = huge, 4 },
		"max_file_size of logs is": func(_ *nomad.TaskGroup, t *nomad.Task) { t.LogConfig.MaxFiles, t.LogConfig.MaxFileSizeMB = 4, huge },
	} {
		job := &nomad.Job{ID: "j", Name: "j", Region: "global", Type: nomad.JobTypeBatch, Priority: 50,
			TaskGroups: []*nomad.TaskGroup{{Name: "g", Count: 1,
				Tasks: []*nomad.Task{{Name: "t", Driver: "mock_driver", Resources: &nomad.Resources{CPU: 100, MemoryMB: 64}}}}}}
		jobrules.Canonicalize(job)
		if err := jobrules.Validate(job); err != nil {
			t.Fatalf("the plain job: %v", err)
		}
		edit(job.TaskGroups[0], job.TaskGroups[0].Tasks[0])
		if err := jobrules.Validate(job); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: Validate() = %v", name, err)
		}
	}
}
