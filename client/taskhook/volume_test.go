package taskhook_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/client/taskhook"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// mounting returns the hooks of a task whose driver mounts, on a node with the volume data at
// path.
func mounting(path string, mounts ...*nomad.VolumeMount) taskhook.Config {
	cfg := config(&nomad.Task{Driver: "exec2", VolumeMounts: mounts})
	cfg.Capabilities.Mounts = true
	cfg.Node = &nomad.Node{HostVolumes: map[string]*nomad.ClientHostVolumeConfig{"data": {Name: "data", Path: path}}}
	cfg.Alloc.Name = "j.g[2]"
	cfg.Alloc.TaskGroup = "g"
	cfg.Alloc.Job.TaskGroups = []*nomad.TaskGroup{{Name: "g",
		Volumes: map[string]*nomad.VolumeRequest{"v": {Name: "v", Type: "host", Source: "data"}}}}
	return cfg
}

func at(destination string) *nomad.VolumeMount {
	return &nomad.VolumeMount{Volume: "v", Destination: destination, PropagationMode: "private"}
}

func TestVolumeIsPassedToTheDriver(t *testing.T) {
	path, outside := t.TempDir(), t.TempDir()
	cfg := mounting(path, at("local/a/b"), at("${NOMAD_ALLOC_DIR}/shared"), at(outside), at("cache"))
	got, err := prestart(t, cfg, nil)
	if err != nil {
		t.Fatal(err)
	}
	alloc := filepath.Dir(got.dir.Path())
	var want []drivers.Mount
	for _, target := range []string{got.dir.LocalPath() + "/a/b", alloc + "/alloc/shared", outside, got.dir.Path() + "/cache"} {
		want = append(want, drivers.Mount{TaskPath: target, HostPath: path})
		if info, err := os.Stat(target); err != nil || !info.IsDir() {
			t.Errorf("destination %s was not created: %v", target, err)
		}
	}
	if !slices.Equal(got.mounts, want) {
		t.Errorf("mounts = %+v, want %+v", got.mounts, want)
	}
}

// TestVolume_DestinationInImage checks that the path of the node is not used with an image.
func TestVolume_DestinationInImage(t *testing.T) {
	for destination, want := range map[string]string{
		"/data": "/data", "/nowhere/at/all": "/nowhere/at/all", "data": "/data", "/etc/": "/etc", "/tmp": "/tmp", "/tmp/x": "/tmp/x",
		"${NOMAD_TASK_DIR}/a": "/local/a", "${NOMAD_ALLOC_DIR}/data/a": "/alloc/data/a", "/allocs": "/allocs",
		"/alloc": "", "local": "", "/secrets/.": "", "/alloc/logs": "", "/alloc/logs/x": "", "/": "", "/proc/x": "", "/a/../..": "",
	} {
		path := t.TempDir()
		cfg := mounting(path, at(destination))
		cfg.Capabilities.FSIsolation = drivers.FSIsolationImage
		got, err := prestart(t, cfg, nil)
		if want == "" {
			if err == nil {
				t.Errorf("%s: mounts = %+v, want an error", destination, got.mounts)
			}
			continue
		}
		if err != nil || !slices.Equal(got.mounts, []drivers.Mount{{TaskPath: want, HostPath: path}}) {
			t.Errorf("%s: mounts = %+v, %v, want %s", destination, got.mounts, err, want)
		}
		if left, _ := os.ReadDir(got.dir.LocalPath()); len(left) > 0 {
			t.Errorf("%s: created %v on the node", destination, left)
		}
	}
}

// The propagation mode is interpolated and passed on, with the label.
func TestPropagation(t *testing.T) {
	path := t.TempDir()
	m := at("local/a")
	m.PropagationMode, m.SELinuxLabel = "${NOMAD_TASK_NAME}", "Z"
	cfg := mounting(path, m)
	cfg.Task.Name = "host-to-task"
	cfg.Capabilities.Propagations, cfg.Capabilities.SELinux = []string{drivers.PropagateToTask}, true
	got, err := prestart(t, cfg, nil)
	if err != nil || len(got.mounts) != 1 || got.mounts[0].Propagation != drivers.PropagateToTask || got.mounts[0].SELinuxLabel != "Z" {
		t.Errorf("mounts %+v, %v", got.mounts, err)
	}
}

func TestReadOnlyVolumes(t *testing.T) {
	for name, edit := range map[string]func(*taskhook.Config, *nomad.VolumeMount){
		"node":  func(c *taskhook.Config, _ *nomad.VolumeMount) { c.Node.HostVolumes["data"].ReadOnly = true },
		"group": func(c *taskhook.Config, _ *nomad.VolumeMount) { c.Alloc.Job.TaskGroups[0].Volumes["v"].ReadOnly = true },
		"access": func(c *taskhook.Config, _ *nomad.VolumeMount) {
			c.Alloc.Job.TaskGroups[0].Volumes["v"].AccessMode = nomad.VolumeSingleNodeReader
		},
		"mount": func(_ *taskhook.Config, m *nomad.VolumeMount) { m.ReadOnly = true },
	} {
		t.Run(name, func(t *testing.T) {
			m := at("local/a")
			cfg := mounting(t.TempDir(), m)
			edit(&cfg, m)
			got, err := prestart(t, cfg, nil)
			if err != nil || len(got.mounts) != 1 || !got.mounts[0].ReadOnly {
				t.Errorf("mounts = %+v, %v, want one that is read only", got.mounts, err)
			}
		})
	}
}

