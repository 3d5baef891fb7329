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
	"github.com/open-nomad/open-nomad/internal/testdocker"
)

// start starts the plugin "disk" on the node and waits until servers can use it.
func (r *csiRig) start(a *cluster.Agent, args ...string) {
	r.t.Helper()
	for i, arg := range args {
		args[i] = fmt.Sprintf(", %q", arg)
	}
	config := fmt.Sprintf("command = %q\nargs = [\"-root\", %q, \"-node\", \"n\"%s]", r.program, r.storage(), strings.Join(args, ""))
	harness.Run(r.t, a, harness.Job("disk", `type = "system"`, r.task("disk", "raw_exec", config)))
	harness.Await(r.t, a, "disk", "running", 1)
	r.awaitHealthy(a, "disk")
}

// create creates a volume that file systems and block devices can be mounted of.
func (r *csiRig) create(a *cluster.Agent, id string, modes ...api.CSIVolumeAttachmentMode) {
	r.t.Helper()
	v := &api.CSIVolume{ID: id, Name: id, PluginID: "disk", RequestedCapacityMin: 1 << 20}
	for _, mode := range modes {
		for _, access := range []api.CSIVolumeAccessMode{api.CSIVolumeAccessModeSingleNodeWriter, api.CSIVolumeAccessModeMultiNodeMultiWriter} {
			v.RequestedCapabilities = append(v.RequestedCapabilities, &api.CSIVolumeCapability{AccessMode: access, AttachmentMode: mode})
		}
	}
	harness.Succeeds(r.t, "create volume "+id, func() error { // servers learn the health of the plugin with the node
		_, _, err := a.Client.CSIVolumes().Create(v, nil)
		return err
	})
}

// free waits until no allocation has a claim on a volume.
func (r *csiRig) free(a *cluster.Agent, id string) {
	r.t.Helper()
	harness.Succeeds(r.t, "volume "+id+" is free", func() error {
		v, _, err := a.Client.CSIVolumes().Info(id, nil)
		if err == nil && len(v.ReadAllocs)+len(v.WriteAllocs) > 0 {
			err = fmt.Errorf("allocations %v, %v: %+v", v.ReadAllocs, v.WriteAllocs, v.Releases)
		}
		return err
	})
}

// unmounted checks that nothing is mounted and no allocation has directories.
func (r *csiRig) unmounted() {
	r.t.Helper()
	var left []string
	harness.Within(r.t, harness.Patience, "nothing is mounted", func() bool {
		left = nil
		text, err := os.ReadFile("/proc/self/mountinfo")
		if err != nil {
			r.t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			if strings.Contains(line, " "+r.state()+"/") {
				left = append(left, line)
			}
		}
		for _, pattern := range []string{"*/disk/staging/*", "*/disk/per-alloc/*", "mounted/*"} {
			found, _ := filepath.Glob(r.state(pattern)) // the pattern is valid
			left = append(left, found...)
		}
		return len(left) == 0
	})
	if len(left) > 0 {
		r.t.Errorf("left: %q", left)
	}
}

// volumeGroup returns the head of a group that requests volume "data", and of its mount in a task.
func volumeGroup(mode, access, more, mount string) (group, task string) {
	return harness.Once + fmt.Sprintf("volume \"v\" {\n type = \"csi\"\n source = \"data\"\n attachment_mode = %q\n access_mode = %q\n %s\n}\n",
		mode, access, more), "volume_mount {\n volume = \"v\"\n " + mount + "\n}\n"
}

// csiTask returns a task of a driver that runs a script.
func csiTask(driver, script, more string) string {
	if driver == "docker" {
		return strings.Replace(harness.DockerTask("docker", script, ""), "resources {", more+"resources {", 1)
	}
	return fmt.Sprintf("task \"t\" {\n driver = %q\n config {\n %s\n }\n %s\n resources {\n cpu = 50\n memory = 64\n }\n}\n", driver,
		harness.InShell(script), more)
}

