package nomad_test

import (
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/nomad"
)

func TestNamespaceAdmits(t *testing.T) {
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
		says  string // of the error, "" when the job is admitted
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
		if err := n.Validate(); err != nil {
			t.Errorf("%s: the namespace is refused: %v", name, err)
		}
		switch err := n.Admits(c.job); {
		case c.says == "" && err != nil:
			t.Errorf("%s: %v", name, err)
		case c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says)):
			t.Errorf("%s: %v, want an error about %q", name, err, c.says)
		}
	}
}
