package nodes_test

import (
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/e2e/cluster"
	"github.com/open-nomad/open-nomad/e2e/harness"
	"github.com/open-nomad/open-nomad/internal/testbuffer"
)

// elsewhere writes a program that runs nomad on a machine with another boot ID: in a mount
// namespace with another boot_id file.
func elsewhere(t *testing.T, dir string) string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("another boot needs a mount namespace: run as root")
	}
	nomad, err := exec.LookPath("nomad")
	if err != nil {
		t.Fatal(err)
	}
	boot, name := filepath.Join(dir, "boot_id"), filepath.Join(dir, "elsewhere")
	harness.WriteFile(t, boot, "5d3d4ae0-7f8c-4b55-9a3a-8d52e1a1b2c3\n")
	script := `exec unshare -m --propagation private sh -c 'mount --bind "$0" /proc/sys/kernel/random/boot_id && exec "$@"' ` + boot + " " +
		nomad + " \"$@\"\n"
	if err := os.WriteFile(name, []byte("#!/bin/sh\n"+script), 0o700); err != nil {
		t.Fatal(err)
	}
	return name
}

// runAgent runs an agent that may not become ready; it ends with the test, or with end.
func runAgent(t *testing.T, bin string, a *cluster.Agent, data string) (out *testbuffer.Buffer, end func()) {
	t.Helper()
	out = &testbuffer.Buffer{}
	ports := filepath.Join(filepath.Dir(data), "free.hcl")
	harness.WriteFile(t, ports, "ports {\n http = 0\n rpc = 0\n serf = 0\n}\n")
	args := []string{"agent", "-config=" + ports}
	for _, arg := range a.Args {
		if !strings.HasPrefix(arg, "-data-dir=") {
			args = append(args, arg)
		}
	}
	cmd := exec.Command(bin, append(args, "-data-dir="+data)...)
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	end = sync.OnceFunc(func() {
		cmd.Process.Kill() // fails if the agent has ended
		cmd.Wait()
	})
	t.Cleanup(end)
	return out, end
}

