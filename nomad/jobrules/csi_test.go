package jobrules_test

import (
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/jobrules"
)

// ofCSI returns a service job with a CSI volume that is mounted once. The job is valid before the edit.
func ofCSI(edit func(v *nomad.VolumeRequest, m *nomad.VolumeMount, tg *nomad.TaskGroup)) *nomad.Job {
	return mounting(func(v *nomad.VolumeRequest, m *nomad.VolumeMount, j *nomad.Job) {
		tg := j.TaskGroups[0]
		v.Type, v.AccessMode, v.AttachmentMode, tg.Count = "csi", "single-node-writer", "file-system", 1
		edit(v, m, tg)
	})
}

func TestValidate_CSIVolume(t *testing.T) {
	mode := func(access string, readOnly bool, count int) func(*nomad.VolumeRequest, *nomad.VolumeMount, *nomad.TaskGroup) {
		return func(v *nomad.VolumeRequest, _ *nomad.VolumeMount, tg *nomad.TaskGroup) {
			v.AccessMode, v.ReadOnly, tg.Count = nomad.VolumeAccessMode(access), readOnly, count
		}
	}
	for _, c := range []struct {
		name string
		edit func(v *nomad.VolumeRequest, m *nomad.VolumeMount, tg *nomad.TaskGroup)
		want string // "" is fine
	}{
		{"plain", func(*nomad.VolumeRequest, *nomad.VolumeMount, *nomad.TaskGroup) {}, ""},
		{"mount options", func(v *nomad.VolumeRequest, _ *nomad.VolumeMount, _ *nomad.TaskGroup) {
			v.MountOptions = &nomad.CSIMountOptions{FSType: "ext4", MountFlags: []string{"noatime"}}
		}, ""},
		{"block device", func(v *nomad.VolumeRequest, _ *nomad.VolumeMount, _ *nomad.TaskGroup) {
			v.AttachmentMode = "block-device"
		}, ""},
		{"block device with mount options", func(v *nomad.VolumeRequest, _ *nomad.VolumeMount, _ *nomad.TaskGroup) {
			v.AttachmentMode, v.MountOptions = "block-device", &nomad.CSIMountOptions{FSType: "ext4"}
		}, "block devices cannot have mount options"},
		{"no source", func(v *nomad.VolumeRequest, _ *nomad.VolumeMount, _ *nomad.TaskGroup) { v.Source = "" }, "volume has an empty source"},
		{"source with a reference", func(v *nomad.VolumeRequest, _ *nomad.VolumeMount, _ *nomad.TaskGroup) { v.Source = "v${meta.x}" },
			"contains a reference"},
		{"no attachment mode", func(v *nomad.VolumeRequest, _ *nomad.VolumeMount, _ *nomad.TaskGroup) { v.AttachmentMode = "" },
			"CSI volumes must have an attachment mode"},
		{"unknown attachment mode", func(v *nomad.VolumeRequest, _ *nomad.VolumeMount, _ *nomad.TaskGroup) { v.AttachmentMode = "file" },
			`attachment_mode is "file": use file-system or block-device`},
		{"no access mode", mode("", false, 1), "CSI volumes must have an access mode"},
		{"unknown access mode", mode("rw", false, 1), `access_mode is "rw": use single-node-reader-only`},
		{"single-node-single-writer", mode("single-node-single-writer", false, 1), "which only host volumes have"},
		{"single-node-multi-writer", mode("single-node-multi-writer", false, 1), "which only host volumes have"},
		{"sticky", func(v *nomad.VolumeRequest, _ *nomad.VolumeMount, _ *nomad.TaskGroup) { v.Sticky = true },
			`sticky is not allowed for type "csi"`},
		{"reader that writes", mode("single-node-reader-only", false, 1), "single-node-reader-only volumes must be read-only"},
		{"readers that write", mode("multi-node-reader-only", false, 2), "multi-node-reader-only volumes must be read-only"},
		{"one reader", mode("single-node-reader-only", true, 1), ""},
		{"two readers", mode("single-node-reader-only", true, 2), "volume with single-node-reader-only access mode allows only one reader:"},
		{"many readers", mode("multi-node-reader-only", true, 7), ""},
		{"two writers", mode("single-node-writer", false, 2), "volume with single-node-writer access mode allows only one reader or writer"},
		{"two readers of a writer's", mode("single-node-writer", true, 2), "allows only one reader or writer"},
		{"two writers on nodes", mode("multi-node-single-writer", false, 2), "volume with multi-node-single-writer access mode allows only one writer"},
		{"two readers on nodes", mode("multi-node-single-writer", true, 2), ""},
		{"many writers", mode("multi-node-multi-writer", false, 7), ""},
		{"per_alloc", func(v *nomad.VolumeRequest, _ *nomad.VolumeMount, tg *nomad.TaskGroup) {
			v.PerAlloc, tg.Count = true, 3
		}, ""},
		{"per_alloc with canaries", func(v *nomad.VolumeRequest, _ *nomad.VolumeMount, tg *nomad.TaskGroup) {
			v.PerAlloc, tg.Update = true, &nomad.UpdateStrategy{MaxParallel: 1, Canary: 1}
		}, "volume cannot be per_alloc when canaries are in use"},
	} {
		t.Run(c.name, func(t *testing.T) { wantFault(t, ofCSI(c.edit), c.want) })
	}
}