// TestCSIVol mounts a volume into tasks of the drivers. Each allocation finds what an earlier one has written, also as
// another user. Nothing stays mounted, and the claims are free.
func TestCSIVol(t *testing.T) {
	harness.NeedsSandbox(t)
	r := newCSIRig(t, "")
	a := r.next()
	r.start(a)
	r.create(a, "data", api.CSIVolumeAttachmentModeFilesystem)
	const file = "file-system"
	run := func(id, driver, more, mount, script string) string {
		t.Helper()
		group, m := volumeGroup(file, "single-node-writer", more, mount)
		job, _ := harness.Run(t, a, harness.Job(id, `type = "batch"`, group+csiTask(driver, script, m)))
		al := harness.Await(t, a, job, "complete", 1)[0]
		r.free(a, "data")
		r.unmounted()
		return harness.WaitLog(t, a, al)
	}
	// The root of a new volume belongs to root.
	const write = "id -u >local/v/$NOMAD_JOB_ID && echo WROTE; cat local/v/*; stat -c 'uid %u' local/v"
	if got := run("plain", "exec2", "", `destination = "local/v"`, write+"; true"); strings.Contains(got, "WROTE") || !strings.Contains(got, "uid 0\n") {
		t.Errorf("without owner, exec2 wrote %q", got)
	}
	owned := `destination = "local/v"` + "\n" + `owner = "task"`
	first := run("one", "exec2", "", owned, write)
	second := run("two", "exec2", "", owned, "echo more >>local/v/one && "+write)
	if !strings.HasPrefix(first, "WROTE\n") || !strings.HasPrefix(second, "WROTE\n") || !strings.Contains(second, "more\n") {
		t.Errorf("with owner = task: %q, then %q", first, second)
	}
	if got := run("reads", "exec2", "", "destination = \"local/v\"\nread_only = true", "cat local/v/one; (: >local/v/new) 2>/dev/null || echo REFUSED"); !strings.Contains(got, "more\n") ||
		!strings.Contains(got, "REFUSED") {
		t.Errorf("a read-only mount: %q", got)
	}
	if got := run("root", "exec", "", "destination = \"/v\"\nowner = \"task\"", "cat /v/one; echo exec >/v/exec && echo WROTE"); !strings.Contains(got, "more\nWROTE\n") {
		t.Errorf("exec: %q", got)
	}
	if got := run("last", "exec2", "", owned, "cat local/v/exec"); got != "exec\n" {
		t.Errorf("exec2 after exec: %q", got)
	}
	if err := a.Client.CSIVolumes().Delete("data", nil); err != nil {
		t.Error(err)
	}
}

// TestCSIVolDocker mounts a volume into a container.
func TestCSIVolDocker(t *testing.T) {
	daemon := testdocker.Start(t)
	r := newCSIRig(t, fmt.Sprintf("plugin \"docker\" {\n config {\n endpoint = %q\n infra_image = %q\n }\n}\n", daemon.Endpoint(), testdocker.Pause))
	a := r.next()
	r.start(a)
	r.create(a, "data", api.CSIVolumeAttachmentModeFilesystem)
	for i, mount := range []string{"", "read_only = true"} {
		group, m := volumeGroup("file-system", "single-node-writer", "", "destination = \"/v\"\n"+mount)
		id := fmt.Sprintf("c%d", i)
		harness.Run(t, a, harness.Job(id, `type = "batch"`, group+csiTask("docker", "touch /v/new && echo WROTE; ls /v", m)))
		got := harness.WaitLog(t, a, harness.Await(t, a, id, "complete", 1)[0])
		if !strings.Contains(got, "new\n") || strings.Contains(got, "WROTE") != (mount == "") {
			t.Errorf("container with %q: %q", mount, got)
		}
		r.free(a, "data")
		r.unmounted()
	}
	// A block device, which the container may use without privilege.
	r.create(a, "disk", api.CSIVolumeAttachmentModeBlockDevice)
	for i, c := range []struct{ mount, want string }{{"", "WROTE\nhello\n"}, {"read_only = true", "hello\n"}} {
		group, m := volumeGroup("block-device", "single-node-writer", "", "destination = \"/disk0\"\n"+c.mount)
		id := fmt.Sprintf("d%d", i)
		harness.Run(t, a, harness.Job(id, `type = "batch"`, strings.Replace(group, `"data"`, `"disk"`, 1)+
			csiTask("docker", "echo hello 2>/dev/null >/disk0 && sync && echo WROTE; head -c 6 /disk0", m)))
		if got := harness.WaitLog(t, a, harness.Await(t, a, id, "complete", 1)[0]); got != c.want {
			t.Errorf("container with a block device and %q: %q", c.mount, got)
		}
		r.free(a, "disk")
		r.unmounted()
	}
}

