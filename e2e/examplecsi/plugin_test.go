package main_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"

	"github.com/open-nomad/open-nomad/client/csi"
	"github.com/open-nomad/open-nomad/internal/testcsi"
	"github.com/open-nomad/open-nomad/nomad"
	words "github.com/open-nomad/open-nomad/nomad/csi"
	"github.com/open-nomad/open-nomad/nomad/message"
)

// rig is a plugin with the calls of the agent.
type rig struct {
	*csi.Plugin
	plugin *testcsi.Plugin
	dir    string // of the mounts
	able   words.Capability
}

func newRig(t *testing.T, able words.Capability, flags ...string) *rig {
	t.Helper()
	r := &rig{dir: t.TempDir(), able: able}
	r.plugin = testcsi.Start(t, testcsi.Config{Flags: append([]string{"-node", "node-1"}, flags...)})
	p, err := csi.Dial(t.Context(), csi.Socket{Dir: r.plugin.Dir, Name: testcsi.Socket})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	r.Plugin = p
	return r
}

var (
	directory = words.Capability{AccessMode: nomad.VolumeSingleNodeWriter, AttachmentMode: nomad.VolumeAttachFilesystem}
	device    = words.Capability{AccessMode: nomad.VolumeSingleNodeWriter, AttachmentMode: nomad.VolumeAttachBlockDevice}
)

// create creates a volume of 1 MiB.
func (r *rig) create(t *testing.T, req message.ClientCSIControllerCreateVolumeRequest) string {
	t.Helper()
	req.VolumeCapabilities = []*words.Capability{&r.able}
	out, err := r.CreateVolume(t.Context(), &req)
	if err != nil {
		t.Fatalf("CreateVolume(%s) = %v", req.Name, err)
	}
	return out.ExternalVolumeID
}

// mount attaches, stages and publishes a volume, and returns its path.
func (r *rig) mount(t *testing.T, id string, edit func(*csi.NodeRequest)) string {
	t.Helper()
	attached, err := r.AttachVolume(t.Context(), &message.ClientCSIControllerAttachVolumeRequest{VolumeID: id, ClientCSINodeID: "node-1",
		AccessMode: r.able.AccessMode, AttachmentMode: r.able.AttachmentMode})
	if err != nil {
		t.Fatalf("AttachVolume(%s) = %v", id, err)
	}
	req := &csi.NodeRequest{VolumeID: id, Staging: filepath.Join(r.dir, id+"-staging"), Target: filepath.Join(r.dir, id),
		Capability: r.able, PublishContext: attached.PublishContext}
	edit(req)
	if err := os.MkdirAll(req.Staging, 0o700); err != nil {
		t.Fatal(err)
	}
	for range 2 { // each call may be repeated
		if err := r.NodeStage(t.Context(), req); err != nil {
			t.Fatalf("NodeStage(%s) = %v", id, err)
		}
		if err := r.NodePublish(t.Context(), req); err != nil {
			t.Fatalf("NodePublish(%s) = %v", id, err)
		}
	}
	return req.Target
}

// unmount ends what mount did.
func (r *rig) unmount(t *testing.T, id string) {
	t.Helper()
	ctx := context.Background()
	for range 2 {
		err := errors.Join(r.NodeUnpublish(ctx, id, filepath.Join(r.dir, id)), r.NodeUnstage(ctx, id, filepath.Join(r.dir, id+"-staging")))
		_, detach := r.DetachVolume(ctx, &message.ClientCSIControllerDetachVolumeRequest{VolumeID: id, ClientCSINodeID: "node-1"})
		if err := errors.Join(err, detach); err != nil {
			t.Errorf("unmount %s: %v", id, err)
		}
	}
}

func same(*csi.NodeRequest) {}

