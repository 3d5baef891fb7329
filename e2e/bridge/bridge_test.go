package bridge_test

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/internal/testpace"
)

const (
	sleep  = "exec sleep 3600"
	plain  = "mode = \"bridge\"\n port \"http\" {\n to = 8080\n }"
	alone  = plain + "\n isolate = true"
	narrow = plain + "\n egress {\n allow = [\"tcp:8081\"]\n }"
)

// at returns an address of the allocation, and mapped one of the node that leads to it.
func at(al *api.Allocation) string { return net.JoinHostPort(al.NetworkStatus.Address, "8080") }

func at6(al *api.Allocation) string { return net.JoinHostPort(al.NetworkStatus.AddressIPv6, "8080") }

func mapped(al *api.Allocation) string {
	p := al.AllocatedResources.Shared.Ports[0]
	return fmt.Sprintf("%s:%d", p.HostIP, p.Value)
}

// Two groups reach each other, a third one is isolated. All are found again after a crash of the agent,
// and leave nothing.
func TestBridge(t *testing.T) {
	n := newNode(t, "")
	n.run("web", group("a", plain+"\n hostname = \"a-$${NOMAD_ALLOC_INDEX}.example\"\n dns {\n servers = [\"192.0.2.53\"]\n }", "exec2",
		"hostname; cat /etc/hosts /etc/resolv.conf; echo $NOMAD_ALLOC_ADDR_http $NOMAD_ALLOC_INTERFACE_http $NOMAD_PORT_http; "+sleep),
		group("b", plain, "exec2", sleep), group("c", alone, "exec2", sleep), group("d", narrow, "exec2", sleep))
	all := n.allocs("web", "running", 4)
	a, b, c, d := all["a"], all["b"], all["c"], all["d"]
	check := func() {
		t.Helper()
		for _, to := range []string{at(b), at6(b)} {
			n.want(true, n.space(a), to)
			n.want(false, n.space(c), to)
			n.want(false, n.space(d), to)
		}
		for _, to := range []string{at(c), at6(c), at(d), at6(d)} {
			n.want(false, n.space(a), to)
			n.want(true, "", to) // the node, such as a check
		}
		for _, al := range all {
			n.want(true, "", mapped(al))
		}
		gateway := "172.26.64.1"
		n.want(true, n.space(c), gateway+":8082")
		n.want(false, n.space(d), gateway+":8082")
		n.want(true, n.space(d), gateway+":8081")
		// Published ports of a neighbour, at an address of the node.
		port := all["b"].AllocatedResources.Shared.Ports[0].Value
		n.want(false, n.space(c), fmt.Sprintf("%s:%d", gateway, port))
		n.want(true, n.space(a), fmt.Sprintf("%s:%d", gateway, port))
	}
	for _, al := range all {
		n.serve(n.space(al), 8080)
	}
	n.serve("", 8081)
	n.serve("", 8082)
	check()
	logs := filepath.Join(n.dir, "data", "alloc", a.ID, "alloc", "logs", "t.stdout.0")
	text, err := os.ReadFile(logs)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"a-0.example\n", "127.0.0.1 localhost\n", a.NetworkStatus.Address + " a-0.example\n",
		a.NetworkStatus.AddressIPv6 + " a-0.example\n",
		"nameserver 192.0.2.53\n", at(a) + " eth0 8080\n"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("the task wrote %q, want %q", text, want)
		}
	}
	if name, err := os.Hostname(); err != nil || strings.HasPrefix(string(text), name+"\n") {
		t.Errorf("the task has the node's name %q, %v", name, err)
	}
	n.crash()
	after := n.allocs("web", "running", 4)
	for group, al := range after {
		if al.ID != all[group].ID || al.NetworkStatus.Address != all[group].NetworkStatus.Address {
			t.Errorf("group %s: allocation %s at %v after the crash", group, al.ID, al.NetworkStatus)
		}
	}
	check()
	if _, _, err := n.Client.Jobs().Deregister("web", false, nil); err != nil {
		t.Fatal(err)
	}
	n.allocs("web", "complete", 4)
	n.clean(all)
}

// An agent that was killed while allocations ran removes the networks of those that stopped meanwhile.
func TestStoppedWhileTheAgentIsDown(t *testing.T) {
	n := newNode(t, "bridge_network_isolate = true")
	n.run("web", group("a", plain, "exec2", sleep), group("b", plain, "exec2", sleep))
	all := n.allocs("web", "running", 2)
	n.serve(n.space(all["b"]), 8080)
	n.want(true, "", at(all["b"]))
	n.want(false, n.space(all["a"]), at(all["b"])) // isolated by default
	if _, _, err := n.Client.Jobs().Deregister("web", false, nil); err != nil {
		t.Fatal(err)
	}
	n.crash()
	n.allocs("web", "complete", 2)
	n.clean(all)
}

