package rules_test

import (
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/rules"
)

func TestJobInNamespace(t *testing.T) {
	job := func(pool, driver string, modes ...string) *nomad.Job {
		tg := &nomad.TaskGroup{Name: "g", Tasks: []*nomad.Task{{Name: "t", Driver: driver}}}
		for _, m := range modes {
			tg.Networks = append(tg.Networks, &nomad.NetworkResource{Mode: m})
		}
		return &nomad.Job{ID: "j", NodePool: pool, TaskGroups: []*nomad.TaskGroup{tg}}
	}
	type caps = nomad.NamespaceCapabilities
	type pools = nomad.NamespaceNodePoolConfiguration
	for name, c := range map[string]struct {
		caps  *caps
		pools *pools
		job   *nomad.Job
		want  string // of the error, "" when the job is admitted
	}{
		"no rules":       {nil, nil, job("any", "any", "bridge"), ""},
		"empty rules":    {&caps{}, &pools{}, job("any", "any", "bridge"), ""},
		"enabled driver": {&caps{EnabledTaskDrivers: []string{"exec2"}}, nil, job("default", "exec2"), ""},
		"another driver": {&caps{EnabledTaskDrivers: []string{"exec2"}}, nil, job("default", "docker"),
			`task "t" of group "g" uses the task driver "docker"`},
		"disabled driver": {&caps{DisabledTaskDrivers: []string{"docker"}}, nil, job("default", "docker"), `namespace "team"`},
		"disabled wins": {&caps{EnabledTaskDrivers: []string{"docker"}, DisabledTaskDrivers: []string{"docker"}}, nil,
			job("default", "docker"), "not allowed"},
		"no network is the host's": {&caps{DisabledNetworkModes: []string{"host"}}, nil, job("default", "exec2"), `network mode "host"`},
		"no mode is the host's":    {&caps{EnabledNetworkModes: []string{"bridge"}}, nil, job("default", "exec2", ""), `network mode "host"`},
		"enabled mode":             {&caps{EnabledNetworkModes: []string{"bridge"}}, nil, job("default", "exec2", "bridge"), ""},
		"a network of its own": {&caps{DisabledNetworkModes: []string{"none"}}, nil, job("default", "exec2", "none"),
			`network mode "none"`},
		"one of two modes": {&caps{EnabledNetworkModes: []string{"bridge"}}, nil, job("default", "exec2", "bridge", "cni/x"),
			`network mode "cni/x"`},
		"allowed pool":                 {nil, &pools{Allowed: []string{"a", "gpu-*"}}, job("gpu-1", "exec2"), ""},
		"pool that is not allowed":     {nil, &pools{Allowed: []string{"gpu-*"}}, job("gpus", "exec2"), "it allows gpu-*, default"},
		"default pool is allowed":      {nil, &pools{Default: "cpu", Allowed: []string{"gpu-*"}}, job("cpu", "exec2"), ""},
		"nothing but the default pool": {nil, &pools{Allowed: []string{}}, job("a", "exec2"), "it allows default"},
		"denied pool":                  {nil, &pools{Denied: []string{"se*et"}}, job("secret", "exec2"), "it denies se*et"},
		"pool that is not denied":      {nil, &pools{Denied: []string{"se*et"}}, job("open", "exec2"), ""},
		"all holds denied ones":        {nil, &pools{Denied: []string{"se*et"}}, job("all", "exec2"), "whose nodes it contains"},
		"all is allowed by name":       {nil, &pools{Allowed: []string{"all"}}, job("all", "exec2"), ""},
	} {
		n := &nomad.Namespace{Name: "team", Capabilities: c.caps, NodePoolConfiguration: c.pools}
		if err := rules.Namespace(n); err != nil {
			t.Errorf("%s: the namespace is refused: %v", name, err)
		}
		switch err := rules.JobInNamespace(n, c.job); {
		case c.want == "" && err != nil:
			t.Errorf("%s: %v", name, err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s: %v, want an error about %q", name, err, c.want)
		}
	}
}

// The network of a task counts like a mode of its group.
func TestJobInNamespace_TaskNetworkMode(t *testing.T) {
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
			err := rules.JobInNamespace(ns, job)
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("JobInNamespace() = %v, want %q", err, c.want)
			}
		})
	}
}
