package jobs_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/e2e/cluster"
	"github.com/open-nomad/open-nomad/e2e/harness"
	"github.com/open-nomad/open-nomad/internal/testdocker"
	"github.com/open-nomad/open-nomad/internal/testnet"
)

// forwarded returns what a port of the allocation sends, without an end of the input.
func forwarded(t *testing.T, a *cluster.Agent, al *api.AllocationListStub, port string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	r, w := io.Pipe()
	defer w.Close()
	var out bytes.Buffer
	err := a.Client.Allocations().PortForward(ctx, &api.Allocation{ID: al.ID}, port, struct {
		io.Reader
		io.Writer
	}{r, &out}, nil)
	return out.String(), err
}

// freePort returns a free port of 127.0.0.1 for a task.
func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", testnet.Any)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

// answers is a script that sends a text to everyone who connects to the port of a task.
const answers = "import socket,os\ns=socket.create_server(('127.0.0.1',int(os.environ['NOMAD_PORT_x'])))\nwhile True:\n c=s.accept()[0]\n c.sendall(b'from the task')\n c.close()\n"

// TestPortForwardReachesTheAllocationOnly forwards ports of groups with the network of the node. A program of the node
// that listens on the port of an allocation is not reached, whatever the driver of its tasks is.
func TestPortForwardReachesTheAllocationOnly(t *testing.T) {
	harness.NeedsRoot(t)
	a := harness.DevAgent(t)
	node := testnet.Listen(t)
	go serveSecret(node)
	static := func(port int) string { return fmt.Sprintf("network {\n port \"x\" {\n static = %d\n }\n}\n", port) }
	secret := node.Addr().(*net.TCPAddr).Port
	python := func(driver string) string {
		return strings.Replace(harness.Shell("printf '"+strings.ReplaceAll(answers, "'", `"`)+
			"' >$NOMAD_TASK_DIR/x.py; exec python3 $NOMAD_TASK_DIR/x.py", `kill_timeout = "1s"`), `"raw_exec"`, `"`+driver+`"`, 1)
	}
	for _, driver := range []string{"raw_exec", "exec2"} {
		harness.Run(t, a, harness.Job("task-"+driver, `type = "service"`, static(freePort(t))+harness.Once+python(driver)))
		al := harness.Await(t, a, "task-"+driver, "running", 1)[0]
		harness.Within(t, harness.Patience, "the task of "+driver+" is reached", func() bool {
			got, err := forwarded(t, a, al, "x")
			return err == nil && got == "from the task"
		})
	}
	for _, driver := range []string{"raw_exec", "exec2"} {
		harness.Run(t, a, harness.Job("node-"+driver, `type = "service"`,
			static(secret)+harness.Once+strings.Replace(harness.Shell("exec sleep 3600", `kill_timeout = "1s"`), `"raw_exec"`, `"`+driver+`"`, 1)))
		wantForeign(t, a, harness.Await(t, a, "node-"+driver, "running", 1)[0])
		harness.StopAndWait(t, a, "node-"+driver, 1)
	}
}

// TestPortForwardDocker is the same for containers with the network of the node.
func TestPortForwardDocker(t *testing.T) {
	daemon := testdocker.Start(t)
	dir := harness.TempDir(t)
	cfg := filepath.Join(dir, "docker.hcl")
	harness.WriteFile(t, cfg, fmt.Sprintf(twoDockers, daemon.Endpoint(), testdocker.Pause))
	a := harness.Start(t, cluster.Options{Dir: dir,
		Args: []string{"-server", "-client", "-bootstrap-expect=1", "-bind=127.0.0.1", "-data-dir=" + filepath.Join(dir, "data"),
			"-config=" + cfg}})
	defer harness.PurgeAll(t, a)
	node, err := net.Listen("tcp", "0.0.0.0:0") // the address of the node may be any
	if err != nil {
		t.Fatal(err)
	}
	defer node.Close()
	go serveSecret(node)
	group := func(network string) string { return "network {\n " + network + "\n}\n" }
	serve := "while :; do echo from the task | nc -l -p 8099 >/dev/null 2>&1; done"
	for name, c := range map[string]struct{ driver, network, more, port string }{
		"own network":    {"docker", `mode = "none"`, "", "8099"},
		"node's network": {"docker-privileged", "port \"x\" {\n static = 8099\n }", `network_mode = "host"`, "x"},
	} {
		id := strings.Fields(name)[0][:3]
		harness.Run(t, a, harness.Job(id, "", group(c.network)+harness.DockerTask(c.driver, serve, c.more)))
		al := harness.Await(t, a, id, "running", 1)[0]
		harness.Within(t, harness.Patience, "the container with its "+name+" is reached", func() bool {
			got, _ := forwarded(t, a, al, c.port)
			return strings.Contains(got, "from the task")
		})
		harness.StopAndWait(t, a, id, 1)
	}
	secret := fmt.Sprintf("port \"x\" {\n static = %d\n }", node.Addr().(*net.TCPAddr).Port)
	harness.Run(t, a, harness.Job("secret", "", group(secret)+harness.DockerTask("docker-privileged", "sleep 3600", `network_mode = "host"`)))
	wantForeign(t, a, harness.Await(t, a, "secret", "running", 1)[0])
}

func serveSecret(l net.Listener) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		fmt.Fprint(c, "SECRET OF THE NODE")
		c.Close()
	}
}

// wantForeign fails unless the port x is refused because it is not of the allocation.
func wantForeign(t *testing.T, a *cluster.Agent, al *api.AllocationListStub) {
	t.Helper()
	got, err := forwarded(t, a, al, "x")
	if err == nil || !strings.Contains(err.Error(), "not a process of the allocation") || strings.Contains(got, "SECRET") {
		t.Errorf("port-forward to a program of the node = %q, %v", got, err)
	}
}

// TestAgentPortIsNotPlaced registers jobs that ask for the port of the HTTP API, which would receive the tokens of
// operators.
func TestAgentPortIsNotPlaced(t *testing.T) {
	a := harness.DevAgent(t)
	_, port, err := net.SplitHostPort(strings.TrimPrefix(a.Client.Address(), "http://"))
	if err != nil {
		t.Fatal(err)
	}
	dir := harness.TempDir(t)
	file := harness.InstanceJob(t, dir, "thief", "network {\n port \"api\" {\n static = "+port+"\n }\n}\n"+harness.Shell("sleep 3600"))
	out, _ := harness.Command(t, a, "job", "plan", file)
	if !strings.Contains(out, "reserved port collision api="+port) {
		t.Errorf("job plan with the port of the API:\n%s", out)
	}
}
