package taskrunner

import (
	"strings"
	"testing"
	"testing/synctest"

	"github.com/zclconf/go-cty/cty"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/taskenv"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// plainDriver hides the rules of its driver on privilege.
type plainDriver struct{ drivers.Driver }

// TestPrivilege starts tasks on drivers with different rules: a task without the privilege that it
// needs, or with one that the driver does not offer, is never started, whatever the servers decided.
func TestPrivilege(t *testing.T) {
	off, offers := map[string]cty.Value{}, map[string]cty.Value{"allow_privileged": cty.True}
	legacy := map[string]cty.Value{"legacy_privileged_behavior": cty.True}
	for name, tc := range map[string]struct {
		plugin     map[string]cty.Value // nil: a driver without rules
		privileged bool
		reason     string // of the config block
		want       string // nothing: it starts
	}{
		"nothing needed": {off, false, "", ""},
		"needed": {off, false, "a reason",
			`task "main": driver "mock_driver" needs privileged = true in the task: a reason`},
		"needed, offered":       {offers, false, "a reason", "needs privileged = true"},
		"needed by a reference": {offers, false, "${NOMAD_TASK_NAME}", "needs privileged = true in the task: main"},
		"needed, legacy":        {legacy, false, "a reason", ""},
		"given":                 {offers, true, "a reason", ""},
		"given by a reference":  {offers, true, "${NOMAD_TASK_NAME}", ""},
		"given, not needed":     {offers, true, "", ""},
		"given, not offered": {off, true, "a reason",
			`task "main": privileged = true: driver "mock_driver" does not offer privilege on this node`},
		"given, legacy only":          {legacy, true, "a reason", ""},
		"driver without rules":        {nil, false, "a reason", ""},
		"driver without rules, given": {nil, true, "", "does not offer privilege"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := newHouse(t, map[string]any{"needs_privilege": tc.reason})
				h.alloc.Job.TaskGroups[0].Tasks[0].Privileged = tc.privileged
				h.alloc.Job.Type = nomad.JobTypeBatch
				if err := h.driver.SetConfig(cty.ObjectVal(tc.plugin)); err != nil {
					t.Fatal(err)
				}
				r := h.runner(nil, nil)
				if tc.plugin == nil {
					r.cfg.Driver = plainDriver{h.driver}
				}
				if err := r.Run(t.Context()); err != nil {
					t.Fatal(err)
				}
				s := r.State()
				if tc.want == "" {
					if s.Failed || len(h.driver.given) != 1 || h.driver.given[0].Privileged != tc.privileged {
						t.Errorf("state %+v, %d starts, want one with privilege %t", s, len(h.driver.given), tc.privileged)
					}
					return
				}
				refused := 0
				for _, e := range s.Events {
					if e.Type == nomad.TaskFailedValidation && strings.Contains(e.DisplayMessage, tc.want) {
						refused++
					}
				}
				if !s.Failed || len(h.driver.given) != 0 || refused != 1 {
					t.Errorf("failed %t after %d starts, %d events with the reason, want one refusal and no start: %+v", s.Failed, len(h.driver.given),
						refused, s.Events)
				}
			})
		})
	}
}

// imageDriver is a driver whose tasks have the files of an image, with rules on privilege.
type imageDriver struct {
	drivers.Driver
	rules drivers.Privilege
}

func (imageDriver) Capabilities() drivers.Capabilities {
	return drivers.Capabilities{FSIsolation: drivers.FSIsolationImage, Mounts: true, Propagations: []string{drivers.PropagateBoth}}
}

func (d imageDriver) Privilege() drivers.Privilege { return d.rules }

// TestPrivilege_CSIPlugin checks that a node plugin needs privilege on drivers that have it.
func TestPrivilege_CSIPlugin(t *testing.T) {
	needs := func(map[string]any) string { return "" }
	for name, tc := range map[string]struct {
		kind       nomad.CSIPluginType
		rules      drivers.Privilege
		privileged bool
		refused    bool
	}{
		"node":                       {"node", drivers.Privilege{Offered: true, Needs: needs}, false, true},
		"node, privileged":           {"node", drivers.Privilege{Offered: true, Needs: needs}, true, false},
		"node, not offered":          {"node", drivers.Privilege{Needs: needs}, false, true},
		"node, legacy":               {"node", drivers.Privilege{Offered: true, Legacy: true, Needs: needs}, false, false},
		"node, driver without rules": {"node", drivers.Privilege{}, false, false},
		"monolith":                   {"monolith", drivers.Privilege{Offered: true, Needs: needs}, false, true},
		"controller":                 {"controller", drivers.Privilege{Offered: true, Needs: needs}, false, false},
		"no plugin":                  {"", drivers.Privilege{Offered: true, Needs: needs}, false, false},
	} {
		task := &nomad.Task{Name: "main", Driver: "docker", Privileged: tc.privileged}
		if tc.kind != "" {
			task.CSIPluginConfig = &nomad.TaskCSIPluginConfig{ID: "p", Type: tc.kind}
		}
		a := &attempt{cfg: &Config{Driver: imageDriver{rules: tc.rules}}}
		if err := a.checkPlugin(task); (err != nil) != tc.refused || err != nil && !strings.Contains(err.Error(), "needs privileged = true") {
			t.Errorf("%s: checkPlugin() = %v, want refused %t", name, err, tc.refused)
		}
	}
}

// isolated is a driver that isolates its tasks in every way.
type isolated struct{ drivers.Driver }

func (isolated) Isolates(string, map[string]any) (drivers.Isolation, error) {
	return drivers.Strictest(), nil
}

// TestIsolation_CSIPlugin checks that a node plugin has no isolation level, and does not start if one is required.
func TestIsolation_CSIPlugin(t *testing.T) {
	for kind, want := range map[nomad.CSIPluginType]drivers.Level{"node": drivers.LevelNone, "monolith": drivers.LevelNone,
		"controller": drivers.LevelStrict} {
		task := &nomad.Task{Name: "main", CSIPluginConfig: &nomad.TaskCSIPluginConfig{ID: "p", Type: kind}}
		alloc := &nomad.Allocation{}
		a := &attempt{cfg: &Config{Driver: isolated{}}, current: func() (*nomad.Allocation, *nomad.Task) { return alloc, task }}
		env := taskenv.New(taskenv.Subject{Node: &nomad.Node{}, Alloc: alloc, Task: task}).Build()
		cfg := &drivers.TaskConfig{}
		if err := a.isolate(cfg, env); err != nil || cfg.Isolation.Level() != want {
			t.Errorf("%s: isolate() = %v, level %v, want %v", kind, err, cfg.Isolation.Level(), want)
		}
		task.Isolation = "baseline"
		if err := a.isolate(cfg, env); (err != nil) != (want == drivers.LevelNone) {
			t.Errorf("%s that requires a level: isolate() = %v", kind, err)
		}
	}
}
