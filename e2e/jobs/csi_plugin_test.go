package jobs_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/client/csi"
	"github.com/open-nomad/open-nomad/e2e/cluster"
	"github.com/open-nomad/open-nomad/e2e/harness"
	"github.com/open-nomad/open-nomad/internal/testcsi"
	"github.com/open-nomad/open-nomad/nomad"
	words "github.com/open-nomad/open-nomad/nomad/csi"
	"github.com/open-nomad/open-nomad/nomad/message"
)

// csiRig is an agent whose tasks are CSI plugins.
type csiRig struct {
	t       *testing.T
	program string // of the plugin
	dir     string
	next    func() *cluster.Agent
}

func newCSIRig(t *testing.T, config string) *csiRig {
	t.Helper()
	dir := harness.TempDir(t)
	passable(t, filepath.Dir(dir))
	return newCSIRigIn(t, dir, config)
}

// passable lets tasks pass through directories.
func passable(t *testing.T, dirs ...string) {
	t.Helper()
	for _, dir := range dirs {
		if err := os.Chmod(dir, 0o711); err != nil {
			t.Fatal(err)
		}
	}
}

// newCSIRigIn is newCSIRig with a directory for the agent.
func newCSIRigIn(t *testing.T, dir, config string) *csiRig {
	t.Helper()
	r := &csiRig{t: t, program: testcsi.Build(t), dir: dir}
	passable(t, r.dir, filepath.Dir(r.program))
	// An agent that ends while the hooks of a plugin still run leaves this mount to the next one.
	t.Cleanup(func() {
		if err := unix.Unmount(r.state(), unix.UMOUNT_NOFOLLOW); err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOENT) {
			t.Error(err)
		}
	})
	harness.Mkdir(t, r.storage())
	r.configure(t, config)
	r.next = successive(t, r.dir, filepath.Join(r.dir, "csi.hcl"))
	return r
}

// configure replaces the configuration of the next agent.
func (r *csiRig) configure(t *testing.T, config string) {
	t.Helper()
	harness.WriteFile(t, filepath.Join(r.dir, "csi.hcl"), "plugin \"raw_exec\" {\n config {\n enabled = true\n }\n}\n"+config)
}

// storage returns the directory of the storage system.
func (r *csiRig) storage() string { return filepath.Join(r.dir, "storage") }

// state returns a path below <state dir>/csi.
func (r *csiRig) state(name ...string) string {
	return filepath.Join(append([]string{r.dir, "data", "client", "csi"}, name...)...)
}

// task returns a task that is a plugin of type monolith.
func (r *csiRig) task(id, driver, config string, more ...string) string {
	return fmt.Sprintf(`task "t" {
  driver = %q
  %s
  csi_plugin {
    id             = %q
    type           = "monolith"
    health_timeout = "2m"
  }
  config {
    %s
  }
  resources {
    cpu    = 50
    memory = 64
  }
}
`, driver, strings.Join(more, "\n"), id, config)
}

// args returns the option args of a plugin.
func (r *csiRig) args() string {
	return fmt.Sprintf("args = [\"-root\", %q, \"-attach=false\", \"-node\", \"n\"]", r.storage())
}

// healthy returns the plugin on the only node, or nil.
func healthy(a *cluster.Agent, id string) *api.CSIInfo {
	nodes, _, err := a.Client.Nodes().List(nil)
	if err != nil || len(nodes) != 1 {
		return nil
	}
	node, _, err := a.Client.Nodes().Info(nodes[0].ID, nil)
	if err != nil {
		return nil
	}
	if c, n := node.CSIControllerPlugins[id], node.CSINodePlugins[id]; c != nil && c.Healthy && n != nil && n.Healthy {
		return n
	}
	return nil
}

func (r *csiRig) awaitHealthy(a *cluster.Agent, id string) *api.CSIInfo {
	r.t.Helper()
	var info *api.CSIInfo
	harness.Within(r.t, harness.Patience, "plugin "+id+" is healthy", func() bool { info = healthy(a, id); return info != nil })
	return info
}

// typesOf returns the types of the events of a task, without those of its start.
func typesOf(al *api.AllocationListStub) (out []string) {
	for _, e := range al.TaskStates["t"].Events {
		if !slices.Contains([]string{api.TaskReceived, api.TaskSetup}, e.Type) {
			out = append(out, e.Type)
		}
	}
	return out
}