// Each allocation gets the volume with its index.
func TestVolumeOfTheAllocation(t *testing.T) {
	cfg := mounting("/nowhere", at("local/a"))
	cfg.Alloc.Job.TaskGroups[0].Volumes["v"].PerAlloc = true
	path := t.TempDir()
	cfg.Node.HostVolumes["data[2]"] = &nomad.ClientHostVolumeConfig{Name: "data[2]", Path: path}
	if got, err := prestart(t, cfg, nil); err != nil || len(got.mounts) != 1 || got.mounts[0].HostPath != path {
		t.Errorf("mounts = %+v, %v", got.mounts, err)
	}
}

func TestVolumeFaults(t *testing.T) {
	link := filepath.Join(t.TempDir(), "link")
	file := filepath.Join(t.TempDir(), "file")
	if err := errors.Join(os.Symlink(t.TempDir(), link), os.WriteFile(file, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	here := t.TempDir()
	volume := func(edit func(v *nomad.VolumeRequest)) func(*taskhook.Config) {
		return func(c *taskhook.Config) { edit(c.Alloc.Job.TaskGroups[0].Volumes["v"]) }
	}
	mount := func(edit func(m *nomad.VolumeMount)) func(*taskhook.Config) {
		return func(c *taskhook.Config) { edit(c.Task.VolumeMounts[0]) }
	}
	to := func(destination string) func(*taskhook.Config) {
		return mount(func(m *nomad.VolumeMount) { m.Destination = destination })
	}
	for _, c := range []struct {
		name, path string
		edit       func(*taskhook.Config)
		want       string
	}{
		{"driver", here, func(c *taskhook.Config) { c.Capabilities.Mounts = false }, `driver "exec2" can't mount volumes`},
		{"path is gone", "/nowhere/data", func(*taskhook.Config) {}, `host volume "data" of this node: open /nowhere/data: no such file`},
		{"path is a link", link, func(*taskhook.Config) {}, "a symbolic link was added to the path after the agent started"},
		{"path below a link", link + "/x", func(*taskhook.Config) {}, "a symbolic link was added"},
		{"not on this node", here, volume(func(v *nomad.VolumeRequest) { v.Source = "log" }), `this node has no host volume "log"`},
		{"csi", here, volume(func(v *nomad.VolumeRequest) { v.Type = "csi" }), "this node does not mount CSI volumes"},
		{"unknown type", here, volume(func(v *nomad.VolumeRequest) { v.Type = "nfs" }), `volumes of type "nfs"`},
		{"owner of a host volume", here, mount(func(m *nomad.VolumeMount) { m.Owner = "task" }), `owner = "task" is for CSI volumes only`},
		{"unknown volume", here, mount(func(m *nomad.VolumeMount) { m.Volume = "w" }), `mount volume "w": the group has no volume of that name`},
		{"propagation", here, mount(func(m *nomad.VolumeMount) { m.PropagationMode = "${env.P}" }),
			`propagation_mode is "${env.P}": use private`},
		{"propagation of the driver", here, mount(func(m *nomad.VolumeMount) { m.PropagationMode = "bidirectional" }),
			`driver "exec2" can't mount with propagation_mode = "bidirectional"`},
		{"selinux", here, mount(func(m *nomad.VolumeMount) { m.SELinuxLabel = "z" }), `driver "exec2" can't set selinux_label = "z"`},
		{"unknown reference", here, to("${NOMAD_NOTHING}/x"), "contains a reference that is not defined"},
		{"dots by a reference", here, to("${NOMAD_TASK_DIR}/../../.."), "contains .."},
		{"absent, outside", here, to("/nowhere/at/all"), "destination /nowhere/at/all does not exist on this node and is outside"},
		{"over the task", here, to("${NOMAD_TASK_DIR}/."), ""},
		{"over the allocation", here, to("${NOMAD_ALLOC_DIR}"), "would hide the task's own directories"},
		{"over all", here, to("/tmp"), "would hide the task's own directories"},
		{"private", here, to("private/x"), "neither in the task's directory"},
		{"twice", here, func(c *taskhook.Config) {
			c.Task.VolumeMounts = append(c.Task.VolumeMounts, at("./local/a"))
		}, "is already used by another volume"},
		{"file on nothing", file, func(*taskhook.Config) {}, "destination of a file volume"},
	} {
		t.Run(c.name, func(t *testing.T) {
			cfg := mounting(c.path, at("local/a"))
			c.edit(&cfg)
			_, err := prestart(t, cfg, nil)
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("Prestart() = %v, want %q", err, c.want)
			}
		})
	}
}

// Links that a task creates in the path of a destination are not followed.
func TestDestinationThroughALink(t *testing.T) {
	canary := t.TempDir()
	cfg := mounting(t.TempDir(), at("local/link/x"))
	cfg.Task.Name = "web"
	got, err := prestartIn(t, cfg, nil, func(alloc string) {
		if err := errors.Join(os.MkdirAll(alloc+"/web/local", 0o777), os.Symlink(canary, alloc+"/web/local/link")); err != nil {
			t.Fatal(err)
		}
	})
	if err == nil || !strings.Contains(err.Error(), "create destination") {
		t.Errorf("Prestart() = %v, mounts %+v", err, got.mounts)
	}
	if entries, _ := os.ReadDir(canary); len(entries) != 0 {
		t.Errorf("created %v outside", entries)
	}
}