// TestDirectory checks that files of a directory are in the storage system, in snapshots and clones, and in no mount afterwards.
func TestDirectory(t *testing.T) {
	r := newRig(t, directory)
	id := r.create(t, message.ClientCSIControllerCreateVolumeRequest{Name: "one"})
	path := r.mount(t, id, same)
	for name, err := range map[string]error{
		"write":  os.WriteFile(filepath.Join(path, "file"), []byte("content"), 0o640),
		"owner":  os.Chown(filepath.Join(path, "file"), 1234, 5678),
		"link":   os.Symlink("/etc/passwd", filepath.Join(path, "link")),
		"folder": os.Mkdir(filepath.Join(path, "folder"), 0o711),
		"pipe":   unix.Mkfifo(filepath.Join(path, "pipe"), 0o600),
	} {
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	snap, err := r.CreateSnapshot(t.Context(), &message.ClientCSIControllerCreateSnapshotRequest{ExternalSourceVolumeID: id, Name: "s"})
	if err != nil {
		t.Fatal(err)
	}
	r.unmount(t, id)
	for name, req := range map[string]message.ClientCSIControllerCreateVolumeRequest{
		"from-snapshot": {Name: "from-snapshot", SnapshotID: snap.ID}, "clone": {Name: "clone", CloneID: id}} {
		other := r.create(t, req)
		checkCopy(t, r.mount(t, other, func(n *csi.NodeRequest) { n.ReadOnly = true }))
		if err := os.WriteFile(filepath.Join(r.dir, other, "new"), nil, 0o600); !errors.Is(err, unix.EROFS) {
			t.Errorf("%s: write to a read-only volume: %v", name, err)
		}
		r.unmount(t, other)
	}
	if left := r.plugin.Mounts(t); len(left) > 0 {
		t.Errorf("mounts %q are left", left)
	}
}

// checkCopy checks the files of TestDirectory in a copy.
func checkCopy(t *testing.T, path string) {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(path, "file"))
	var st unix.Stat_t
	statErr := unix.Lstat(filepath.Join(path, "file"), &st)
	to, linkErr := os.Readlink(filepath.Join(path, "link"))
	folder, folderErr := os.Stat(filepath.Join(path, "folder"))
	if err := errors.Join(err, statErr, linkErr, folderErr); err != nil {
		t.Error(err)
		return
	}
	if string(raw) != "content" || st.Uid != 1234 || st.Gid != 5678 || st.Mode&0o777 != 0o640 || to != "/etc/passwd" ||
		folder.Mode().Perm() != 0o711 {
		t.Errorf("file %q of %d:%d mode %o, link to %q, folder %s", raw, st.Uid, st.Gid, st.Mode, to, folder.Mode())
	}
}