// The texts of the caller in an error are short, also those with a type of their own.
func TestValidate_ShortTexts(t *testing.T) {
	long := strings.Repeat("x", 5000)
	j := ofCSI(func(v *nomad.VolumeRequest, m *nomad.VolumeMount, tg *nomad.TaskGroup) {
		v.AccessMode, v.AttachmentMode, m.Owner = nomad.VolumeAccessMode(long), nomad.VolumeAttachmentMode(long), long
		tg.Tasks[0].CSIPluginConfig = &nomad.TaskCSIPluginConfig{ID: "p", Type: nomad.CSIPluginType(long)}
	})
	err := jobrules.Validate(j)
	if err == nil || strings.Count(err.Error(), "\n") != 3 || len(err.Error()) > 2000 {
		t.Errorf("Validate() = %d bytes, want four short errors: %v", len(err.Error()), err)
	}
}

func TestValidate_Owner(t *testing.T) {
	for _, c := range []struct {
		name string
		edit func(v *nomad.VolumeRequest, m *nomad.VolumeMount, tg *nomad.TaskGroup)
		want string // "" is fine
	}{
		{"one writer", func(*nomad.VolumeRequest, *nomad.VolumeMount, *nomad.TaskGroup) {}, ""},
		{"one writer of many nodes", func(v *nomad.VolumeRequest, _ *nomad.VolumeMount, _ *nomad.TaskGroup) {
			v.AccessMode = "multi-node-single-writer"
		}, ""},
		{"a volume for each", func(v *nomad.VolumeRequest, _ *nomad.VolumeMount, tg *nomad.TaskGroup) {
			v.PerAlloc, tg.Count = true, 3
		}, ""},
		{"many writers", func(v *nomad.VolumeRequest, _ *nomad.VolumeMount, _ *nomad.TaskGroup) {
			v.AccessMode = "multi-node-multi-writer"
		},
			`owner needs an access mode with one writer, and volume "v" has "multi-node-multi-writer"`},
		{"request that reads", func(v *nomad.VolumeRequest, _ *nomad.VolumeMount, _ *nomad.TaskGroup) { v.ReadOnly = true },
			"which is read-only here"},
		{"mount that reads", func(_ *nomad.VolumeRequest, m *nomad.VolumeMount, _ *nomad.TaskGroup) { m.ReadOnly = true },
			"which is read-only here"},
		{"block device", func(v *nomad.VolumeRequest, _ *nomad.VolumeMount, _ *nomad.TaskGroup) {
			v.AttachmentMode = "block-device"
		},
			"owner is only for file systems"},
		{"unknown", func(_ *nomad.VolumeRequest, m *nomad.VolumeMount, _ *nomad.TaskGroup) { m.Owner = "1000" }, `owner is "1000": use task`},
		{"reference", func(_ *nomad.VolumeRequest, m *nomad.VolumeMount, _ *nomad.TaskGroup) { m.Volume = "${meta.v}" },
			"owner is set and volume contains a reference"},
		{"two tasks", func(_ *nomad.VolumeRequest, m *nomad.VolumeMount, tg *nomad.TaskGroup) {
			tg.Tasks = append(tg.Tasks, &nomad.Task{Name: "second", Driver: "exec2", VolumeMounts: []*nomad.VolumeMount{m}})
		}, `both set owner of volume "v"`},
		{"two tasks, one owner", func(_ *nomad.VolumeRequest, m *nomad.VolumeMount, tg *nomad.TaskGroup) {
			other := *m
			other.Owner = ""
			tg.Tasks = append(tg.Tasks, &nomad.Task{Name: "second", Driver: "exec2", VolumeMounts: []*nomad.VolumeMount{&other}})
		}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			wantFault(t, ofCSI(func(v *nomad.VolumeRequest, m *nomad.VolumeMount, tg *nomad.TaskGroup) {
				m.Owner = "task"
				c.edit(v, m, tg)
			}), c.want)
		})
	}
}

