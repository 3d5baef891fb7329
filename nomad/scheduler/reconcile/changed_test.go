package reconcile_test

import (
	"slices"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/scheduler/reconcile"
)

func job() *nomad.Job {
	return &nomad.Job{ID: "j", Namespace: "default", Type: nomad.JobTypeService, CreateIndex: 5, ModifyIndex: 5, JobModifyIndex: 5,
		Meta: map[string]string{"k": "v"},
		TaskGroups: []*nomad.TaskGroup{{Name: "g", Count: 1, Networks: nomad.Networks{{DynamicPorts: []nomad.Port{{Label: "a"}, {Label: "b"}}}},
			Tasks: []*nomad.Task{{
				Templates: []*nomad.Template{{EmbeddedTmpl: "text", DestPath: "local/x"}},
				Name:      "t", Driver: "exec2", Config: map[string]any{"n": int64(1), "list": []any{"a"}, "deep": map[string]any{"x": uint64(2)}},
			}, {Name: "side", Driver: "exec2"}}}}}
}

func TestGroupChanged(t *testing.T) {
	cases := []struct {
		name string
		edit func(j *nomad.Job, tg *nomad.TaskGroup, task *nomad.Task)
		want bool
	}{
		{"nothing", func(*nomad.Job, *nomad.TaskGroup, *nomad.Task) {}, false},
		{"numbers of another codec", func(_ *nomad.Job, _ *nomad.TaskGroup, t *nomad.Task) {
			t.Config = map[string]any{"n": 1.0, "list": []any{"a"}, "deep": map[string]any{"x": int64(2)}}
		}, false},
		{"empty equals nil", func(j *nomad.Job, _ *nomad.TaskGroup, t *nomad.Task) {
			t.Meta, t.Env, t.Artifacts = map[string]string{}, map[string]string{}, []*nomad.TaskArtifact{}
		}, false},
		{"text of a template", func(_ *nomad.Job, _ *nomad.TaskGroup, t *nomad.Task) { t.Templates[0].EmbeddedTmpl = "other" }, true},
		{"destination of a template", func(_ *nomad.Job, _ *nomad.TaskGroup, t *nomad.Task) { t.Templates[0].DestPath = "local/other" }, true},
		{"template with a source", func(_ *nomad.Job, _ *nomad.TaskGroup, t *nomad.Task) {
			t.Templates[0].EmbeddedTmpl, t.Templates[0].SourcePath = "", "local/src"
		}, true},
		{"kill timeout", func(_ *nomad.Job, _ *nomad.TaskGroup, t *nomad.Task) { t.KillTimeout = time.Minute }, false},
		{"update block", func(_ *nomad.Job, g *nomad.TaskGroup, _ *nomad.Task) {
			g.Update = &nomad.UpdateStrategy{MaxParallel: 2}
		}, false},
		{"devices", func(_ *nomad.Job, _ *nomad.TaskGroup, t *nomad.Task) {
			t.Resources = &nomad.Resources{Devices: nomad.ResourceDevices{{Name: "gpu", Count: 1}}}
		}, true},
		{"numa", func(_ *nomad.Job, _ *nomad.TaskGroup, t *nomad.Task) {
			t.Resources = &nomad.Resources{NUMA: &nomad.NUMA{Affinity: "require"}}
		}, true},
		{"number", func(_ *nomad.Job, _ *nomad.TaskGroup, t *nomad.Task) { t.Config["n"] = 1.5 }, true},
		{"deep", func(_ *nomad.Job, _ *nomad.TaskGroup, t *nomad.Task) { t.Config["deep"] = map[string]any{"y": 2} }, true},
		{"list", func(_ *nomad.Job, _ *nomad.TaskGroup, t *nomad.Task) { t.Config["list"] = []any{"a", "b"} }, true},
		{"driver", func(_ *nomad.Job, _ *nomad.TaskGroup, t *nomad.Task) { t.Driver = "raw_exec" }, true},
		{"privilege", func(_ *nomad.Job, _ *nomad.TaskGroup, t *nomad.Task) { t.Privileged = true }, true},
		{"disk", func(_ *nomad.Job, g *nomad.TaskGroup, _ *nomad.Task) {
			g.EphemeralDisk = &nomad.EphemeralDisk{SizeMB: 1}
		}, true},
		{"network", func(_ *nomad.Job, g *nomad.TaskGroup, _ *nomad.Task) {
			g.Networks = append(g.Networks, &nomad.NetworkResource{Mode: "host"})
		}, true},
		{"metadata of the job moves to the group", func(j *nomad.Job, g *nomad.TaskGroup, _ *nomad.Task) {
			j.Meta, g.Meta = nil, map[string]string{"k": "v"}
		}, false},
		{"metadata of the group hides that of the job", func(j *nomad.Job, g *nomad.TaskGroup, _ *nomad.Task) {
			j.Meta["k"], g.Meta = "other", map[string]string{"k": "v"}
		}, false},
		{"metadata of the task", func(_ *nomad.Job, _ *nomad.TaskGroup, t *nomad.Task) { t.Meta = map[string]string{"k": "w"} }, true},
		{"order of ports", func(_ *nomad.Job, g *nomad.TaskGroup, _ *nomad.Task) { slices.Reverse(g.Networks[0].DynamicPorts) }, true},
		{"a static port", func(_ *nomad.Job, g *nomad.TaskGroup, _ *nomad.Task) {
			n := g.Networks[0]
			n.ReservedPorts, n.DynamicPorts = []nomad.Port{{Label: "a", Value: 80}}, n.DynamicPorts[1:]
		}, true},
		{"another task", func(_ *nomad.Job, g *nomad.TaskGroup, t *nomad.Task) {
			other := *t
			other.Name = "u"
			g.Tasks = append(g.Tasks, &other)
		}, true},
		{"order of tasks", func(_ *nomad.Job, g *nomad.TaskGroup, _ *nomad.Task) { slices.Reverse(g.Tasks) }, false},
		{"task renamed", func(_ *nomad.Job, _ *nomad.TaskGroup, t *nomad.Task) { t.Name = "u" }, true},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			was, is := job(), job()
			c.edit(is, is.TaskGroups[0], is.TaskGroups[0].Tasks[0])
			for _, pair := range [][2]*nomad.Job{{was, is}, {is, was}} {
				if got := reconcile.GroupChanged(pair[0], pair[0].TaskGroups[0], pair[1], pair[1].TaskGroups[0]); got != c.want {
					t.Errorf("GroupChanged() = %v, want %v", got, c.want)
				}
			}
		})
	}
}

