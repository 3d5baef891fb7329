package csi_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/e2e/harness"
)

// TestKilled kills agents and plugins while volumes are in use, being mounted and being released. The rows are run one after
// another on one rig: nothing of a row is left in the next one.
func TestKilled(t *testing.T) {
	t.Parallel()
	r := newRig(t, options{nodes: []string{"a", "b"}})
	for _, row := range []struct {
		name string
		run  func(*rig)
	}{
		{"agent, volume in use", (*rig).agentKilled},
		{"agent, mounting", (*rig).agentKilledMounting},
		{"agent, releasing", (*rig).agentKilledReleasing},
		{"plugin, volume in use", (*rig).pluginKilled},
		{"plugin, at each call", (*rig).pluginDies},
		{"plugin updated", (*rig).pluginUpdated},
		{"plugin gone before its user", (*rig).pluginGone},
		{"drain", (*rig).drained},
		{"hanging plugin", (*rig).hangs},
	} {
		ok := t.Run(row.name, func(t *testing.T) {
			r.t, r.T = t, t
			row.run(r)
			r.reset()
		})
		r.t, r.T = t, t
		if !ok {
			return // the next row would find its remains
		}
	}
}

// reset deletes all volumes, and checks that no mount is left.
func (r *rig) reset() {
	r.t.Helper()
	r.fault()
	for _, v := range r.volumes() {
		r.free(v.ID)
		r.delete(v.ID)
	}
	for node := range r.nodes {
		r.noMounts(node)
	}
}

// writes is a script that appends to the file of a volume until it is stopped.
const writes = "echo begin >>/data/file; trap 'echo end >>/data/file; exit 0' INT TERM; echo begun; while :; do sleep 0.1; echo . >>/data/alive; done"

// content reads the file of a volume with another job, and checks it.
func (r *rig) content(source, want string) {
	r.t.Helper()
	r.free(source)
	if _, got := r.completes(user{id: r.unique("reader"), source: source, script: "cat /data/file"}); got != want {
		r.t.Errorf("volume %s contains %q, want %q", source, got, want)
	}
	r.free(source)
}

// unique returns an ID for a job that no earlier row has used. latest is the last one.
func (r *rig) unique(id string) string {
	r.serial++
	r.latest = fmt.Sprintf("%s-%d", id, r.serial)
	return r.latest
}

// restart kills the agent of a node and starts it again.
func (r *rig) restart(node string) {
	r.t.Helper()
	r.kill(node)
	r.start(node)
}

func (r *rig) kill(node string) {
	r.t.Helper()
	if err := r.nodes[node].Kill(); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) start(node string) {
	r.t.Helper()
	r.nodes[node] = harness.Restart(r.owner, r.nodes[node])
	r.purgeAtEnd()
}

func (r *rig) agentKilled() {
	r.create(volume("data"))
	al := r.runs(user{id: r.unique("writer"), source: "data", node: "a", script: writes})[0]
	before := r.mounts("a")
	r.restart("a")
	r.healthy(2)
	r.continues(al)
	if after := r.mounts("a"); !slices.Equal(before, after) {
		r.t.Errorf("mounts before %q, after %q", before, after)
	}
	harness.StopAndWait(r.t, r.Server, r.latest, 1)
	r.content("data", "begin\nend\n")
}

// continues checks that a task is the same, and still writes.
func (r *rig) continues(al *api.AllocationListStub) {
	r.t.Helper()
	var now *api.AllocationListStub
	harness.Within(r.t, harness.Patience, al.Name+" runs", func() bool {
		now = harness.OnlyAlloc(r.t, r.Server, al.JobID)
		return now.ClientStatus == "running"
	})
	if now.ID != al.ID || now.TaskStates["t"].Restarts != 0 {
		r.t.Errorf("allocation %s, %d restarts, want %s without", now.ID, now.TaskStates["t"].Restarts, al.ID)
	}
	size := func() (n int64) {
		found, _ := filepath.Glob(filepath.Join(r.storage(), "*", "*", "alive"))
		if len(found) == 1 {
			if info, err := os.Stat(found[0]); err == nil {
				n = info.Size()
			}
		}
		return n
	}
	first := size()
	harness.Within(r.t, harness.Patience, "the task still writes", func() bool { return size() > first })
}

