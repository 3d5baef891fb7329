package jobs_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/e2e/cluster"
	"github.com/open-nomad/open-nomad/e2e/harness"
)

// unveiled is shell with the driver exec2.
func unveiled(script string, extra ...string) string {
	return strings.Replace(harness.Shell(script, extra...), `"raw_exec"`, `"exec2"`, 1)
}

// waitOutput waits for a text in the output of a task and returns the output.
func waitOutput(t *testing.T, a *cluster.Agent, al *api.AllocationListStub, task, want string) string {
	t.Helper()
	var text string
	harness.Within(t, harness.Patience, fmt.Sprintf("task %s writes %q", task, want), func() bool {
		text = outputOf(t, a, al, task)
		return strings.Contains(text, want)
	})
	return text
}

// outputOf returns the output of a task so far.
func outputOf(t *testing.T, a *cluster.Agent, al *api.AllocationListStub, task string) string {
	t.Helper()
	name := filepath.Join(a.Dir, "data", "alloc", al.ID, "alloc", "logs", task+".stdout.0")
	text, err := os.ReadFile(name)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return string(text)
}

const ownNet = "readlink /proc/self/ns/net; "

// The tasks of a group with mode none share a network namespace other than the node's. It persists
// across restarts of a task and of the agent, and is removed with the last task.
func TestNetworkNone(t *testing.T) {
	harness.NeedsRoot(t)
	f := harness.NewFleet(t, "")
	harness.Passable(t, f.Dir)
	a := f.Join("one", "client {\n}\n")
	defer f.Purge()
	network := "network {\n mode = \"none\"\n dns {\n servers = [\"192.0.2.7\"]\n searches = [\"corp.example\"]\n }\n}\n"
	id, _ := harness.Run(t, f.Server, harness.Job("none", `type = "service"`, network+harness.Once+
		harness.Named("a", unveiled(ownNet+"cat /etc/resolv.conf /etc/hosts; exec sleep 3600", `kill_timeout = "1s"`))+
		harness.Named("b", unveiled(ownNet+"echo there; exec sleep 3600", `kill_timeout = "1s"`))))
	al := harness.Await(t, f.Server, id, "running", 1)[0]
	host, err := os.Readlink("/proc/self/ns/net")
	if err != nil {
		t.Fatal(err)
	}
	text := waitOutput(t, a, al, "a", "localhost")
	net, rest, _ := strings.Cut(text, "\n")
	if !strings.HasPrefix(net, "net:[") || net == host {
		t.Errorf("the task is in %q, the node in %q", net, host)
	}
	if !strings.HasPrefix(rest, "nameserver 192.0.2.7\nsearch corp.example\n") || !strings.Contains(rest, "\n127.0.0.1 localhost") {
		t.Errorf("the task sees %q", rest)
	}
	if other := waitOutput(t, a, al, "b", "there"); !strings.HasPrefix(other, net+"\n") {
		t.Errorf("the other task is in %q, want %q", other, net)
	}
	if err := a.Kill(); err != nil {
		t.Fatal(err)
	}
	a = harness.Restart(t, a)
	full, _, err := f.Server.Client.Allocations().Info(al.ID, nil)
	if err != nil {
		t.Fatal(err)
	}
	if n := full.NetworkStatus; n == nil || n.InterfaceName != "lo" {
		t.Errorf("network status = %+v", n)
	}
	harness.Within(t, harness.Patience, "the task restarts",
		func() bool { return f.Server.Client.Allocations().Restart(full, "b", nil) == nil })
	harness.Within(t, harness.Patience, "the task is there again",
		func() bool { return strings.Count(outputOf(t, a, al, "b"), net+"\n") == 2 })
	kept := filepath.Join(a.Dir, "data", "client", "netns")
	if entries, err := os.ReadDir(kept); err != nil || len(entries) != 1 {
		t.Errorf("namespaces: %v, %v, want one", entries, err)
	}
	if _, _, err := f.Server.Client.Jobs().Deregister(id, false, nil); err != nil {
		t.Fatal(err)
	}
	harness.Await(t, f.Server, id, "complete", 1)
	harness.Within(t, harness.Patience, "the namespace is removed", func() bool {
		entries, err := os.ReadDir(kept)
		return err == nil && len(entries) == 0
	})
}

// With the node's network a dns block changes only resolv.conf, only for the task, and the task
// cannot write to it.
func TestDNSOfATask(t *testing.T) {
	harness.NeedsRoot(t)
	a := harness.DevAgent(t)
	before, err := os.ReadFile("/etc/resolv.conf")
	if err != nil {
		t.Skip("this machine has no resolv.conf")
	}
	id, _ := harness.Run(t, a, harness.Job("dns", `type = "batch"`,
		"network {\n dns {\n servers = [\"192.0.2.8\"]\n options = [\"ndots:3\"]\n }\n}\n"+harness.Once+
			unveiled("cat /etc/resolv.conf; echo evil >/etc/resolv.conf && echo WROTE; "+ownNet)))
	al := harness.Await(t, a, id, "complete", 1)[0]
	text := harness.Log(a, al)
	host, _ := os.Readlink("/proc/self/ns/net")
	if !strings.HasPrefix(text, "nameserver 192.0.2.8\n") || !strings.Contains(text, "options ndots:3\n") ||
		strings.Contains(text, "WROTE") || !strings.Contains(text, host) {
		t.Errorf("the task wrote %q", text)
	}
	if after, err := os.ReadFile("/etc/resolv.conf"); err != nil || string(after) != string(before) {
		t.Errorf("the node's resolv.conf is %q now, %v", after, err)
	}
}

// Ports in the resources of a task, their deprecated place, are the node's, and belong to the task.
func TestPortsOfATask(t *testing.T) {
	a := harness.DevAgent(t)
	ports := func(task string, label string) string {
		text := harness.Named(task, harness.Shell("env; exec sleep 3600", `kill_timeout = "1s"`))
		return strings.Replace(text, "memory = 10", "memory = 10\n network {\n mbits = 10\n port "+label+" {}\n }", 1)
	}
	id, _ := harness.Run(t, a, harness.Job("ports", `type = "service"`, harness.Once+ports("t", `"http"`)+ports("b", `"http"`)))
	al := harness.Await(t, a, id, "running", 1)[0]
	full, _, err := a.Client.Allocations().Info(al.ID, nil)
	if err != nil {
		t.Fatal(err)
	}
	of := map[string]*api.NetworkResource{}
	for name, res := range full.AllocatedResources.Tasks {
		if len(res.Networks) == 1 && len(res.Networks[0].DynamicPorts) == 1 {
			of[name] = res.Networks[0]
		}
	}
	if len(of) != 2 || of["t"].DynamicPorts[0].Value == of["b"].DynamicPorts[0].Value || of["t"].DynamicPorts[0].Value < 20000 {
		t.Fatalf("networks = %+v", full.AllocatedResources.Tasks)
	}
	env := environment(t, a, al)
	wantEnv(t, env, map[string]string{
		"NOMAD_PORT_http":   fmt.Sprint(of["t"].DynamicPorts[0].Value),
		"NOMAD_IP_http":     of["t"].IP,
		"NOMAD_ADDR_b_http": fmt.Sprintf("%s:%d", of["b"].IP, of["b"].DynamicPorts[0].Value),
		"NOMAD_PORT_b_http": fmt.Sprint(of["b"].DynamicPorts[0].Value),
	})
}
