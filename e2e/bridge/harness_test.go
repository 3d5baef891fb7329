package bridge_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/client/cni"
	"github.com/open-nomad/open-nomad/e2e/cluster"
	"github.com/open-nomad/open-nomad/internal/testnet"
	"github.com/open-nomad/open-nomad/internal/testpace"
	"github.com/open-nomad/open-nomad/jobspec"
)

// patience bounds the removal of control groups.
const patience = time.Minute

func TestMain(m *testing.M) { os.Exit(testnet.Private(m)) }

// node is an agent that is server and client.
type node struct {
	*cluster.Agent
	t   *testing.T
	dir string
	log string

	options cluster.Options
}

// newNode starts an agent with additions to the client block, and more blocks.
func newNode(t *testing.T, client string, more ...string) *node {
	t.Helper()
	testnet.NeedBridge(t, cni.PluginDirs("", os.Getenv("CNI_PATH")))
	bin := cluster.Built(t)
	dir, err := os.MkdirTemp("", "bridge")
	if err != nil {
		t.Fatal(err)
	}
	slice := filepath.Base(dir) + ".slice"
	n := &node{t: t, dir: dir, log: filepath.Join(dir, "agent.log")}
	t.Cleanup(func() {
		if t.Failed() {
			text, _ := os.ReadFile(n.log)
			t.Logf("the agent's log:\n%s", text[max(0, len(text)-8<<10):])
		}
		if n.Agent != nil {
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			defer cancel()
			if err := errors.Join(n.Purge(ctx), n.Stop()); err != nil {
				t.Error(err)
			}
		}
		spaces, _ := filepath.Glob(filepath.Join(dir, "data", "client", "netns", "*")) // the pattern is valid
		for _, space := range spaces {                                                 // a later test would find their interfaces
			t.Errorf("the agent has left the namespace %s; unmount it: %v", space, unix.Unmount(space, unix.MNT_DETACH))
		}
		if err := errors.Join(cluster.RemoveGroups(slice, patience), os.RemoveAll(dir)); err != nil {
			t.Error(err)
		}
		_ = exec.Command("ip", "link", "del", "nomad").Run() // may not exist
	})
	cfg := filepath.Join(dir, "agent.hcl")
	text := fmt.Sprintf("client {\n  cgroup_parent = %q\n  network_interface = \"lo\"\n"+
		"  bridge_network_subnet_ipv6 = \"fd00:77::/64\"\n  %s\n}\nplugin \"raw_exec\" {\n config {\n enabled = true\n }\n}\n", slice, client) + strings.Join(more, "\n")
	if err := errors.Join(os.Chmod(dir, 0o755), os.WriteFile(cfg, []byte(text), 0o600)); err != nil {
		t.Fatal(err)
	}
	n.options = cluster.Options{
		Bin: bin,
		Dir: filepath.Join(dir, "agent"),
		Args: []string{"-server", "-client", "-bootstrap-expect=1", "-bind=127.0.0.1",
			"-data-dir=" + filepath.Join(dir, "data"), "-config=" + cfg},
	}
	n.start(n.options)
	return n
}

func (n *node) start(o cluster.Options) {
	n.t.Helper()
	log, err := os.OpenFile(n.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		n.t.Fatal(err)
	}
	defer log.Close()
	o.Log = log
	if n.Agent, err = cluster.Start(n.t.Context(), o); err != nil {
		n.t.Fatal(err)
	}
}

// crash kills the agent and starts it again.
func (n *node) crash() {
	n.t.Helper()
	if err := n.Kill(); err != nil {
		n.t.Fatal(err)
	}
	n.start(n.Options)
}

// run registers a job with the groups.
func (n *node) run(id string, groups ...string) {
	n.t.Helper()
	if _, _, err := n.Client.Jobs().Register(n.parse(id, groups...), nil); err != nil {
		n.t.Fatal(err)
	}
}

func (n *node) parse(id string, groups ...string) *api.Job {
	n.t.Helper()
	text := fmt.Sprintf("job %q {\n%s\n}\n", id, strings.Join(groups, "\n"))
	job, err := jobspec.Parse(jobspec.Config{Filename: id, Source: []byte(text)})
	if err != nil {
		n.t.Fatal(err)
	}
	return job
}

// group returns a group with a network block and a task.
func group(name, network, driver, script string) string {
	return fmt.Sprintf("group %q {\n network {\n%s\n }\n restart {\n attempts = 0\n mode = \"fail\"\n }\n reschedule {\n"+
		" attempts = 0\n unlimited = false\n }\n"+
		" task \"t\" {\n driver = %q\n kill_timeout = \"1s\"\n config {\n command = \"/bin/bash\"\n args = [\"-c\", %q]\n }\n"+
		" resources {\n cpu = 10\n memory = 32\n }\n }\n}\n",
		name, network, driver, strings.ReplaceAll(script, "${", "$${"))
}

