package allocrunner_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/zclconf/go-cty/cty"

	"github.com/open-nomad/open-nomad/drivers/mock"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// bare hides that a driver is an Isolator, as an external driver does.
type bare struct{ drivers.Driver }

// lowering starts tasks with less than it has shown, as a daemon with another configuration does. It checks what it is
// asked for.
type lowering struct {
	*mock.Driver
	shown, least drivers.Level
}

func (l lowering) StartTask(ctx context.Context, cfg *drivers.TaskConfig) (*drivers.TaskHandle, error) {
	if cfg.Isolation.Level() != l.shown || cfg.Level != l.least {
		return nil, fmt.Errorf("the driver got the levels %s and %s", cfg.Isolation.Level(), cfg.Level)
	}
	h, err := l.Driver.StartTask(ctx, cfg)
	if err == nil {
		h.Lowered = drivers.LevelHost.String()
	}
	return h, err
}

// TestIsolation checks that a task is not started below the level of the job or of the allocation,
// whatever the servers computed, and that a started one reports its level.
func TestIsolation(t *testing.T) {
	of := func(level string) func(*mock.Driver) drivers.Driver {
		return func(d *mock.Driver) drivers.Driver {
			if err := d.SetConfig(cty.ObjectVal(map[string]cty.Value{"isolation": cty.StringVal(level)})); err != nil {
				t.Fatal(err)
			}
			return d
		}
	}
	for name, c := range map[string]struct {
		driver     func(*mock.Driver) drivers.Driver
		config     string // level of the task's config, "" for none
		task       string // level in the job
		alloc      string // level on the allocation
		want, fact string // level that runs, or the refusal
	}{
		"no level":                {nil, "", "", "", "none", ""},
		"as high as it can be":    {of("strict"), "", "", "", "strict", ""},
		"config lowers it":        {of("strict"), "host", "", "", "host", ""},
		"config cannot raise it":  {of("baseline"), "strict", "", "", "baseline", ""},
		"required":                {of("restricted"), "", "restricted", "restricted", "restricted", ""},
		"required by a reference": {of("restricted"), "${meta.level}", "restricted", "", "restricted", ""},
		"lowered by the driver": {func(d *mock.Driver) drivers.Driver {
			return lowering{of("strict")(d).(*mock.Driver), drivers.LevelStrict, drivers.LevelHost}
		}, "", "none", "host", "host", ""},
		"below the job": {of("baseline"), "", "restricted", "", "",
			`isolation "restricted" is missing: user (an ordinary user)|capabilities (no capability but NET_BIND_SERVICE)`},
		"below the allocation": {of("baseline"), "", "", "strict", "", `isolation "strict" is missing: `},
		"tricked servers":      {of("strict"), "host", "", "restricted", "", "namespaces (its own mount, PID and IPC namespaces)"},
		"unknown level":        {of("strict"), "", "perfect", "", "", `unknown isolation level "perfect"`},
		"driver without a level": {func(d *mock.Driver) drivers.Driver { return bare{d} }, "", "host", "", "",
			`isolation "host" is missing: capabilities`},
		"no requirement without it": {func(d *mock.Driver) drivers.Driver { return bare{d} }, "", "", "", "none", ""},
		"faulty config":             {of("strict"), "perfect", "host", "", "", `cannot show more: isolation: unknown isolation level "perfect"`},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				if c.driver != nil {
					w.driver = c.driver
					w = w.agent()
				}
				task := mockTask("main", lasts("1s"))
				task.Meta = map[string]string{"level": "strict"}
				if c.config != "" {
					task.Config["isolation"] = strings.ReplaceAll(c.config, "${meta.level}", "${NOMAD_META_level}")
				}
				alloc := allocation(nomad.JobTypeBatch, task)
				task.Isolation = c.task
				if c.alloc != "" {
					alloc.Isolation = map[string]string{"main": c.alloc}
				}
				got := w.run(alloc).TaskStates["main"]
				if got.Failed != (c.fact != "") || got.Isolation != c.want {
					t.Errorf("failed %t with level %q, want %q: %v", got.Failed, got.Isolation, c.want, types(got))
				}
				for _, fact := range strings.Split(c.fact, "|") {
					if c.fact != "" && !slices.ContainsFunc(got.Events, func(e *nomad.TaskEvent) bool {
						return e.Type == nomad.TaskSetupFailure && strings.Contains(e.DisplayMessage, fact)
					}) {
						t.Errorf("no event of %v names %s", types(got), fact)
					}
				}
				if started := slices.ContainsFunc(got.Events,
					func(e *nomad.TaskEvent) bool { return e.Type == nomad.TaskStarted }); started != (c.fact == "") {
					t.Errorf("started = %t", started)
				}
			})
		})
	}
}