// TestCSIRaw runs a plugin with raw_exec. It is found again after the agent was killed, starts again after a kill, and leaves
// nothing but its directory of volumes.
func TestCSIRaw(t *testing.T) {
	harness.NeedsRoot(t)
	r := newCSIRig(t, "")
	a := r.next()
	task := r.task("disk", "raw_exec", fmt.Sprintf("command = %q\n%s", r.program, r.args()))
	harness.Run(t, a, harness.Job("disk", `type = "system"`, task))
	al := harness.Await(t, a, "disk", "running", 1)[0]
	info := r.awaitHealthy(a, "disk")
	if info.AllocID != al.ID || info.NodeInfo.ID != "n" {
		t.Errorf("the node reports %+v", info)
	}
	want := []string{api.TaskStarted, "Plugin became healthy"}
	harness.Within(t, harness.Patience, "the events", func() bool { return slices.Equal(typesOf(harness.OnlyAlloc(t, a, "disk")), want) })
	pid := r.pid()
	r.stages(al, r.state("monolith", "disk"))

	if err := a.Kill(); err != nil {
		t.Fatal(err)
	}
	a = r.next()
	r.awaitHealthy(a, "disk")
	again := harness.Await(t, a, "disk", "running", 1)[0]
	if r.pid() != pid || again.ID != al.ID || !slices.Equal(typesOf(again), want) {
		t.Errorf("after a kill of the agent: process %d, was %d; allocation %s, was %s; events %q, want %q", r.pid(), pid, again.ID, al.ID,
			typesOf(again), want)
	}

	if err := syscall.Kill(harness.Supervisor(t, r.dir), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	harness.Run(t, a, harness.Job("disk", "type = \"system\"\npriority = 51", task)) // an update in place
	harness.Within(t, harness.Patience, "the update", func() bool {
		al := harness.OnlyAlloc(t, a, "disk")
		return al.JobVersion == 1 && al.ClientStatus == api.AllocClientStatusRunning
	})
	if again := harness.OnlyAlloc(t, a, "disk"); r.pid() != pid || again.ID != al.ID || healthy(a, "disk") == nil ||
		again.TaskStates["t"].Restarts != 0 {
		t.Errorf("after a kill of the supervisor and an update: process %d, was %d; allocation %s, was %s; healthy %t; events %q", r.pid(), pid,
			again.ID, al.ID, healthy(a, "disk") != nil, typesOf(again))
	}

	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	harness.Within(t, 2*harness.Patience, "the plugin is healthy again", func() bool {
		events := typesOf(harness.OnlyAlloc(t, a, "disk"))
		return events[len(events)-1] == "Plugin became healthy" && slices.Contains(events, api.TaskRestarting) && healthy(a, "disk") != nil
	})
	if r.pid() == pid {
		t.Error("the plugin was not started again")
	}

	r.stop(a, "disk", al)
	harness.Within(t, harness.Patience, "the plugin is not healthy", func() bool { return healthy(a, "disk") == nil })
	if _, err := os.Lstat(r.state("monolith", "disk")); err != nil {
		t.Error(err)
	}
	if err := a.Stop(); err != nil {
		t.Fatal(err)
	}
	if mounted(t, r.state()) {
		t.Error("an agent without plugins leaves the mount of their directories")
	}
	r.next()
}

// stop stops the job of a plugin and waits until the directory of its socket is removed. An agent that ends then leaves no mount.
func (r *csiRig) stop(a *cluster.Agent, job string, al *api.AllocationListStub) {
	r.t.Helper()
	harness.StopAndWait(r.t, a, job, 1)
	harness.Within(r.t, harness.Patience, "the directory of the socket is removed", func() bool {
		_, err := os.Lstat(r.state("plugins", al.ID))
		return os.IsNotExist(err)
	})
}

// pid returns the process of the plugin.
func (r *csiRig) pid() int {
	r.t.Helper()
	entries, err := os.ReadDir("/proc")
	if err != nil {
		r.t.Fatal(err)
	}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		if args, _ := os.ReadFile(filepath.Join("/proc", e.Name(), "cmdline")); strings.HasPrefix(string(args), r.program+"\x00-root\x00"+r.storage()) {
			return pid
		}
	}
	return 0
}

// stages makes the plugin mount a volume below its directory. It checks that the mount is on the node, and not only in a
// namespace of the task. taskRoot is the directory as the plugin sees it.
func (r *csiRig) stages(al *api.AllocationListStub, taskRoot string) {
	t := r.t
	t.Helper()
	p, err := csi.Dial(t.Context(), csi.Socket{Dir: r.state("plugins", al.ID), Name: testcsi.Socket})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close() //nolint:errcheck // all calls have ended
	able := words.Capability{AttachmentMode: nomad.VolumeAttachFilesystem, AccessMode: nomad.VolumeSingleNodeWriter}
	v, err := p.CreateVolume(t.Context(), &message.ClientCSIControllerCreateVolumeRequest{Name: "v-" + al.ID,
		VolumeCapabilities: []*words.Capability{&able}})
	if err != nil {
		t.Fatal(err)
	}
	harness.Mkdir(t, r.state("monolith", "disk", "staging"))
	host, task := r.state("monolith", "disk", "staging", "v"), filepath.Join(taskRoot, "staging", "v")
	req := &csi.NodeRequest{VolumeID: v.ExternalVolumeID, Staging: task, Capability: able, VolumeContext: v.VolumeContext}
	if err := p.NodeStage(t.Context(), req); err != nil {
		t.Fatal(err)
	}
	if !mounted(t, host) {
		t.Errorf("the mount of the plugin at %s is not on the node", host)
	}
	harness.WriteFile(t, filepath.Join(host, "file"), "of the node")
	if found, err := filepath.Glob(filepath.Join(r.storage(), "*", "*", "file")); err != nil || len(found) != 1 {
		t.Errorf("the file is not in the storage system: %v, %v", found, err)
	}
	if err := p.NodeUnstage(t.Context(), req.VolumeID, req.Staging); err != nil {
		t.Fatal(err)
	}
	if mounted(t, host) {
		t.Errorf("the mount at %s is still on the node", host)
	}
}

// mounted reports whether a path is a mount point on the node.
func mounted(t *testing.T, name string) bool {
	t.Helper()
	text, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	return strings.Contains(string(text), " "+name+" ")
}
