package csi_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/e2e/harness"
)

// TestUses runs the uses of volumes that do not disturb one another, in parallel on one rig.
func TestUses(t *testing.T) {
	t.Parallel()
	r := newRig(t, options{nodes: []string{"a", "b"}})
	t.Run("all", func(t *testing.T) { // ends before the rig
		for name, use := range map[string]func(*rig){
			"per_alloc": (*rig).perAlloc, "snapshot": (*rig).snapshot, "expand": (*rig).expand, "block": (*rig).block,
			"readers": (*rig).readers, "waits": (*rig).waits, "update": (*rig).update, "multi": (*rig).multi, "owner": (*rig).owned,
			"deregister": (*rig).deregister,
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				own := *r
				own.t, own.purged = t, true
				use(&own)
			})
		}
	})
}

// perAlloc has an allocation with a volume of its own for each index, also when the node of an index changes.
func (r *rig) perAlloc() {
	for i := range 3 {
		r.create(volume(fmt.Sprintf("each[%d]", i)))
	}
	u := user{id: "each", source: "each", kind: "service", count: 3, volume: "per_alloc = true",
		script: "echo $NOMAD_ALLOC_INDEX $VERSION >>/data/seen; cat /data/seen; " + forever, env: "VERSION = \"1\""}
	r.runs(u)
	u.env = "VERSION = \"2\""
	r.run(u)
	harness.Within(r.t, 2*harness.Patience, "all allocations are replaced", func() bool {
		seen := 0
		for _, al := range harness.Allocs(r.t, r.Server, "each", "running") {
			index := al.Name[strings.LastIndexByte(al.Name, '[')+1 : len(al.Name)-1]
			if harness.Log(r.Server, al) == fmt.Sprintf("%[1]s 1\n%[1]s 2\nbegun\n", index) {
				seen++
			}
		}
		return seen == 3
	})
	harness.Stop(r.t, r.Server, "each")
	for i := range 3 {
		r.free(fmt.Sprintf("each[%d]", i))
	}
}

// snapshot makes a snapshot of a volume, a volume of the snapshot, and a clone.
func (r *rig) snapshot() {
	r.create(volume("origin"))
	r.completes(user{id: "origin", source: "origin", script: "echo first >/data/file"})
	r.free("origin")
	made, _, err := r.Server.Client.CSIVolumes().CreateSnapshot(&api.CSISnapshot{SourceVolumeID: "origin", Name: "snap"}, nil)
	if err != nil || len(made.Snapshots) != 1 {
		r.t.Fatalf("CreateSnapshot() = %v, %v", made, err)
	}
	r.completes(user{id: "origin2", source: "origin", script: "echo second >/data/file"})
	r.free("origin")
	r.create(volume("old", func(v *api.CSIVolume) { v.SnapshotID = made.Snapshots[0].ID }),
		volume("clone", func(v *api.CSIVolume) { v.CloneID = r.info("origin").ExternalID }))
	for source, want := range map[string]string{"old": "first\n", "clone": "second\n"} {
		if _, got := r.completes(user{id: "read-" + source, source: source, script: "cat /data/file"}); got != want {
			r.t.Errorf("%s contains %q, want %q", source, got, want)
		}
	}
	if err := r.Server.Client.CSIVolumes().DeleteSnapshot(&api.CSISnapshot{ID: made.Snapshots[0].ID, PluginID: pluginID}, nil); err != nil {
		r.t.Error(err)
	}
}

// expand makes a volume larger while an allocation uses it.
func (r *rig) expand() {
	r.create(volume("grows", func(v *api.CSIVolume) { v.RequestedCapacityMin = 1 << 20 }))
	r.runs(user{id: "grows", source: "grows", script: forever})
	v := volume("grows", func(v *api.CSIVolume) {
		v.RequestedCapacityMin, v.MountOptions = 2<<20, &api.CSIMountOptions{}
	})
	if _, err := r.Server.Client.CSIVolumes().Register(v, nil); err != nil {
		r.t.Errorf("expand: %v", err)
	}
	if got := r.info("grows"); got.Capacity < 2<<20 || got.RequestedCapacityMin != 2<<20 {
		r.t.Errorf("capacity %d, requested %d, want %d", got.Capacity, got.RequestedCapacityMin, 2<<20)
	}
	harness.StopAndWait(r.t, r.Server, "grows", 1)
}

