package killed_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/client/cni"
	"github.com/open-nomad/open-nomad/e2e/cluster"
	"github.com/open-nomad/open-nomad/internal/testnet"
	"github.com/open-nomad/open-nomad/internal/testpace"
	"github.com/open-nomad/open-nomad/jobspec"
)

// patience bounds the removal of control groups and jobs.
const patience = time.Minute

func TestMain(m *testing.M) { os.Exit(testnet.Private(m)) }

// fleet is a server and its clients, as separate agents.
type fleet struct {
	t       *testing.T
	dir     string
	slice   string
	bin     string
	plugins string // the directory of the real CNI plugins
	server  *cluster.Agent
	rpc     *wire // between the clients and the server
	nodes   []*node
	wires   []*wire
	steps   int // that cross has begun
}

// newFleet starts a server.
func newFleet(t *testing.T) *fleet {
	t.Helper()
	plugins := testnet.NeedBridge(t, cni.PluginDirs("", os.Getenv("CNI_PATH")), "nft", "perl")
	bin := cluster.Built(t)
	dir, err := os.MkdirTemp("", "killed")
	if err == nil {
		err = os.Chmod(dir, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	f := &fleet{t: t, dir: dir, slice: filepath.Base(dir) + ".slice", bin: bin, plugins: plugins}
	t.Cleanup(f.end)
	f.rpc = newWire(f)
	f.startServer(cluster.Options{
		Bin: bin,
		Dir: filepath.Join(dir, "server"),
		Args: []string{"-server", "-bootstrap-expect=1", "-bind=127.0.0.1",
			"-data-dir=" + filepath.Join(dir, "server", "data"),
			"-config=" + f.write("server.hcl", fmt.Sprintf("advertise {\n rpc = %q\n}\n", f.rpc.addr()))},
	})
	return f
}

// startServer starts the server, or starts it again.
func (f *fleet) startServer(o cluster.Options) {
	f.t.Helper()
	f.server = f.start(o, "server.log")
	f.rpc.lead(fmt.Sprintf("127.0.0.1:%d", f.server.RPC))
}

func (f *fleet) start(o cluster.Options, log string) *cluster.Agent {
	f.t.Helper()
	a, err := f.tryStart(f.t.Context(), o, log)
	if err != nil {
		f.t.Fatal(err)
	}
	return a
}

func (f *fleet) tryStart(ctx context.Context, o cluster.Options, log string) (*cluster.Agent, error) {
	out, err := os.OpenFile(filepath.Join(f.dir, log), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer out.Close()
	o.Log = out
	return cluster.Start(ctx, o)
}

// write writes a file of the fleet and returns its path.
func (f *fleet) write(name, text string) string {
	f.t.Helper()
	path := filepath.Join(f.dir, name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		f.t.Fatal(err)
	}
	return path
}

// end ends all agents and their tasks.
func (f *fleet) end() {
	if f.t.Failed() {
		f.showLogs()
	}
	errs := []error{f.revive()}
	if f.server != nil {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		errs = append(errs, f.server.Purge(ctx), f.awaitRemoval())
	}
	for _, n := range f.nodes {
		errs = append(errs, n.Stop())
	}
	if f.server != nil {
		errs = append(errs, f.server.Stop())
	}
	err := errors.Join(append(errs, cluster.RemoveGroups(f.slice, patience))...)
	if err != nil && !f.t.Failed() {
		f.showLogs()
	}
	if err := errors.Join(err, os.RemoveAll(f.dir)); err != nil {
		f.t.Error(err)
	}
	for _, w := range f.wires {
		w.close()
	}
	for _, n := range f.nodes {
		_ = exec.Command("ip", "link", "del", n.bridge).Run() // may not exist
	}
}

// revive starts the agents that a failed test has not started again. Otherwise their tasks and networks would remain, and
// the next tests would find no free users and ports.
func (f *fleet) revive() error {
	var errs []error
	for _, n := range f.nodes {
		if !n.Ended() {
			continue
		}
		a, err := f.tryStart(context.Background(), n.Options, n.name+".log")
		if err == nil {
			n.Agent = a
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// awaitRemoval waits until the networks of purged jobs are removed, which is after the end of their tasks. The next
// test uses the same ports.
func (f *fleet) awaitRemoval() error {
	var left []string
	met := func() bool {
		left = nil
		for _, n := range f.nodes {
			found, _ := filepath.Glob(filepath.Join(n.data, "client", "network", "*.json")) // the pattern is valid
			left = append(left, found...)
		}
		return len(left) == 0
	}
	tick := time.NewTicker(dialPause)
	defer tick.Stop()
	for begun := time.Now(); !met(); <-tick.C {
		if time.Since(begun) > patience {
			return fmt.Errorf("networks remain: %q", left)
		}
	}
	return nil
}

func (f *fleet) showLogs() {
	logs, _ := filepath.Glob(filepath.Join(f.dir, "*.log"))
	more, _ := filepath.Glob(filepath.Join(f.dir, "*", "data", "client", "supervise", "log"))
	for _, file := range append(logs, more...) {
		text, err := os.ReadFile(file)
		f.t.Logf("%s, %v:\n%s", file, err, text[max(0, len(text)-6<<10):])
	}
}

// node is a client of the fleet.
type node struct {
	*cluster.Agent
	*fleet
	name      string
	id        string
	bridge    string
	data      string // the data directory
	volumes   string // the directory of dynamic volumes
	gate      *gate
	http      *wire // to the node's HTTP API, for other nodes
	bystander *api.Allocation
	pid       string // of the bystander's task
	kills     int    // of the supervisor, in this scene
}

// join starts a client with a bystander. Its tasks share two users: a lease that is not returned
// leaves none for the next task.
func (f *fleet) join(name string) *node {
	f.t.Helper()
	i := len(f.nodes)
	n := &node{
		fleet:   f,
		name:    name,
		bridge:  "kill-" + name,
		data:    filepath.Join(f.dir, name, "data"),
		volumes: filepath.Join(f.dir, name, "volumes"),
		gate:    newGate(f, filepath.Join(f.dir, name)),
		http:    newWire(f),
	}
	n.gate.wrapNetwork(f.plugins)
	n.gate.addVolumePlugin()
	config := f.write(name+".hcl", fmt.Sprintf(`name = %q
advertise {
  http = %q
}
client {
  cgroup_parent              = %q
  network_interface          = "lo"
  bridge_network_name        = %q
  bridge_network_subnet      = "172.27.%d.0/24"
  bridge_network_subnet_ipv6 = "fd00:77:%d::/64"
  cni_path                   = %q
  host_volumes_dir           = %q
  host_volume_plugin_dir     = %q
  options = { # each agent would start their programs
    "driver.denylist" = "java,qemu"
  }
  users {
    dynamic_user_min = %d
    dynamic_user_max = %d
  }
}
plugin "raw_exec" {
  config {
    enabled = true
  }
}
`, name, n.http.addr(), f.slice, n.bridge, i, i, n.gate.networkPlugins(), n.volumes, n.gate.volumePlugins(), firstUser+2*i,
		firstUser+2*i+1))
	o := cluster.Options{Bin: f.bin, Dir: filepath.Join(f.dir, name), Args: []string{"-client", "-bind=127.0.0.1", "-servers=" + f.rpc.addr(),
		"-data-dir=" + n.data, "-config=" + config}}
	n.Agent = f.start(o, name+".log")
	n.http.lead(fmt.Sprintf("127.0.0.1:%d", n.HTTP))
	f.nodes = append(f.nodes, n)
	var err error
	if n.id, err = n.NodeID(); err != nil {
		f.t.Fatal(err)
	}
	f.run("bystander-"+name, group{node: name, static: 21000 + i}.text())
	n.bystander = f.allocOf("bystander-"+name, "running", "")
	n.pid = n.answer(n.bystander, "web")
	return n
}

// firstUser is the first uid of the fleet's tasks.
const firstUser = 87_000

// again starts the agent of the node again.
func (n *node) again() {
	n.t.Helper()
	n.Agent = n.start(n.Options, n.name+".log")
}

// run registers a job with one group.
func (f *fleet) run(id, group string) {
	f.t.Helper()
	job, err := jobspec.Parse(jobspec.Config{Filename: id, Source: []byte(fmt.Sprintf("job %q {\n%s\n}\n", id, group))})
	if err != nil {
		f.t.Fatal(err)
	}
	if _, _, err := f.server.Client.Jobs().Register(job, nil); err != nil {
		f.t.Fatal(err)
	}
}

// stop stops a job. It stays at the servers until it is purged.
func (f *fleet) stop(id string) {
	f.t.Helper()
	if _, _, err := f.server.Client.Jobs().Deregister(id, false, nil); err != nil {
		f.t.Fatal(err)
	}
}

// events returns the events of the tasks of an allocation, a line each.
func events(stub *api.AllocationListStub) string {
	var out strings.Builder
	for name, task := range stub.TaskStates {
		for _, e := range task.Events {
			fmt.Fprintf(&out, "\n  %s: %s: %s", name, e.Type, e.DisplayMessage)
		}
	}
	return out.String()
}

// allocOf waits for the only allocation of a job with the client status, other than the one with an ID.
func (f *fleet) allocOf(job, status, other string) *api.Allocation {
	f.t.Helper()
	var found *api.Allocation
	var seen string
	defer func() {
		if found == nil {
			f.t.Logf("allocations of %s: %s", job, seen)
		}
	}()
	testpace.Until(f.t, "an allocation of "+job+" is "+status, func() bool {
		list, _, err := f.server.Client.Jobs().Allocations(job, true, nil)
		if err != nil {
			return false
		}
		seen = ""
		for _, stub := range list {
			seen += fmt.Sprintf("\n%s is %s (%s)%s", stub.ID, stub.ClientStatus, stub.ClientDescription, events(stub))
			if stub.ClientStatus != status || stub.ID == other {
				continue
			}
			if found, _, err = f.server.Client.Allocations().Info(stub.ID, nil); err == nil {
				return true
			}
			found = nil
		}
		return false
	})
	return found
}

// answer waits until the task of an allocation answers at a published port, and returns its process ID.
func (n *node) answer(al *api.Allocation, label string) string {
	n.t.Helper()
	var addr string
	for _, p := range al.AllocatedResources.Shared.Ports {
		if p.Label == label {
			addr = fmt.Sprintf("127.0.0.1:%d", p.Value)
		}
	}
	var got string
	testpace.Succeeds(n.t, "the task of "+al.Name+" answers at port "+label, func() error {
		c, err := net.DialTimeout("tcp", addr, time.Second)
		if err != nil {
			return err
		}
		defer c.Close()
		_ = c.SetDeadline(time.Now().Add(time.Second)) // on a new connection
		text := make([]byte, 32)
		size, err := c.Read(text)
		got = strings.TrimSpace(string(text[:size]))
		return err
	})
	return got
}
