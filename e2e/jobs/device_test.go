package jobs_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/e2e/cluster"
	"github.com/open-nomad/open-nomad/e2e/harness"
)

// deviceNodes creates two device nodes like /dev/zero, and a directory with a file.
func deviceNodes(t *testing.T) (dir string) {
	t.Helper()
	harness.NeedsSandbox(t)
	dir, err := os.MkdirTemp("/var/tmp", "devices-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	for _, name := range []string{"one", "two"} {
		if err := unix.Mknod(filepath.Join(dir, name), unix.S_IFCHR, int(unix.Mkdev(1, 5))); err != nil {
			t.Skip("needs the capability MKNOD: ", err)
		}
		if err := os.Chmod(filepath.Join(dir, name), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, "share"), 0o755); err != nil {
		t.Fatal(err)
	}
	harness.WriteFile(t, filepath.Join(dir, "share", "firmware"), "firmware\n")
	for _, d := range []string{dir, filepath.Join(dir, "share"), filepath.Join(dir, "share", "firmware")} {
		if err := os.Chmod(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// deviceState returns the devices of the only node, such as "one:true two:false".
func deviceState(a *cluster.Agent) string {
	nodes, _, err := a.Client.Nodes().List(nil)
	if err != nil || len(nodes) != 1 {
		return ""
	}
	node, _, err := a.Client.Nodes().Info(nodes[0].ID, nil)
	if err != nil || node.NodeResources == nil || len(node.NodeResources.Devices) != 1 {
		return ""
	}
	var out []string
	for _, i := range node.NodeResources.Devices[0].Instances {
		out = append(out, fmt.Sprintf("%s:%t", i.ID, i.Healthy))
	}
	return strings.Join(out, " ")
}

func awaitDevices(t *testing.T, a *cluster.Agent, want string) {
	t.Helper()
	harness.Within(t, harness.Patience, "devices "+want, func() bool { return deviceState(a) == want })
}

const deviceResources = "resources {\n cpu = 50\n memory = 32\n device \"example/node\" {\n constraint {\n attribute = \"$${device.attr.speed}\"\n operator = \">=\"\n value = \"1 GHz\"\n }\n }\n}\n"

// TestExampleDevice runs tasks with the devices of a plugin that is a module of its own.
func TestExampleDevice(t *testing.T) {
	dir := deviceNodes(t)
	r := newPluginRig(t, fmt.Sprintf("plugin \"exampledevice\" {\n config {\n nodes = [%q, %q]\n share = %q\n }\n}\n",
		dir+"/one", dir+"/two", dir+"/share"))
	harness.BuildPlugin(t, r.plugins, "../exampledevice", "exampledevice")
	a := r.agent()
	awaitDevices(t, a, "one:true two:true")

	script := `echo nodes $EXAMPLE_NODES; for n in one two; do head -c 2 ` + dir + `/$n 2>/dev/null | od -An -tx1 || true; done; cat ` + dir +
		`/share/firmware; echo end; while true; do sleep 0.1; done`
	resources := strings.ReplaceAll(deviceResources, "$$", "$")
	harness.Run(t, a, harness.Job("first", "", harness.Sandboxed(harness.InShell(script), resources)))
	first := harness.Await(t, a, "first", "running", 1)[0]
	want := "nodes " + dir + "/one\n 00 00\nfirmware\nend\n"
	harness.Succeeds(t, "the output of the first", func() error {
		if got := harness.Log(a, first); got != want {
			return fmt.Errorf("output = %q, want %q", got, want)
		}
		return nil
	})
	deviceShown(t, a, first)

	// The second instance is for raw_exec, and then none is free.
	raw := fmt.Sprintf("task \"t\" {\n driver = \"raw_exec\"\n privileged = true\n config {\n %s\n }\n %s\n}\n",
		harness.InShell("echo nodes $EXAMPLE_NODES; sleep 1000"), resources)
	harness.Run(t, a, harness.Job("second", "", raw))
	second := harness.Await(t, a, "second", "running", 1)[0]
	harness.Within(t, harness.Patience, "the output of the second", func() bool { return harness.Log(a, second) == "nodes "+dir+"/two\n" })
	harness.Run(t, a, harness.Job("third", "", fmt.Sprintf("task \"t\" {\n driver = \"exec\"\n config {\n %s\n }\n %s\n}\n",
		harness.InShell("head -c 2 $EXAMPLE_NODES | od -An -tx1; cat "+dir+"/share/firmware; sleep 1000"), resources)))

	// The program is killed: another takes over, and tasks go on.
	pids := harness.PluginProcesses(t, r.plugins, "exampledevice")
	if len(pids) != 1 {
		t.Fatalf("processes = %v, want one", pids)
	}
	unix.Kill(pids[0], unix.SIGKILL)
	harness.Within(t, harness.Patience, "another process", func() bool {
		now := harness.PluginProcesses(t, r.plugins, "exampledevice")
		return len(now) == 1 && now[0] != pids[0] && deviceState(a) == "one:true two:true"
	})

	// A device that fails is unhealthy on the node.
	if err := os.Remove(dir + "/two"); err != nil {
		t.Fatal(err)
	}
	awaitDevices(t, a, "one:true two:false")

	// The next agent recovers the task, which keeps its device. The third job gets it afterwards.
	if err := a.Stop(); err != nil {
		t.Fatal(err)
	}
	b := r.agent()
	first = harness.Await(t, b, "first", "running", 1)[0]
	if got := first.TaskStates["t"].Restarts; got != 0 {
		t.Errorf("%d restarts, want none", got)
	}
	awaitDevices(t, b, "one:true two:false")
	harness.Stop(t, b, "first")
	third := harness.Await(t, b, "third", "running", 1)[0]
	al, _, err := b.Client.Allocations().Info(third.ID, nil)
	if err != nil || al.AllocatedResources.Tasks["t"].Devices[0].DeviceIDs[0] != "one" {
		t.Errorf("devices of the third = %+v, %v, want one", al.AllocatedResources.Tasks["t"].Devices, err)
	}
	harness.Within(t, harness.Patience, "the output of the third", func() bool { return harness.Log(b, third) == " 00 00\nfirmware\n" })
}

// deviceShown checks what commands and the API report about devices.
func deviceShown(t *testing.T, a *cluster.Agent, al *api.AllocationListStub) {
	t.Helper()
	harness.Within(t, harness.Patience, "the statistics of the devices", func() bool {
		u, err := a.Client.Allocations().Stats(&api.Allocation{ID: al.ID, NodeID: al.NodeID}, nil)
		h, herr := a.Client.Nodes().Stats(al.NodeID, nil)
		return err == nil && herr == nil && len(h.DeviceStats) == 1 && len(h.DeviceStats[0].InstanceStats) == 2 &&
			u.Tasks["t"] != nil && len(u.Tasks["t"].ResourceUsage.DeviceStats) == 1 &&
			u.Tasks["t"].ResourceUsage.DeviceStats[0].InstanceStats["one"].Summary.String() == "1 times"
	})
	for _, tt := range []struct {
		args []string
		want []string
	}{
		{[]string{"node", "status", "-verbose", "-stats", al.NodeID}, []string{"\nDevices\n", "example/node/char", "1.5 GHz", "Allocated Devices",
			"1/2", "Device Resource Utilization", "example/node/char[one]", "1 times", "Device Stats"}},
		{[]string{"alloc", "status", al.ID}, []string{"Device Stats:", "example/node/char[one]", "1 times"}},
	} {
		out, err := harness.Command(t, a, tt.args...)
		if err != nil {
			t.Errorf("%v = %v", tt.args, err)
		}
		for _, want := range tt.want {
			if !strings.Contains(out, want) {
				t.Errorf("%v prints\n%s\nwithout %q", tt.args, out, want)
			}
		}
	}
}