// block gives a block device to a task, and its content to the next one.
func (r *rig) block() {
	device := api.CSIVolumeCapability{AccessMode: api.CSIVolumeAccessModeSingleNodeWriter,
		AttachmentMode: api.CSIVolumeAttachmentModeBlockDevice}
	r.create(volume("device", func(v *api.CSIVolume) {
		v.RequestedCapabilities, v.RequestedCapacityMin = []*api.CSIVolumeCapability{&device}, 1<<20
	}))
	u := user{id: "device1", source: "device", script: "test -b /data && printf block | dd of=/data bs=512 conv=sync,fsync 2>/dev/null && echo wrote"}
	use := func(u user) string {
		r.t.Helper()
		harness.Run(r.t, r.Server, strings.Replace(u.text(), `"file-system"`, `"block-device"`, 1))
		al := harness.Await(r.t, r.Server, u.id, "complete", 1)[0]
		return harness.Log(r.Server, al)
	}
	if got := use(u); got != "wrote\n" {
		r.t.Errorf("the writer printed %q", got)
	}
	r.free("device")
	if got := use(user{id: "device2", source: "device", script: "dd if=/data bs=5 count=1 2>/dev/null; echo"}); got != "block\n" {
		r.t.Errorf("the next task read %q from the device", got)
	}
}

// readers are on both nodes at once. A writer waits until they have ended, and no reader may write.
func (r *rig) readers() {
	r.create(volume("shared"))
	r.completes(user{id: "fills", source: "shared", script: "echo shared >/data/file"})
	r.free("shared")
	readers := user{id: "readers", source: "shared", kind: "service", count: 2, access: "multi-node-reader-only",
		script: "cat /data/file; echo new >/data/file || echo refused; " + forever,
		group:  "constraint {\n distinct_hosts = true\n}\n"}
	for _, al := range r.runs(readers) {
		harness.Within(r.t, harness.Patience, al.Name+" read the file", func() bool { return harness.Log(r.Server, al) == "shared\nrefused\nbegun\n" })
	}
	_, eval := harness.Run(r.t, r.Server, user{id: "late", source: "shared", script: "echo late >/data/file"}.text())
	harness.CheckBlocked(r.t, harness.Evaluated(r.t, r.Server, eval), "CSI volume shared is unschedulable or is read-only")
	harness.Stop(r.t, r.Server, "readers")
	harness.Await(r.t, r.Server, "late", "complete", 1)
}

// waits has a second writer, which is placed when the first has ended. Until then its job names the claim.
func (r *rig) waits() {
	r.create(volume("single"))
	first := r.runs(user{id: "first", source: "single", script: "echo first >>/data/file; " + forever})[0]
	_, eval := harness.Run(r.t, r.Server, user{id: "second", source: "single", script: "cat /data/file"}.text())
	e := harness.Evaluated(r.t, r.Server, eval)
	harness.CheckBlocked(r.t, e, "CSI volume single has exhausted its available writer claims")
	if want := []string{"csi-volume:default:single"}; !slices.Equal(e.MissingNonNodeResources, want) {
		r.t.Errorf("the evaluation waits for %q, want %q", e.MissingNonNodeResources, want)
	}
	out, _ := harness.Command(r.t, r.Server, "job", "explain", "second") // exits with 2: no node fits
	if want := "CSI volume single is claimed by allocation " + first.ID + " of job first on node "; !strings.Contains(out, want) {
		r.t.Errorf("job explain lacks %q:\n%s", want, out)
	}
	harness.Stop(r.t, r.Server, "first")
	al := harness.Await(r.t, r.Server, "second", "complete", 1)[0]
	if got := harness.Log(r.Server, al); got != "first\n" {
		r.t.Errorf("the second writer read %q", got)
	}
}

