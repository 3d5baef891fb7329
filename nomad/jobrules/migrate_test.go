package jobrules_test

import (
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/jobrules"
)

func TestMigrateBlock(t *testing.T) {
	for want, edit := range map[string]func(*nomad.MigrateStrategy){
		"":                                    func(m *nomad.MigrateStrategy) { m.MaxParallel = 0 },
		"max_parallel of migrate is -1":       func(m *nomad.MigrateStrategy) { m.MaxParallel = -1 },
		"health_check of migrate is \"none\"": func(m *nomad.MigrateStrategy) { m.HealthCheck = "none" },
		"min_healthy_time of migrate is negative": func(m *nomad.MigrateStrategy) {
			m.MinHealthyTime = -time.Second
		},
		"less than its healthy_deadline": func(m *nomad.MigrateStrategy) { m.HealthyDeadline = m.MinHealthyTime },
	} {
		j := sample("service")
		jobrules.Canonicalize(j)
		edit(j.TaskGroups[0].Migrate)
		err := jobrules.Validate(j)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("Validate() = %v, want %q", err, want)
		}
	}
}