// allocs waits until each group of the job has an allocation of the status, and returns them by group.
func (n *node) allocs(job, status string, groups int) map[string]*api.Allocation {
	n.t.Helper()
	out := map[string]*api.Allocation{}
	testpace.Until(n.t, "the allocations of "+job+" are "+status, func() bool {
		clear(out)
		list, _, err := n.Client.Jobs().Allocations(job, false, nil)
		if err != nil {
			return false
		}
		for _, stub := range list {
			al, _, err := n.Client.Allocations().Info(stub.ID, nil)
			if err == nil && al.ClientStatus == "failed" && status != "failed" {
				n.t.Fatalf("allocation of group %s: %s, %+v", al.TaskGroup, al.ClientDescription, al.TaskStates["t"])
			}
			if err == nil && al.ClientStatus == status {
				out[al.TaskGroup] = al
			}
		}
		return len(out) == groups
	})
	return out
}

// exec runs a command in the task of an allocation and returns what it writes.
func (n *node) exec(al *api.Allocation, command ...string) string {
	n.t.Helper()
	var out bytes.Buffer
	code, err := n.Client.Allocations().Exec(n.t.Context(), al, "t", false, command, strings.NewReader(""), &out, &out, nil, nil)
	if err != nil {
		n.t.Fatalf("alloc exec %q: %v", command, err)
	}
	if code != 0 {
		fmt.Fprintf(&out, "exit code %d\n", code)
	}
	return out.String()
}

// space returns the path of an allocation's network namespace.
func (n *node) space(al *api.Allocation) string {
	return filepath.Join(n.dir, "data", "client", "netns", al.ID)
}

// serve answers TCP connections to a port in a network namespace.
func (n *node) serve(space string, port int) {
	n.t.Helper()
	var ln net.Listener
	err := testnet.Inside(space, func() (err error) {
		ln, err = net.Listen("tcp", fmt.Sprintf("[::]:%d", port))
		return err
	})
	if err != nil {
		n.t.Fatal(err)
	}
	n.t.Cleanup(func() { ln.Close() })
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			_, _ = io.WriteString(c, "hello") // the client sees a failure
			c.Close()
		}
	}()
}

// reach reports whether a connection from a network namespace gets an answer.
func reach(space, addr string) bool {
	answer := make([]byte, 5)
	err := testnet.Inside(space, func() error {
		c, err := net.DialTimeout("tcp", addr, time.Second)
		if err != nil {
			return err
		}
		defer c.Close()
		_ = c.SetDeadline(time.Now().Add(time.Second)) // on a new connection
		_, err = io.ReadFull(c, answer)
		return err
	})
	return err == nil && string(answer) == "hello"
}

// want waits until the address is reachable, or checks that it is not.
func (n *node) want(reachable bool, space, addr string) {
	n.t.Helper()
	if reachable {
		testpace.Until(n.t, addr+" is reachable", func() bool { return reach(space, addr) })
	} else if reach(space, addr) {
		n.t.Errorf("%s is reachable from %q", addr, space)
	}
}

// clean waits until nothing of the allocations exists.
func (n *node) clean(allocs map[string]*api.Allocation) {
	n.t.Helper()
	var left []string
	n.t.Cleanup(func() {
		if len(left) > 0 {
			n.t.Logf("remaining: %q", left)
		}
	})
	testpace.Until(n.t, "nothing remains", func() bool {
		left = nil
		for _, name := range []string{"iptables-save", "ip6tables-save"} {
			rules, err := exec.Command(name).Output()
			if err != nil {
				n.t.Fatal(err)
			}
			for line := range strings.Lines(string(rules)) {
				for _, al := range allocs {
					if strings.Contains(line, al.ID) || strings.Contains(line, " "+al.NetworkStatus.Address+"/32") {
						left = append(left, line)
					}
				}
			}
		}
		for _, al := range allocs {
			for _, path := range []string{n.space(al), "/run/cni/nomad/" + al.NetworkStatus.Address,
				"/run/cni/nomad/" + al.NetworkStatus.AddressIPv6,
				filepath.Join(n.dir, "data", "client", "network", al.ID+".json")} {
				if _, err := os.Lstat(path); err == nil {
					left = append(left, path)
				}
			}
		}
		links, err := exec.Command("ip", "-o", "link", "show", "type", "veth").Output()
		if err != nil || len(links) > 0 {
			left = append(left, string(links))
		}
		return len(left) == 0
	})
}