// A machine is created from a copy of a live node's disk. The copy is rejected with instructions,
// without effect on the node; following them makes it work. A killed agent returns at once, and the
// files of a silent node can be restored on another machine.
func TestCopyOfANode(t *testing.T) {
	f := harness.NewFleet(t, "server {\n  min_heartbeat_ttl = \"2s\"\n  heartbeat_grace = \"20s\"\n}\n")
	n := f.Join("worker", "client {}\n")
	// A batch job has no deployment: its allocation does not change while it runs.
	id, _ := harness.Run(t, f.Server, harness.Job("web", `type = "batch"`, harness.Shell("echo $$; exec sleep 3600")))
	defer f.Purge()
	al := harness.Await(t, f.Server, id, "running", 1)[0]
	pid, node := harness.WaitLog(t, f.Server, al), harness.WaitNodeStatus(t, f.Server, harness.NodeID(t, n), "ready")

	bin, data := elsewhere(t, f.Dir), filepath.Join(mkdirs(t, f.Dir, "copy"), "data")
	if out, err := exec.Command("cp", "-a", filepath.Join(n.Dir, "data"), data).CombinedOutput(); err != nil {
		t.Fatalf("copy the disk: %v: %s", err, out)
	}
	out, end := runAgent(t, bin, n, data)
	harness.Within(t, harness.Patience, "the copy is rejected three times",
		func() bool { return strings.Count(out.String(), "node ID is in use by another agent") >= 3 })
	for _, text := range []string{"runs on another machine", "remove client-id and secret-id from its client state directory"} {
		if !strings.Contains(out.String(), text) {
			t.Errorf("the copy does not say %q:\n%s", text, out)
		}
	}
	before := tokenID(t, f.Server, node.ID)
	if _, err := f.Server.Client.Nodes().Identity().Renew(&api.NodeIdentityRenewRequest{NodeID: node.ID}, nil); err != nil {
		t.Fatal(err)
	}
	harness.Within(t, harness.Patience, "the original beats on, and is given a new identity",
		func() bool { return tokenID(t, f.Server, node.ID) != before && healthy(n) })
	now := harness.WaitNodeStatus(t, f.Server, node.ID, "ready")
	got, _, err := f.Server.Client.Allocations().Info(al.ID, nil)
	if err != nil || got.ModifyIndex != al.ModifyIndex || !reflect.DeepEqual(now, node) || harness.WaitLog(t, f.Server, al) != pid {
		t.Errorf("the original was disturbed: %v, its node %+v was %+v", err, now, node)
	}
	if strings.Contains(harness.FileText(t, filepath.Join(n.Dir, "agent.log")), "in use by another") {
		t.Error("the original was rejected")
	}
	end()

	// Follow the instructions.
	for _, name := range []string{"client-id", "secret-id"} {
		if err := os.Remove(filepath.Join(data, "client", name)); err != nil {
			t.Fatal(err)
		}
	}
	out, end = runAgent(t, bin, n, data)
	harness.Within(t, harness.Patience, "the mended copy is a node of its own",
		func() bool { return strings.Contains(out.String(), "node is ready") })
	if nodes, _, err := f.Server.Client.Nodes().List(nil); err != nil || len(nodes) != 2 {
		t.Errorf("there are %d nodes, %v, want 2", len(nodes), err)
	}
	end()

	// A restarted agent after a kill has to wait for nothing.
	if err := n.Kill(); err != nil {
		t.Fatal(err)
	}
	begun := time.Now()
	n = harness.Restart(t, n)
	t.Logf("a killed agent is ready %v after its start", time.Since(begun))
	if log := harness.FileText(t, filepath.Join(f.Server.Dir, "agent.log")); strings.Count(log, "rejected agent") != strings.Count(log,
		"runs on another machine") {
		t.Error("the restarted agent was rejected")
	}
	if again := harness.OnlyAlloc(t, f.Server, id); again.ID != al.ID || harness.WaitLog(t, f.Server, al) != pid {
		t.Error("the restart cost the task")
	}
}

// A backup of a node is restored on another machine, which replaces the node once it is silent.
func TestRestoredNode(t *testing.T) {
	f := harness.NewFleet(t, "server {\n  min_heartbeat_ttl = \"1s\"\n  heartbeat_grace = \"5s\"\n}\n")
	n := f.Join("worker", "client {}\n")
	id := harness.NodeID(t, n)
	bin, data := elsewhere(t, f.Dir), filepath.Join(mkdirs(t, f.Dir, "backup"), "data")
	if err := n.Kill(); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("cp", "-a", filepath.Join(n.Dir, "data"), data).CombinedOutput(); err != nil {
		t.Fatalf("back up the disk: %v: %s", err, out)
	}
	out, _ := runAgent(t, bin, n, data)
	harness.Within(t, harness.Patience, "the backup takes the node's place",
		func() bool { return strings.Contains(out.String(), "node is ready") })
	harness.WaitNodeStatus(t, f.Server, id, "ready")
	jobID, _ := harness.Run(t, f.Server, harness.Job("web", "", harness.Shell("exec sleep 3600")))
	defer f.Purge()
	harness.Await(t, f.Server, jobID, "running", 1)
}

// tokenID returns the ID of the identity of a node's agent.
func tokenID(t *testing.T, srv *cluster.Agent, node string) any {
	t.Helper()
	got, err := srv.Client.Nodes().Identity().Get(&api.NodeIdentityGetRequest{NodeID: node}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return got.Claims["jti"]
}

// healthy reports whether an agent and its node are healthy.
func healthy(a *cluster.Agent) bool {
	resp, err := http.Get(a.Address() + "/v1/agent/health")
	if err != nil {
		return false
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	return err == nil && resp.StatusCode == http.StatusOK
}

func mkdirs(t *testing.T, parts ...string) string {
	t.Helper()
	name := filepath.Join(parts...)
	harness.Mkdir(t, name)
	return name
}