// A task of raw_exec, and a command in it, are in the network namespace of their group. A dns block has no effect on it.
func TestRawExec(t *testing.T) {
	n := newNode(t, "")
	const show = "readlink /proc/self/ns/net"
	n.run("raw", group("r", plain+"\n dns {\n servers = [\"192.0.2.53\"]\n }", "raw_exec", show+"; "+sleep))
	all := n.allocs("raw", "running", 1)
	r := all["r"]
	info, err := os.Stat(n.space(r))
	if err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprintf("net:[%d]\n", info.Sys().(*syscall.Stat_t).Ino)
	logs := filepath.Join(n.dir, "data", "alloc", r.ID, "alloc", "logs", "t.stdout.0")
	testpace.Until(t, "the task has written "+want, func() bool {
		text, err := os.ReadFile(logs)
		return err == nil && string(text) == want
	})
	if got := n.exec(r, "/bin/sh", "-c", show); got != want {
		t.Errorf("alloc exec = %q, want %q", got, want)
	}
	n.serve(n.space(r), 8080)
	n.want(true, "", mapped(r))
	n.crash()
	n.allocs("raw", "running", 1)
	if _, _, err := n.Client.Jobs().Deregister("raw", false, nil); err != nil {
		t.Fatal(err)
	}
	n.allocs("raw", "complete", 1)
	n.clean(all)
}

// A network that is not there, and a port of the agent.
func TestRefused(t *testing.T) {
	n := newNode(t, "")
	n.run("unknown", group("g", "mode = \"cni/unknown\"", "exec2", sleep))
	n.waits("unknown", `missing network "cni/unknown"`)
	// The mapping of the port of the HTTP API would take the requests of operators, with their tokens.
	_, api, err := net.SplitHostPort(n.Address()[len("http://"):])
	if err != nil {
		t.Fatal(err)
	}
	n.run("thief", group("g", plain+"\nport \"api\" {\n static = "+api+"\n to = 9000\n}", "exec2", sleep))
	n.waits("thief", "network: reserved port collision api="+api)
}

// Without plugins a job waits with a reason. A broken configuration of CNI is reported, and the node
// stays up.
func TestMissingPlugins(t *testing.T) {
	dir := t.TempDir()
	broken := filepath.Join(dir, "10-broken.conflist")
	if err := os.WriteFile(broken, []byte(`{"name": "broken", `), 0o600); err != nil {
		t.Fatal(err)
	}
	n := newNode(t, fmt.Sprintf("cni_path = %q\n cni_config_dir = %q", filepath.Join(dir, "none"), dir))
	n.run("web", group("g", plain, "exec2", sleep))
	n.waits("web", "${attr.plugins.cni.version.bridge} semver >= 0.4.0")
	id, err := n.NodeID()
	if err != nil {
		t.Fatal(err)
	}
	info, _, err := n.Client.Nodes().Info(id, nil)
	if err != nil || info.Status != "ready" || !strings.Contains(info.Attributes["network.cni.error"], broken) {
		t.Errorf("node = %v, %q", err, info.Attributes["network.cni.error"])
	}
	text, err := os.ReadFile(n.log)
	if err != nil || !strings.Contains(string(text), broken) || !strings.Contains(string(text), "correct or remove the file") {
		t.Errorf("log = %s, %v", text, err)
	}
}

// A CNI plugin that prints rubbish fails the allocation with an event that names it. The node stays up.
func TestPluginPrintsRubbish(t *testing.T) {
	dir := t.TempDir()
	n := newNode(t, fmt.Sprintf("cni_path = %q\n cni_config_dir = %q", dir+":/opt/cni/bin:/usr/lib/cni", dir))
	for name, text := range map[string]string{
		"rubbish":   "#!/bin/sh\necho rubbish\n",
		"10-x.conf": `{"cniVersion": "0.4.0", "name": "x", "type": "rubbish"}`,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := unix.Kill(n.Pid(), unix.SIGHUP); err != nil { // the networks are read again
		t.Fatal(err)
	}
	testpace.Until(t, "the node has the network", func() bool {
		id, err := n.NodeID()
		if err != nil {
			return false
		}
		info, _, err := n.Client.Nodes().Info(id, nil)
		return err == nil && slices.ContainsFunc(info.NodeResources.Networks, func(r *api.NetworkResource) bool { return r.Mode == "cni/x" })
	})
	n.run("web", group("g", "mode = \"cni/x\"", "exec2", sleep))
	al := n.allocs("web", "failed", 1)["g"]
	var events []string
	for _, state := range al.TaskStates {
		for _, e := range state.Events {
			events = append(events, e.DisplayMessage)
		}
	}
	if text := al.ClientDescription + strings.Join(events, "\n"); !strings.Contains(text,
		`CNI plugin "rubbish" printed "rubbish\n", which is not JSON: replace `+dir) {
		t.Errorf("the allocation has the events %q", text)
	}
	id, err := n.NodeID()
	if err != nil {
		t.Fatal(err)
	}
	if info, _, err := n.Client.Nodes().Info(id, nil); err != nil || info.Status != "ready" {
		t.Errorf("node = %+v, %v", info, err)
	}
}

// waits checks that a job is blocked for a reason.
func (n *node) waits(job, reason string) {
	n.t.Helper()
	testpace.Until(n.t, job+" is blocked: "+reason, func() bool {
		evals, _, err := n.Client.Jobs().Evaluations(job, nil)
		if err != nil {
			return false
		}
		for _, e := range evals {
			for _, m := range e.FailedTGAllocs {
				if m.ConstraintFiltered[reason]+m.DimensionExhausted[reason] > 0 {
					return true
				}
			}
		}
		return false
	})
}
