package taskrunner

import (
	"strings"
	"testing"
	"testing/synctest"

	"github.com/zclconf/go-cty/cty"

	"github.com/open-nomad/open-nomad/nomad"
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
