package jobdiff_test

import (
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/jobdiff"
	"github.com/open-nomad/open-nomad/nomad/message"
)

// TestCompare_CSI checks that a diff has each change of a plugin, of a request for a volume, and of its mount.
func TestCompare_CSI(t *testing.T) {
	job := func() *nomad.Job {
		return &nomad.Job{ID: "j", TaskGroups: []*nomad.TaskGroup{{Name: "g",
			Volumes: map[string]*nomad.VolumeRequest{"v": {Name: "v", Type: "csi", Source: "data", AccessMode: "single-node-writer",
				AttachmentMode: "file-system", MountOptions: &nomad.CSIMountOptions{FSType: "ext4", MountFlags: []string{"noatime"}}}},
			Tasks: []*nomad.Task{{Name: "t", VolumeMounts: []*nomad.VolumeMount{{Volume: "v", Destination: "/srv"}},
				CSIPluginConfig: &nomad.TaskCSIPluginConfig{ID: "p", Type: "node", MountDir: "/csi"}}}}}}
	}
	for name, change := range map[string]func(*nomad.TaskGroup){
		"AccessMode":          func(g *nomad.TaskGroup) { g.Volumes["v"].AccessMode = "multi-node-multi-writer" },
		"FSType":              func(g *nomad.TaskGroup) { g.Volumes["v"].MountOptions.FSType = "xfs" },
		"MountFlags":          func(g *nomad.TaskGroup) { g.Volumes["v"].MountOptions.MountFlags = []string{"ro"} },
		"Owner":               func(g *nomad.TaskGroup) { g.Tasks[0].VolumeMounts[0].Owner = "task" },
		"Type":                func(g *nomad.TaskGroup) { g.Tasks[0].CSIPluginConfig.Type = "monolith" },
		"StagePublishBaseDir": func(g *nomad.TaskGroup) { g.Tasks[0].CSIPluginConfig.StagePublishBaseDir = "/volumes" },
		"HealthTimeout":       func(g *nomad.TaskGroup) { g.Tasks[0].CSIPluginConfig.HealthTimeout = time.Minute },
	} {
		changed := job()
		change(changed.TaskGroups[0])
		d := jobdiff.Compare(job(), changed)
		if d.Type != message.DiffTypeEdited || !hasField(d.TaskGroups[0].Objects, name) && !hasField(d.TaskGroups[0].Tasks[0].Objects, name) {
			t.Errorf("%s: the diff %s lacks it: %+v", name, d.Type, d.TaskGroups[0])
		}
	}
}

// hasField reports whether an object, at any depth, has a changed field or list of that name.
func hasField(objects []*message.ObjectDiff, name string) bool {
	for _, o := range objects {
		if o.Name == name || hasField(o.Objects, name) {
			return true
		}
		for _, f := range o.Fields {
			if f.Type != message.DiffTypeNone && (f.Name == name || len(f.Name) > len(name) && f.Name[:len(name)+1] == name+"[") {
				return true
			}
		}
	}
	return false
}