// update replaces the only writer of a volume: the old allocation ends before the new one starts.
func (r *rig) update() {
	r.create(volume("updated"))
	u := user{id: "updated", source: "updated", kind: "service", env: "VERSION = \"1\"",
		script: "echo start $VERSION >>/data/file; trap 'sleep 0.5; echo end $VERSION >>/data/file; exit 0' INT TERM; echo begun; while :; do sleep 0.1; done"}
	first := r.runs(u)[0]
	for _, version := range []string{"2", "3"} {
		u.env = "VERSION = \"" + version + "\""
		r.run(u)
		harness.Within(r.t, 2*harness.Patience, "version "+version+" runs", func() bool {
			all := harness.Allocs(r.t, r.Server, "updated", "running")
			next := len(all) == 1 && all[0].ID != first.ID
			if next {
				first = all[0]
			}
			return next
		})
		r.begun("updated", 1)
	}
	harness.StopAndWait(r.t, r.Server, "updated", 3)
	r.free("updated")
	_, got := r.completes(user{id: "updated-log", source: "updated", script: "cat /data/file"})
	if want := "start 1\nend 1\nstart 2\nend 2\nstart 3\nend 3\n"; got != want {
		r.t.Errorf("the versions wrote %q, want %q", got, want)
	}
}

// multi has writers on both nodes at once.
func (r *rig) multi() {
	many := api.CSIVolumeCapability{AccessMode: api.CSIVolumeAccessModeMultiNodeMultiWriter,
		AttachmentMode: api.CSIVolumeAttachmentModeFilesystem}
	r.create(volume("many", func(v *api.CSIVolume) { v.RequestedCapabilities = []*api.CSIVolumeCapability{&many} }))
	u := user{id: "many", source: "many", kind: "service", count: 4, access: "multi-node-multi-writer",
		script: "echo $NOMAD_ALLOC_INDEX >>/data/file; " + forever}
	r.runs(u)
	harness.Within(r.t, harness.Patience, "all have written", func() bool {
		all := harness.Allocs(r.t, r.Server, "many", "running")
		return len(all) == 4 && len(r.info("many").WriteAllocs) == 4
	})
	harness.StopAndWait(r.t, r.Server, "many", 4)
	r.free("many")
}

// owned gives the files to the user of the task, which is another one for each allocation.
func (r *rig) owned() {
	r.create(volume("owned"))
	u := user{id: "owned", source: "owned", script: "cd $NOMAD_TASK_DIR/data && echo mine >>mine && cat mine"}
	for i := range 2 {
		u.id = fmt.Sprint("owned", i)
		text := strings.NewReplacer("user   = \"root\"", "", "destination = \"/data\"", "destination = \"local/data\"\n        owner = \"task\"",
			"driver = \"exec\"", "driver = \"exec2\"").Replace(u.text())
		harness.Run(r.t, r.Server, text)
		al := harness.Await(r.t, r.Server, u.id, "complete", 1)[0]
		if got := harness.Log(r.Server, al); got != strings.Repeat("mine\n", i+1) {
			r.t.Errorf("allocation %d printed %q", i, got)
		}
		r.free("owned")
	}
}

// deregister refuses a volume in use, and keeps its data.
func (r *rig) deregister() {
	r.create(volume("used"))
	external := r.info("used").ExternalID
	al := r.runs(user{id: "used", source: "used", script: "echo kept >/data/file; " + forever})[0]
	for _, args := range [][]string{{"volume", "deregister", "used"}, {"volume", "delete", "used"}} {
		if out, err := harness.Command(r.t, r.Server, args...); err == nil || !strings.Contains(out, "volume in use") {
			r.t.Errorf("%q of a volume in use: %v, %q", args, err, out)
		}
	}
	harness.StopAndWait(r.t, r.Server, "used", 1)
	r.free("used")
	r.command("volume", "deregister", "used")
	v := volume("again", func(v *api.CSIVolume) { v.ExternalID = external })
	if _, err := r.Server.Client.CSIVolumes().Register(v, nil); err != nil {
		r.t.Fatal(err)
	}
	if _, got := r.completes(user{id: "again", source: "again", script: "cat /data/file"}); got != "kept\n" {
		r.t.Errorf("the volume of allocation %s contains %q", al.ID, got)
	}
}