func request(j *nomad.Job, allocs ...*nomad.Allocation) *reconcile.Request {
	n := 0
	return &reconcile.Request{
		Eval: &nomad.Evaluation{ID: "e", Type: j.Type, JobID: j.ID, Namespace: j.Namespace}, Job: j, Allocs: allocs,
		Node:  func(id string) *nomad.Node { return &nomad.Node{ID: id, Status: nomad.NodeStatusReady} },
		Now:   time.Unix(1000, 0),
		NewID: func() string { n++; return string(rune('a' + n)) },
		Suits: func(*nomad.Allocation, *nomad.TaskGroup) bool { return true },
	}
}

func alloc(id string, j *nomad.Job, index uint) *nomad.Allocation {
	return &nomad.Allocation{ID: id, Name: nomad.AllocName(j.ID, "g", index), JobID: j.ID, Job: j, TaskGroup: "g", NodeID: "n",
		DesiredStatus: nomad.AllocDesiredStatusRun, ClientStatus: nomad.AllocClientStatusRunning}
}

// A job that is registered again without changes keeps its version, and its allocations are
// ignored.
func TestSameSpec(t *testing.T) {
	old, again := job(), job()
	again.ModifyIndex, again.JobModifyIndex, again.SubmitTime = 9, 9, 7
	r := reconcile.Generic(request(again, alloc("a", old, 0)))
	if d := r.Desired["g"]; d.Ignore != 1 || len(r.InPlace)+len(r.Place)+len(r.Stop) != 0 {
		t.Errorf("desired = %+v", d)
	}
	again.Priority = 70 // a dry run has no new version
	r = reconcile.Generic(request(again, alloc("a", old, 0)))
	if d := r.Desired["g"]; d.InPlaceUpdate != 1 {
		t.Errorf("desired = %+v, want an update in place", d)
	}
}

func TestStopOrder(t *testing.T) {
	old, now := job(), job()
	now.Version, now.JobModifyIndex = 1, 9
	now.TaskGroups[0].Count = 2
	duplicate := alloc("b", old, 0)
	failed := alloc("c", now, 1)
	failed.ClientStatus = nomad.AllocClientStatusFailed
	beyond := alloc("d", now, 5)
	r := reconcile.Generic(request(now, alloc("a", now, 0), duplicate, failed, beyond, alloc("e", now, 1)))
	stopped := map[string]bool{}
	for _, s := range r.Stop {
		stopped[s.Alloc.ID] = true
	}
	if len(stopped) != 3 || !stopped["b"] || !stopped["c"] || !stopped["d"] || len(r.Place) != 0 {
		t.Errorf("stopped %v, want b (twice the name), c (failed) and d (beyond the count)", stopped)
	}
}

func TestCount_Negative(t *testing.T) {
	j := job()
	j.TaskGroups[0].Count = -1
	if r := reconcile.Generic(request(j, alloc("a", j, 0))); len(r.Stop) != 1 {
		t.Errorf("stopped %d, want 1", len(r.Stop))
	}
}
