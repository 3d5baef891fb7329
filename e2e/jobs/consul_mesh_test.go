package jobs_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/e2e/harness"
)

// meshJob is a mesh gateway whose proxy is a script that keeps its first configuration.
const meshJob = `
job "edge" {
  group "g" {
    network {
      mode = "host"
      port "wan" {}
    }
    service {
      name = "edge"
      port = "wan"
      connect {
        gateway {
          mesh {}
        }
        sidecar_task {
          driver = "exec2"
          config {
            command = "/bin/sh"
            args    = ["-c", "cp $NOMAD_SECRETS_DIR/envoy_bootstrap.json $NOMAD_ALLOC_DIR/data/boot; exec sleep 1000"]
          }
          resources {
            cpu    = 50
            memory = 64
          }
        }
      }
    }
    task "t" {
      driver = "exec2"
      config {
        command = "/bin/sleep"
        args    = ["1000"]
      }
      resources {
        cpu    = 50
        memory = 32
      }
    }
  }
}
`

// TestConsulMesh runs the proxy of a gateway through a start, a kill of the agent and a stop. The program consul is a
// stand-in, which reads Consul as the real one does.
func TestConsulMesh(t *testing.T) {
	harness.NeedsRoot(t)
	dir := harness.TempDir(t)
	for _, d := range []string{filepath.Dir(dir), dir} {
		if err := os.Chmod(d, 0o755); err != nil { // tasks have other users
			t.Fatal(err)
		}
	}
	build := exec.Command("go", "build", "-o", filepath.Join(dir, "consul"), "../../client/allocrunner/testdata/consul")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the stand-in: %v: %s", err, out)
	}
	t.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH"))
	f := newConsulFleet(t)
	one := f.join("one")
	defer f.Purge()
	harness.Run(t, f.Server, meshJob)
	al := harness.Await(t, f.Server, "edge", "running", 1)[0]
	const proxy = "connect-mesh-edge"
	var boot map[string]any
	harness.Within(t, harness.Patience, "the proxy has its configuration", func() bool {
		text, err := os.ReadFile(filepath.Join(one.Dir, "data/alloc", al.ID, "alloc/data/boot"))
		return err == nil && json.Unmarshal(text, &boot) == nil
	})
	id := "_nomad-task-" + al.ID + "-group-g-edge-wan"
	if boot["id"] != id || boot["kind"] != "mesh-gateway" || boot["gateway"] != "mesh" || boot["uid"] == 0.0 {
		t.Errorf("the configuration is %v", boot)
	}
	gateway := f.consul.Services()[id]
	for _, side := range []string{"lan", "wan"} {
		if gateway.TaggedAddresses[side].Port == 0 {
			t.Errorf("the gateway has the addresses %v, want one for %s", gateway.TaggedAddresses, side)
		}
	}
	starts := func() int {
		all := harness.Events(harness.OnlyAlloc(t, f.Server, "edge"), proxy)
		return strings.Count(strings.Join(all, ","), "Started")
	}
	before := f.consul.IDs()
	if err := one.Kill(); err != nil {
		t.Fatal(err)
	}
	harness.Restart(t, one)
	harness.Await(t, f.Server, "edge", "running", 1)
	if got := f.consul.IDs(); !slices.Equal(got, before) || starts() != 1 {
		t.Errorf("after the kill of the agent, Consul has %q, want %q; the proxy started %d times", got, before, starts())
	}
	harness.Stop(t, f.Server, "edge")
	harness.Within(t, harness.Patience, "Consul has no service", func() bool { return len(f.consul.IDs()) == 0 })
}
