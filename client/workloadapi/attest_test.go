package workloadapi

import (
	"testing"

	"github.com/open-nomad/open-nomad/internal/cgroup"
)

// TestWithin checks which lines of /proc/PID/cgroup identify a process of a task.
func TestWithin(t *testing.T) {
	open := func(h *cgroup.Hierarchy) *cgroup.Group {
		g, err := h.Open("nomad.slice/share.slice", "a.t.scope")
		if err != nil {
			t.Fatal(err)
		}
		return g
	}
	v2, v1 := open(&cgroup.Hierarchy{V2: "/sys/fs/cgroup"}), open(&cgroup.Hierarchy{V1: map[string]string{"pids": "/sys/fs/cgroup/pids"}})
	const group, name = "/nomad.slice/share.slice/a.t.scope", "a.t.scope"
	for text, want := range map[string][2]bool{ // with and without a version 2 tree
		"0::" + group + "\n":                            {true, false},
		"0::" + group + "/below\n":                      {true, false},
		"0::" + group + "2\n":                           {},
		"0::/" + name + "\n":                            {},
		"0::/x" + group + "\n":                          {},
		"0::/\n8:pids:" + group + "\n":                  {false, true},
		"0::/\n4:cpu,memory:" + group + "\n":            {false, true},
		"0::/\n9:name=systemd:" + group + "\n":          {},
		"0::/\n9:name=x,y:" + group + "\n":              {},
		"1:cpu:" + group + "\n2:cpuset:" + group + "\n": {},
		"0::" + group + " (deleted)\n":                  {},
		"":                                              {}, "0::": {}, group: {},
	} {
		if got := [2]bool{within([]byte(text), v2), within([]byte(text), v1)}; got != want {
			t.Errorf("within(%q) = %v, want %v", text, got, want)
		}
	}
}