// agentKilledMounting kills the agent while a call of the plugin hangs at each step of a mount.
func (r *rig) agentKilledMounting() {
	for _, call := range []string{"ControllerPublishVolume", "NodeStageVolume", "NodePublishVolume"} {
		for _, fault := range []string{"hang", "hang-after"} {
			r.create(volume("data"))
			r.fault(call + " " + fault)
			r.run(user{id: r.unique("writer"), source: "data", node: "a", script: writes})
			r.arrived(call)
			r.restart("a")
			r.fault()
			r.healthy(2)
			r.begun(r.latest, 1)
			harness.Stop(r.t, r.Server, r.latest)
			r.content("data", "begin\nend\n")
			r.reset()
		}
	}
}

// arrived waits until a call has reached the plugin.
func (r *rig) arrived(call string) {
	r.t.Helper()
	harness.Within(r.t, harness.Patience, "the plugin is called: "+call, func() bool {
		text, err := os.ReadFile(r.faults() + ".seen")
		return err == nil && strings.Contains(string(text), call+"\n")
	})
}

// agentKilledReleasing kills the agent while a call of the plugin hangs at each step of a release.
func (r *rig) agentKilledReleasing() {
	for _, call := range []string{"NodeUnpublishVolume", "NodeUnstageVolume", "ControllerUnpublishVolume"} {
		for _, fault := range []string{"hang", "hang-after"} {
			r.create(volume("data"))
			r.runs(user{id: r.unique("writer"), source: "data", node: "a", script: writes})
			r.fault(call + " " + fault)
			harness.Stop(r.t, r.Server, r.latest)
			r.arrived(call)
			r.kill("a")
			if call+fault != "NodeUnpublishVolumehang" { // then the agent starts while it hangs
				r.fault()
			}
			r.start("a")
			r.fault()
			r.healthy(2)
			r.content("data", "begin\nend\n")
			r.reset()
		}
	}
}

// pid returns the process of the plugin on a node.
func (r *rig) pid(node string) int {
	r.t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		r.t.Fatal(err)
	}
	for _, file := range files {
		if args, _ := os.ReadFile(file); strings.HasPrefix(string(args), r.program+"\x00") && strings.Contains(string(args), "\x00-node\x00"+node) {
			pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
			if err != nil {
				r.t.Fatal(err)
			}
			return pid
		}
	}
	return 0
}

// pluginKilled kills the plugin while its volume is in use. The task goes on, and its volume is released by the next instance.
func (r *rig) pluginKilled() {
	r.create(volume("data"))
	al := r.runs(user{id: r.unique("writer"), source: "data", node: "a", script: writes})[0]
	old := r.pid("a")
	if err := syscall.Kill(old, syscall.SIGKILL); err != nil {
		r.t.Fatal(err)
	}
	harness.Within(r.t, harness.Patience, "the plugin runs again", func() bool { return r.pid("a") != 0 && r.pid("a") != old })
	r.healthy(2)
	r.continues(al)
	harness.StopAndWait(r.t, r.Server, r.latest, 1)
	r.content("data", "begin\nend\n")
}

// pluginDies ends the plugin at each call, before and after it was done.
func (r *rig) pluginDies() {
	for _, call := range []string{"ControllerPublishVolume", "NodeStageVolume", "NodePublishVolume", "NodeUnpublishVolume",
		"NodeUnstageVolume", "ControllerUnpublishVolume"} {
		for _, fault := range []string{"die", "die-after"} {
			r.create(volume("data"))
			r.fault("once " + call + " " + fault)
			u := user{id: r.unique("writer"), source: "data", node: "a", script: "echo $NOMAD_ALLOC_ID >>/data/file"}
			r.run(u)
			harness.Await(r.t, r.Server, r.latest, "complete", 1)
			r.healthy(2)
			r.free("data")
			r.reset()
		}
	}
}

