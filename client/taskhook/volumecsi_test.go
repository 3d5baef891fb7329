package taskhook_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/open-nomad/open-nomad/client/csi/mounts"
	"github.com/open-nomad/open-nomad/client/taskhook"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// csiVolumes are mounted volumes by ID.
type csiVolumes map[string]mounts.Mounted

func (v csiVolumes) Mounted(u mounts.Use) (mounts.Mounted, bool, error) {
	if u.VolumeID == "broken" {
		return mounts.Mounted{}, false, errors.New("no list of mounts")
	}
	got, ok := v[u.VolumeID]
	return got, ok, nil
}

// ofCSI returns the configuration of a task that mounts the CSI volume data[2] at path.
func ofCSI(got mounts.Mounted, m *nomad.VolumeMount) (taskhook.Config, *nomad.VolumeRequest) {
	cfg := mounting("/nowhere", m)
	v := &nomad.VolumeRequest{Name: "v", Type: "csi", Source: "data", PerAlloc: true, AccessMode: nomad.VolumeSingleNodeWriter,
		AttachmentMode: nomad.VolumeAttachFilesystem}
	cfg.Alloc.Job.TaskGroups[0].Volumes["v"] = v
	cfg.CSIVolumes = csiVolumes{"data[2]": got}
	cfg.Capabilities.Devices = true
	return cfg, v
}

func TestCSIVolume(t *testing.T) {
	path := t.TempDir()
	for name, c := range map[string]struct {
		edit func(*taskhook.Config, *nomad.VolumeRequest, *nomad.VolumeMount)
		want drivers.Mount
	}{
		"writable":         {func(*taskhook.Config, *nomad.VolumeRequest, *nomad.VolumeMount) {}, drivers.Mount{HostPath: path}},
		"read-only mount":  {func(_ *taskhook.Config, _ *nomad.VolumeRequest, m *nomad.VolumeMount) { m.ReadOnly = true }, drivers.Mount{HostPath: path, ReadOnly: true}},
		"read-only volume": {func(_ *taskhook.Config, v *nomad.VolumeRequest, _ *nomad.VolumeMount) { v.ReadOnly = true }, drivers.Mount{HostPath: path, ReadOnly: true}},
		"propagation": {func(c *taskhook.Config, _ *nomad.VolumeRequest, m *nomad.VolumeMount) {
			m.PropagationMode, c.Capabilities.Propagations = "host-to-task", []string{"host-to-task"}
		}, drivers.Mount{HostPath: path, Propagation: "host-to-task"}},
		"label": {func(c *taskhook.Config, _ *nomad.VolumeRequest, m *nomad.VolumeMount) {
			m.SELinuxLabel, c.Capabilities.SELinux = "z", true
		}, drivers.Mount{HostPath: path, SELinuxLabel: "z"}},
	} {
		t.Run(name, func(t *testing.T) {
			m := at("local/a")
			cfg, v := ofCSI(mounts.Mounted{Path: path}, m)
			c.edit(&cfg, v, m)
			got, err := prestart(t, cfg, nil)
			if err != nil {
				t.Fatal(err)
			}
			c.want.TaskPath = got.dir.LocalPath() + "/a"
			if !slices.Equal(got.mounts, []drivers.Mount{c.want}) {
				t.Errorf("mounts = %+v, want %+v", got.mounts, c.want)
			}
		})
	}
}

