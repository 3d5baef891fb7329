package nomad_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/nomad"
)

// The network of a task counts like a mode of its group.
func TestAdmits_TaskNetworkMode(t *testing.T) {
	for name, c := range map[string]struct {
		enabled, disabled []string
		mode              any
		want              string // part of the error, "" for none
	}{
		"disabled":          {nil, []string{"host"}, "host", `network_mode "host"`},
		"not enabled":       {[]string{"bridge"}, nil, "host", `network_mode "host"`},
		"enabled":           {[]string{"bridge", "none"}, nil, "none", ""},
		"default is bridge": {nil, []string{"bridge"}, "default", `network_mode "bridge"`},
		"reference":         {nil, []string{"bridge"}, "${meta.mode}", "with a reference"},
		"not a string":      {nil, []string{"bridge"}, 5, "with a reference"},
		"container":         {[]string{"bridge"}, nil, "container:x", `network_mode "container:x"`},
		"no rules":          {nil, nil, "${meta.mode}", ""},
		"none given":        {[]string{"bridge"}, nil, nil, ""},
		"empty":             {[]string{"bridge"}, nil, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			task := &nomad.Task{Name: "web", Driver: "docker", Config: map[string]any{}}
			if c.mode != nil {
				task.Config["network_mode"] = c.mode
			}
			mode := "bridge"
			if len(c.disabled) > 0 {
				mode = "cni/x"
			}
			job := &nomad.Job{ID: "j", NodePool: "default",
				TaskGroups: []*nomad.TaskGroup{{Name: "g", Tasks: []*nomad.Task{task}, Networks: nomad.Networks{{Mode: mode}}}}}
			ns := &nomad.Namespace{Name: "n",
				Capabilities: &nomad.NamespaceCapabilities{EnabledNetworkModes: c.enabled, DisabledNetworkModes: c.disabled}}
			err := ns.Admits(job)
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("Admits() = %v, want %q", err, c.want)
			}
		})
	}
}

func TestHardMemoryMB(t *testing.T) {
	for _, c := range []struct {
		value any
		want  int64
	}{{nil, 0}, {20000, 20000}, {int64(7), 7}, {float64(512), 512}, {"512", 512}, {json.Number("9"), 9}, {"${meta.x}", 0}, {-5, 0},
		{"many", 0}, {"NaN", 0}, {1e30, 1 << 40}} {
		task := &nomad.Task{Config: map[string]any{"memory_hard_limit": c.value}}
		if got := task.HardMemoryMB(); got != c.want {
			t.Errorf("HardMemoryMB(%v) = %d, want %d", c.value, got, c.want)
		}
	}
}