// TestCSIVolBlock gives tasks a block device: as a device that they can write to, and read-only.
func TestCSIVolBlock(t *testing.T) {
	harness.NeedsSandbox(t)
	r := newCSIRigIn(t, harness.OutsideTmp(t), "")
	a := r.next()
	r.start(a)
	r.create(a, "data", api.CSIVolumeAttachmentModeBlockDevice)
	run := func(id, driver, mount, script string) string {
		t.Helper()
		group, m := volumeGroup("block-device", "single-node-writer", "", mount)
		harness.Run(t, a, harness.Job(id, `type = "batch"`, group+csiTask(driver, script, m)))
		got := harness.WaitLog(t, a, harness.Await(t, a, id, "complete", 1)[0])
		r.free(a, "data")
		r.unmounted()
		return got
	}
	const at = "destination = \"local/disk\"\n"
	if got := run("writes", "exec2", at, "[ -b local/disk ] && echo hello | dd of=local/disk conv=sync,fsync bs=512 2>/dev/null && echo WROTE"); got != "WROTE\n" {
		t.Errorf("exec2 wrote %q", got)
	}
	if got := run("reads", "exec2", at+"read_only = true\n", "head -c 6 local/disk; (: >local/disk) 2>/dev/null || echo REFUSED"); got != "hello\nREFUSED\n" {
		t.Errorf("a read-only device: %q", got)
	}
	if got := run("root", "exec", "destination = \"/disk\"", "head -c 6 /disk"); got != "hello\n" {
		t.Errorf("exec read %q", got)
	}
}

// TestCSIVolKill kills the agent while a task uses a volume. The next agent keeps the mount and the claim, and releases both
// later. One that finds the allocation stopped also releases them.
func TestCSIVolKill(t *testing.T) {
	harness.NeedsSandbox(t)
	r := newCSIRig(t, "")
	a := r.next()
	r.start(a)
	r.create(a, "data", api.CSIVolumeAttachmentModeFilesystem)
	group, m := volumeGroup("file-system", "single-node-writer", "", "destination = \"local/v\"\nowner = \"task\"")
	script := "while sleep 0.2; do date >>local/v/beats || exit 1; done"
	harness.Run(t, a, harness.Job("user", "", group+csiTask("exec2", script, m)))
	al := harness.Await(t, a, "user", "running", 1)[0]
	if err := a.Kill(); err != nil {
		t.Fatal(err)
	}
	before := r.beats()
	a = r.next()
	if again := harness.Await(t, a, "user", "running", 1)[0]; again.ID != al.ID || again.TaskStates["t"].Restarts != 0 {
		t.Errorf("after the kill: allocation %s, was %s: %v", again.ID, al.ID, harness.Events(again, "t"))
	}
	harness.Within(t, harness.Patience, "the task still writes", func() bool { return r.beats() > before })
	v, _, err := a.Client.CSIVolumes().Info("data", nil)
	if _, ok := v.WriteAllocs[al.ID]; err != nil || !ok {
		t.Errorf("claims %v, %v, want that of %s", v.WriteAllocs, err, al.ID)
	}
	// Another allocation waits for the volume, and says so.
	harness.Run(t, a, harness.Job("waits", "", group+csiTask("exec2", script, m)))
	harness.StopAndWait(t, a, "user", 1)
	harness.Await(t, a, "waits", "running", 1)
	harness.StopAndWait(t, a, "waits", 1)
	r.free(a, "data")
	r.unmounted()
}

// beats returns the size of the file that the task of TestCSIVolKill writes.
func (r *csiRig) beats() (size int64) {
	r.t.Helper()
	found, _ := filepath.Glob(filepath.Join(r.storage(), "*", "*", "beats")) // the pattern is valid
	for _, name := range found {
		if info, err := os.Stat(name); err == nil {
			size += info.Size()
		}
	}
	return size
}