// TestCSIBlockDevice checks that a block device is a device of the task.
func TestCSIBlockDevice(t *testing.T) {
	node := filepath.Join(t.TempDir(), "node")
	if err := os.WriteFile(node, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(node+"-reads", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	m := at("local/disk")
	cfg, _ := ofCSI(mounts.Mounted{Path: node, Device: true, Reads: node + "-reads"}, m)
	got, err := prestart(t, cfg, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := []drivers.Device{{TaskPath: got.dir.LocalPath() + "/disk", HostPath: node, Permissions: "rw"}}
	if len(got.mounts) > 0 || !slices.Equal(got.devices, want) {
		t.Errorf("mounts = %+v, devices = %+v, want %+v", got.mounts, got.devices, want)
	}
	m.ReadOnly = true
	if got, err = prestart(t, cfg, nil); err != nil || len(got.devices) != 1 || got.devices[0].Permissions != "r" ||
		got.devices[0].HostPath != node+"-reads" {
		t.Errorf("devices = %+v, %v, want one that is read-only", got.devices, err)
	}
}

func TestCSIVolumeFaults(t *testing.T) {
	path := t.TempDir()
	for name, c := range map[string]struct {
		got  mounts.Mounted
		edit func(*taskhook.Config, *nomad.VolumeRequest, *nomad.VolumeMount)
		want string
	}{
		"not mounted": {mounts.Mounted{Path: path}, func(_ *taskhook.Config, v *nomad.VolumeRequest, _ *nomad.VolumeMount) { v.PerAlloc = false },
			`CSI volume "data" is not mounted on this node any more`},
		"unreadable": {mounts.Mounted{Path: path}, func(_ *taskhook.Config, v *nomad.VolumeRequest, _ *nomad.VolumeMount) {
			v.Source, v.PerAlloc = "broken", false
		}, "no list of mounts"},
		"no mounts": {mounts.Mounted{Path: path}, func(c *taskhook.Config, _ *nomad.VolumeRequest, _ *nomad.VolumeMount) { c.Capabilities.Mounts = false },
			`task driver "exec2" for "web" does not support CSI`},
		"no devices": {mounts.Mounted{Path: path, Device: true}, func(c *taskhook.Config, _ *nomad.VolumeRequest, _ *nomad.VolumeMount) { c.Capabilities.Devices = false },
			"can't give a task a block device"},
		"gone": {mounts.Mounted{Path: path + "/gone"}, func(*taskhook.Config, *nomad.VolumeRequest, *nomad.VolumeMount) {},
			`CSI volume "data[2]" of this node: open`},
		"owner of a shared volume": {mounts.Mounted{Path: path}, func(_ *taskhook.Config, v *nomad.VolumeRequest, m *nomad.VolumeMount) {
			v.AccessMode, m.Owner = nomad.VolumeMultiNodeMultiWriter, "task"
		}, `owner = "task" needs a volume with one writer`},
		"owner of a read-only volume": {mounts.Mounted{Path: path}, func(_ *taskhook.Config, _ *nomad.VolumeRequest, m *nomad.VolumeMount) {
			m.ReadOnly, m.Owner = true, "task"
		}, `owner = "task" needs a volume with one writer`},
		"owner without a number": {mounts.Mounted{Path: path}, func(c *taskhook.Config, _ *nomad.VolumeRequest, m *nomad.VolumeMount) {
			m.Owner, c.Task.User, c.Capabilities.FSIsolation, m.Destination = "task", "www-data", drivers.FSIsolationImage, "/data"
		}, `owner = "task": the task's user has no number on this node`},
	} {
		t.Run(name, func(t *testing.T) {
			m := at("local/a")
			cfg, v := ofCSI(c.got, m)
			c.edit(&cfg, v, m)
			if got, err := prestart(t, cfg, nil); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("Prestart() = %v, mounts %+v, want %q", err, got.mounts, c.want)
			}
		})
	}
}

// TestCSIVolumeOwner checks that the files of a volume belong to the user of the task when it starts.
func TestCSIVolumeOwner(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root changes owners")
	}
	path := t.TempDir()
	file := filepath.Join(path, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	m := at("local/a")
	cfg, _ := ofCSI(mounts.Mounted{Path: path}, m)
	cfg.Capabilities.DynamicWorkloadUsers = true
	owner := func() (uid, gid uint32) {
		info, err := os.Stat(file)
		if err != nil {
			t.Fatal(err)
		}
		st := info.Sys().(*syscall.Stat_t)
		return st.Uid, st.Gid
	}
	if _, err := prestart(t, cfg, nil); err != nil {
		t.Fatal(err)
	}
	if uid, gid := owner(); uid != 0 || gid != 0 {
		t.Errorf("without owner, the file belongs to %d:%d", uid, gid)
	}
	m.Owner = nomad.VolumeOwnerTask
	if _, err := prestart(t, cfg, nil); err != nil {
		t.Fatal(err)
	}
	if uid, gid := owner(); uid != 80001 || gid != 80001 {
		t.Errorf("the file belongs to %d:%d, want the task's user", uid, gid)
	}
}