func TestValidate_CSIPlugin(t *testing.T) {
	type plugin = nomad.TaskCSIPluginConfig
	for _, c := range []struct {
		name string
		edit func(c *plugin)
		want string // "" is fine
	}{
		{"defaults", func(*plugin) {}, ""},
		{"controller", func(c *plugin) { c.Type = "controller" }, ""},
		{"monolith", func(c *plugin) { c.Type = "monolith" }, ""},
		{"usual ID", func(c *plugin) { c.ID = "org.democratic-csi.iscsi_1" }, ""},
		{"no ID", func(c *plugin) { c.ID = "" }, "CSIPluginConfig must have a non-empty PluginID"},
		{"path", func(c *plugin) { c.ID = "../x" }, "it becomes the name of a directory"},
		{"parent", func(c *plugin) { c.ID = ".." }, "it becomes the name of a directory"},
		{"NUL", func(c *plugin) { c.ID = "a\x00" }, "it becomes the name of a directory"},
		{"long ID", func(c *plugin) { c.ID = strings.Repeat("x", 129) }, "the limit is 128"},
		{"reference", func(c *plugin) { c.ID = "${node.class}" }, "references are not resolved there"},
		{"type", func(c *plugin) { c.Type = "nodes" },
			`CSIPluginConfig PluginType must be one of 'node', 'controller', or 'monolith', got: "nodes"`},
		{"no type", func(c *plugin) { c.Type = "" }, `or 'monolith', got: ""`},
		{"below the socket", func(c *plugin) { c.MountDir, c.StagePublishBaseDir = "/csi", "/csi/volumes" },
			`StagePublishBaseDir must not be a subdirectory of MountDir, got: StagePublishBaseDir="/csi/volumes" MountDir="/csi"`},
		{"below the default", func(c *plugin) { c.StagePublishBaseDir = "/csi/./x" }, "must not be a subdirectory of MountDir"},
		{"the same", func(c *plugin) { c.MountDir, c.StagePublishBaseDir = "/csi", "/csi/" }, "must not be a subdirectory of MountDir"},
		{"a longer name", func(c *plugin) { c.MountDir, c.StagePublishBaseDir = "/csi", "/csi-volumes" }, ""},
		{"socket below the volumes", func(c *plugin) { c.MountDir = "/local/csi/socket" }, "choose directories outside each other"},
		{"root", func(c *plugin) { c.MountDir = "/" }, "mount_dir of csi_plugin: destination is \"/\""},
		{"dots", func(c *plugin) { c.StagePublishBaseDir = "/local/../x" }, "stage_publish_base_dir of csi_plugin: destination"},
		{"devices", func(c *plugin) { c.MountDir = "/dev/csi" }, "is in /dev"},
		{"reference in a path", func(c *plugin) { c.MountDir = "${NOMAD_TASK_DIR}/csi" }, "references are not resolved there"},
		{"health_timeout", func(c *plugin) { c.HealthTimeout = -time.Second }, "health_timeout of csi_plugin is negative"},
	} {
		t.Run(c.name, func(t *testing.T) {
			j := sample("service")
			p := &plugin{ID: "p", Type: "node"}
			c.edit(p)
			j.TaskGroups[0].Tasks[0].CSIPluginConfig = p
			jobrules.Canonicalize(j)
			wantFault(t, j, c.want)
		})
	}
	j := sample("service")
	for _, name := range []string{"a", "b"} {
		j.TaskGroups[0].Tasks = append(j.TaskGroups[0].Tasks, &nomad.Task{Name: name, Driver: "exec2",
			CSIPluginConfig: &plugin{ID: "p-" + name, Type: "node"}})
	}
	jobrules.Canonicalize(j)
	wantFault(t, j, `tasks "a" and "b" both have a csi_plugin block`)
}