// TestDevice checks that a block device has the content and the size of its volume, also after an expansion.
func TestDevice(t *testing.T) {
	r := newRig(t, device)
	id := r.create(t, message.ClientCSIControllerCreateVolumeRequest{Name: "one"})
	path := r.mount(t, id, same)
	f, err := os.OpenFile(path, os.O_RDWR|unix.O_SYNC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || info.Mode()&os.ModeDevice == 0 {
		t.Errorf("the volume is %v, %v, want a block device", info.Mode(), err)
	}
	if _, err := f.WriteAt([]byte("content"), 4096); err != nil {
		t.Error(err)
	}
	capacity := &words.CapacityRange{RequiredBytes: 2 << 20}
	if _, err := r.ExpandVolume(t.Context(), &message.ClientCSIControllerExpandVolumeRequest{ExternalVolumeID: id, CapacityRange: capacity}); err != nil {
		t.Error(err)
	}
	bytes, err := r.NodeExpand(t.Context(), csi.ExpandRequest{Volume: id, Path: path, Capacity: capacity})
	size, seekErr := f.Seek(0, 2)
	if err := errors.Join(err, seekErr); err != nil || bytes != 2<<20 || size != 2<<20 {
		t.Errorf("the device has %d bytes and NodeExpand returned %d, %v, want 2 MiB", size, bytes, err)
	}
	f.Close()
	r.unmount(t, id)
	raw, err := os.ReadFile(r.plugin.Content(id))
	if err != nil || len(raw) != 2<<20 || string(raw[4096:4103]) != "content" {
		t.Errorf("the content of the volume has %d bytes, %v", len(raw), err)
	}
	if r.plugin.Devices(t) > 0 || len(r.plugin.Mounts(t)) > 0 {
		t.Error("a device or mount is left")
	}
}

// TestRefusals checks the errors for requests that the plugin must refuse.
func TestRefusals(t *testing.T) {
	r := newRig(t, directory, "-zone", "a", "-capacity", "3000000")
	create := func(edit func(*message.ClientCSIControllerCreateVolumeRequest)) error {
		req := &message.ClientCSIControllerCreateVolumeRequest{Name: "other", VolumeCapabilities: []*words.Capability{&directory}}
		edit(req)
		_, err := r.CreateVolume(t.Context(), req)
		return err
	}
	id := r.create(t, message.ClientCSIControllerCreateVolumeRequest{Name: "one"})
	far := r.create(t, message.ClientCSIControllerCreateVolumeRequest{Name: "far", RequestedTopologies: &words.TopologyRequest{
		Required: []*nomad.CSITopology{{Segments: map[string]string{"zone": "b"}}}}})
	stage := func(id string, options *nomad.CSIMountOptions) error {
		return r.NodeStage(t.Context(), &csi.NodeRequest{VolumeID: id, Staging: r.dir, Capability: directory, Options: options})
	}
	detached := stage(id, nil)
	for _, id := range []string{id, far} {
		if _, err := r.AttachVolume(t.Context(), &message.ClientCSIControllerAttachVolumeRequest{VolumeID: id, ClientCSINodeID: "node-1",
			AccessMode: directory.AccessMode, AttachmentMode: directory.AttachmentMode}); err != nil {
			t.Fatal(err)
		}
	}
	_, deleted := r.DeleteVolume(t.Context(), &message.ClientCSIControllerDeleteVolumeRequest{ExternalVolumeID: id})
	for name, c := range map[string]struct {
		err  error
		want codes.Code
	}{
		"too large":       {create(func(q *message.ClientCSIControllerCreateVolumeRequest) { q.CapacityMin = 4000000 }), codes.OutOfRange},
		"other size":      {create(func(q *message.ClientCSIControllerCreateVolumeRequest) { q.Name, q.CapacityMin = "one", 1200000 }), codes.AlreadyExists},
		"not attached":    {detached, codes.FailedPrecondition},
		"in another zone": {stage(far, nil), codes.FailedPrecondition},
		"file system":     {stage(id, &nomad.CSIMountOptions{FSType: "ext4"}), codes.InvalidArgument},
		"mount flag":      {stage(id, &nomad.CSIMountOptions{MountFlags: []string{"password=x"}}), codes.InvalidArgument},
		"in use":          {deleted, codes.FailedPrecondition},
		"path as an ID":   {stage("../nodes/node-1", nil), codes.NotFound},
	} {
		if got := csi.Code(c.err); got != c.want {
			t.Errorf("%s: %v, want code %s", name, c.err, c.want)
		}
	}
}

// TestRestart checks that a plugin that was killed goes on with its volumes.
func TestRestart(t *testing.T) {
	r := newRig(t, directory)
	id := r.create(t, message.ClientCSIControllerCreateVolumeRequest{Name: "one"})
	r.plugin.Faults(t, "once NodePublishVolume die-after")
	req := &csi.NodeRequest{VolumeID: id, Staging: t.TempDir(), Target: filepath.Join(r.dir, id), Capability: directory}
	if _, err := r.AttachVolume(t.Context(), &message.ClientCSIControllerAttachVolumeRequest{VolumeID: id, ClientCSINodeID: "node-1",
		AccessMode: directory.AccessMode, AttachmentMode: directory.AttachmentMode}); err != nil {
		t.Fatal(err)
	}
	if err := r.NodeStage(t.Context(), req); err != nil {
		t.Fatal(err)
	}
	if err := r.NodePublish(t.Context(), req); err == nil {
		t.Error("NodePublish() of a plugin that dies has no error")
	}
	r.plugin.Restart(t)
	if err := r.NodePublish(t.Context(), req); err != nil {
		t.Errorf("NodePublish() again = %v", err)
	}
	if err := errors.Join(r.NodeUnpublish(t.Context(), id, req.Target), r.NodeUnstage(t.Context(), id, req.Staging)); err != nil {
		t.Error(err)
	}
	if left := r.plugin.Mounts(t); len(left) > 0 {
		t.Errorf("mounts %q are left", left)
	}
}
