package nodes_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/e2e/cluster"
	"github.com/open-nomad/open-nomad/e2e/harness"
)

// keeper returns a group whose two tasks add their allocation to files that only they can read.
func keeper(disk, version string) string {
	task := func(name string) string {
		return fmt.Sprintf(`task %q {
  driver = "exec2"
  env {
    VERSION = %q
  }
  config {
    command = "/bin/sh"
    args    = ["-c", "umask 077; echo $NOMAD_ALLOC_ID >>$NOMAD_ALLOC_DIR/data/$NOMAD_TASK_NAME; echo $NOMAD_ALLOC_ID >>$NOMAD_TASK_DIR/own; exec sleep 3600"]
  }
  resources {
    cpu    = 10
    memory = 20
  }
}
`, name, version)
	}
	return disk + "migrate {\n max_parallel = 1\n min_healthy_time = \"100ms\"\n}\n" + task("one") + task("two")
}

// TestDiskFollows updates a job on its node, then drains the node: the files of each task follow,
// and the task of the new allocation can add to them.
func TestDiskFollows(t *testing.T) {
	harness.NeedsRoot(t)
	f := harness.NewFleet(t, harness.QuickHeartbeats)
	diskFollows(t, f, func(name string) *cluster.Agent { return f.Join(name, harness.Loopback) })
}

// TestDiskFollowsOverTLS does the same between agents that require a certificate of each caller.
func TestDiskFollowsOverTLS(t *testing.T) {
	harness.NeedsRoot(t)
	k := newAuthority(t)
	f := &harness.Fleet{T: t, Dir: harness.TempDir(t)}
	start := func(name, role, config string, args ...string) *cluster.Agent {
		dir, cfg := filepath.Join(f.Dir, name), filepath.Join(f.Dir, name+".hcl")
		harness.WriteFile(t, cfg, fmt.Sprintf("name = %q\n", name)+config)
		return harness.StartIn(t, cluster.Options{Dir: dir, TLS: k.user(),
			Args: append(args, "-bind=127.0.0.1", "-data-dir="+filepath.Join(dir, "data"),
				k.config(role, verifyNames), "-config="+cfg)})
	}
	f.Server = start("server", "server", harness.QuickHeartbeats, "-server", "-bootstrap-expect=1")
	diskFollows(t, f, func(name string) *cluster.Agent {
		a := start(name, "client", harness.Loopback, "-client", fmt.Sprintf("-servers=127.0.0.1:%d", f.Server.RPC))
		if node, _, err := f.Server.Client.Nodes().Info(harness.NodeID(t, a), nil); err != nil || !node.TLSEnabled {
			t.Fatalf("node %s serves no HTTPS: %+v, %v", name, node, err)
		}
		return a
	})
}

func diskFollows(t *testing.T, f *harness.Fleet, join func(name string) *cluster.Agent) {
	t.Helper()
	harness.Passable(t, f.Dir)
	first := join("first")
	defer f.Purge()
	both := "ephemeral_disk {\n size = 500\n sticky = true\n migrate = true\n}\n"
	id, _ := harness.Run(t, f.Server, harness.Job("keep", "", keeper(both, "1")))
	seen := []string{harness.Await(t, f.Server, id, "running", 1)[0].ID}
	history(t, f.Server, seen) // a task that runs may not have written yet
	join("second")

	harness.Run(t, f.Server, harness.Job("keep", "", keeper(both, "2")))
	seen = append(seen, successor(t, f.Server, id, seen).ID)
	history(t, f.Server, seen)
	if got := harness.CountByNode(harness.Await(t, f.Server, id, "running", 1)); got["first"] != 1 {
		t.Fatalf("the sticky job moved: %v", got)
	}
	if out, err := harness.Command(t, f.Server, "node", "drain", "-enable", "-yes", harness.NodeID(t, first)); err != nil {
		t.Fatalf("node drain: %v\n%s", err, out)
	}
	seen = append(seen, successor(t, f.Server, id, seen).ID)
	history(t, f.Server, seen)
	if got := harness.CountByNode(harness.Await(t, f.Server, id, "running", 1)); got["second"] != 1 {
		t.Errorf("the drained job is on %v", got)
	}
}

// successor waits for a running allocation that is not in seen.
func successor(t *testing.T, a *cluster.Agent, job string, seen []string) *api.AllocationListStub {
	t.Helper()
	var next *api.AllocationListStub
	harness.Within(t, harness.Patience, "a new allocation of "+job+" runs", func() bool {
		for _, al := range harness.Allocs(t, a, job, "running") {
			if !slices.Contains(seen, al.ID) {
				next = al
			}
		}
		return next != nil
	})
	return next
}

// history waits until each file of the last allocation lists all allocations.
func history(t *testing.T, a *cluster.Agent, want []string) {
	t.Helper()
	last := want[len(want)-1]
	for _, file := range []string{"alloc/data/one", "alloc/data/two", "one/local/own", "two/local/own"} {
		var got string
		harness.Within(t, harness.Patience, file+" lists every allocation", func() bool {
			var err error
			got, err = harness.Command(t, a, "alloc", "fs", last, file)
			return err == nil && strings.Count(got, "\n") >= len(want)
		})
		if got != strings.Join(want, "\n")+"\n" {
			t.Errorf("%s of %s has %q, want %q", file, last, got, want)
		}
	}
}
