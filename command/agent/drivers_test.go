package agent_test

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/internal/testpace"
)

// TestInstancesOfDrivers checks that the node has the configured instances, with their attributes.
func TestInstancesOfDrivers(t *testing.T) {
	a, _ := run(t, "-dev", "-config", write(t, free+`
plugin "mock-2" {
  backend = "mock_driver"
}
plugin "raw-off" {
  backend = "raw_exec"
}
`))
	var n struct {
		Drivers    map[string]*struct{ Detected bool }
		Attributes map[string]string
	}
	testpace.Until(t, "the node has its drivers", func() bool {
		var nodes []struct{ ID string }
		if get(a, "/v1/nodes", &nodes) != nil || len(nodes) != 1 || get(a, "/v1/node/"+nodes[0].ID, &n) != nil {
			return false
		}
		return len(n.Drivers) == 9 // with docker, exec, java and qemu
	})
	for name, want := range map[string]string{"exec2": "exec2", "mock_driver": "mock_driver", "mock-2": "mock_driver",
		"raw_exec": "raw_exec", "raw-off": ""} {
		if n.Drivers[name] == nil || n.Attributes["driver."+name+".backend"] != want || n.Drivers[name].Detected != (want != "") {
			t.Errorf("driver %s: %+v with the backend %q, want %q", name, n.Drivers[name], n.Attributes["driver."+name+".backend"], want)
		}
	}
}

// TestPluginFileFault checks that an error in a file of a plugin block has the place of the block.
func TestPluginFileFault(t *testing.T) {
	profile := filepath.Join(t.TempDir(), "bad.json")
	if err := os.WriteFile(profile, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	file := write(t, free+"plugin \"open\" {\n backend = \"exec2\"\n config {\n seccomp_profiles { few = \""+profile+"\" }\n }\n}\n")
	_, err := build(t, io.Discard, "-dev", "-config", file)
	if err == nil || !strings.Contains(err.Error(), file+":") ||
		!strings.Contains(err.Error(), "plugin.open: config of driver open: seccomp_profiles") {
		t.Errorf("New() = %v, want an error that names the file, the block and the option", err)
	}
}