// pluginUpdated replaces the plugin on both nodes while a volume is in use.
func (r *rig) pluginUpdated() {
	r.create(volume("data"))
	al := r.runs(user{id: r.unique("writer"), source: "data", node: "a", script: writes})[0]
	old := r.pid("a")
	r.runPlugin("2")
	harness.Within(r.t, 2*harness.Patience, "the new version runs on a", func() bool { return r.pid("a") != 0 && r.pid("a") != old })
	r.healthy(2)
	r.continues(al)
	r.restart("a")
	r.healthy(2)
	r.continues(al)
	harness.StopAndWait(r.t, r.Server, r.latest, 1)
	r.content("data", "begin\nend\n")
}

// pluginGone stops the plugin before the user of a volume. The claim is not freed while the volume is mounted, and its volume
// tells what it waits for. It is freed when the plugin is back.
func (r *rig) pluginGone() {
	r.create(volume("data"))
	r.runs(user{id: r.unique("writer"), source: "data", node: "a", script: writes})
	harness.Stop(r.t, r.Server, "storage")
	harness.Within(r.t, harness.Patience, "the plugin is gone", func() bool { return r.pid("a") == 0 && r.pid("b") == 0 })
	harness.StopAndWait(r.t, r.Server, r.latest, 1)
	harness.Within(r.t, harness.Patience, "the volume tells what its release waits for", func() bool {
		v := r.info("data")
		return len(v.WriteAllocs) == 1 && len(v.Releases) == 1 && v.Releases[0].Waits != ""
	})
	if len(r.mounts("a")) == 0 {
		r.t.Error("the mount is gone, although the plugin is")
	}
	r.runPlugin("3")
	r.content("data", "begin\nend\n")
}

// drained moves a job with its volume to the other node. The plugin stops last.
func (r *rig) drained() {
	r.create(volume("data"))
	r.runs(user{id: r.unique("writer"), source: "data", kind: "service", script: writes,
		group: "affinity {\n attribute = \"$${node.unique.name}\"\n value = \"a\"\n weight = 100\n}\n"})
	node := harness.NodeID(r.t, r.nodes["a"])
	if out, err := harness.Command(r.t, r.Server, "node", "drain", "-enable", "-yes", node); err != nil {
		r.t.Fatalf("node drain: %v\n%s", err, out)
	}
	harness.Within(r.t, 2*harness.Patience, "the job runs on b", func() bool {
		all := harness.Allocs(r.t, r.Server, r.latest, "running")
		return len(all) == 1 && all[0].NodeName == "b"
	})
	r.noMounts("a")
	if out, err := harness.Command(r.t, r.Server, "node", "eligibility", "-enable", node); err != nil {
		r.t.Fatalf("node eligibility: %v\n%s", err, out)
	}
	r.healthy(2)
	harness.Stop(r.t, r.Server, r.latest)
	r.content("data", "begin\nend\nbegin\nend\n")
}

// hangs has a plugin that does not answer for one volume. Allocations with other volumes start and stop meanwhile.
func (r *rig) hangs() {
	names := []string{"stuck", "first", "second"}
	for _, id := range names {
		r.create(volume(id))
	}
	r.fault("once NodeStageVolume hang")
	r.run(user{id: "stuck", source: "stuck", node: "a", script: "true"})
	r.arrived("NodeStageVolume")
	for _, id := range names[1:] {
		r.completes(user{id: id, source: id, node: "a", script: "echo $NOMAD_ALLOC_ID >/data/file"})
		r.free(id)
	}
	if all := harness.AllAllocs(r.t, r.Server, "stuck"); len(all) != 1 || all[0].ClientStatus != "pending" {
		r.t.Errorf("the stuck job has %d allocations", len(all))
	}
	harness.Stop(r.t, r.Server, "stuck")
	for _, id := range names {
		r.free(id)
	}
}
