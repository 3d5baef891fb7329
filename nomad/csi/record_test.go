package csi

import (
	"fmt"
	"maps"
	"reflect"
	"testing"

	"github.com/open-nomad/open-nomad/nomad"
)

func counts(p *Plugin) string {
	return fmt.Sprintf("%d/%d %d/%d", p.ControllersHealthy, p.ControllersExpected, p.NodesHealthy, p.NodesExpected)
}

func TestPluginInstances(t *testing.T) {
	p := NewPlugin("ebs")
	for i, c := range []struct {
		kind nomad.CSIPluginType
		node string
		info *nomad.CSIInfo
		want string
		same bool
	}{
		{PluginNode, "n1", &nomad.CSIInfo{}, "0/0 0/0", true},
		{PluginNode, "n1", nil, "0/0 0/0", true},
		{PluginNode, "n1", &nomad.CSIInfo{Healthy: true, Provider: "a", RequiresControllerPlugin: true}, "0/0 1/0", false},
		{PluginNode, "n1", &nomad.CSIInfo{Healthy: true, Provider: "a", RequiresControllerPlugin: true}, "0/0 1/0", true},
		{PluginController, "n1", &nomad.CSIInfo{Healthy: true, Provider: "b", ProviderVersion: "2", RequiresControllerPlugin: true},
			"1/0 1/0", false},
		{PluginNode, "n1", &nomad.CSIInfo{Provider: "b", ProviderVersion: "2"}, "1/0 0/0", false},
		{PluginNode, "n2", &nomad.CSIInfo{Healthy: true, Provider: "b", ProviderVersion: "2"}, "1/0 1/0", false},
		{PluginNode, "n1", nil, "1/0 1/0", false},
		{PluginController, "n1", &nomad.CSIInfo{Healthy: true, Provider: "b"}, "1/0 1/0", false},
	} {
		before := *p.editable()
		next := p.WithInstance(c.kind, c.node, c.info)
		if got := counts(next); got != c.want || (next == p) != c.same {
			t.Errorf("step %d: the counts are %s, want %s; nothing changed: %t", i, got, c.want, next == p)
		}
		if !reflect.DeepEqual(before.Nodes, p.Nodes) || !reflect.DeepEqual(before.Controllers, p.Controllers) {
			t.Errorf("step %d: the old record was changed", i)
		}
		p = next
		if i == 2 && p.ControllerRequired {
			t.Error("only a controller decides whether one is required")
		}
		if i == 4 && (!p.ControllerRequired || p.Provider != "b" || p.Version != "2") {
			t.Errorf("the record is %+v", p)
		}
	}
	if p.ControllerRequired || p.Empty() {
		t.Errorf("the record is %+v", p)
	}
	if p = p.WithInstance(PluginNode, "n2", nil).WithInstance(PluginController, "n1", nil); !p.Empty() {
		t.Errorf("without instances the record is %+v", p)
	}
}

func TestPluginJobs(t *testing.T) {
	p := NewPlugin("ebs")
	job := func(ns, id string, n int) JobDescription { return JobDescription{Namespace: ns, ID: id, Expected: n} }
	p = p.WithJob(PluginNode, job("a", "j", 2)).WithJob(PluginNode, job("a", "k", 3)).WithJob(PluginController, job("b", "j", 1))
	if got := counts(p); got != "0/1 0/5" {
		t.Errorf("the counts are %s", got)
	}
	if p.WithJob(PluginNode, job("a", "j", 2)) != p || p.WithoutJob(PluginNode, nomad.NamespacedID{Namespace: "b", ID: "j"}) != p {
		t.Error("the same jobs make another record")
	}
	if got := counts(p.WithJob(PluginNode, job("a", "j", 0))); got != "0/1 0/3" {
		t.Errorf("after an update the counts are %s", got)
	}
	less := p.WithoutJob(PluginController, nomad.NamespacedID{Namespace: "b", ID: "j"})
	if len(less.ControllerJobs) != 0 || len(p.ControllerJobs) != 1 || counts(less) != "0/0 0/5" {
		t.Errorf("without the controller: %+v", less)
	}
}

func TestExpected(t *testing.T) {
	task := func(id string, kind nomad.CSIPluginType) *nomad.Task {
		return &nomad.Task{CSIPluginConfig: &nomad.TaskCSIPluginConfig{ID: id, Type: kind}}
	}
	groups := []*nomad.TaskGroup{nil,
		{Name: "a", Count: 2, Tasks: []*nomad.Task{nil, {}, task("ebs", PluginMonolith), task("ebs", PluginNode), task("efs", PluginController)}},
		{Name: "b", Count: 3, Tasks: []*nomad.Task{task("ebs", PluginNode)}},
		{Name: "c", Count: 9}}
	sum := &nomad.JobSummary{Summary: map[string]nomad.TaskGroupSummary{"a": {Running: 1, Queued: 2, Starting: 4, Failed: 50, Lost: 50},
		"c": {Running: 100}}}
	for jobType, want := range map[string]map[Part]int{
		"service":  {{"ebs", PluginController}: 2, {"ebs", PluginNode}: 5, {"efs", PluginController}: 2},
		"batch":    {{"ebs", PluginController}: 2, {"ebs", PluginNode}: 5, {"efs", PluginController}: 2},
		"system":   {{"ebs", PluginController}: 7, {"ebs", PluginNode}: 7, {"efs", PluginController}: 7},
		"sysbatch": {{"ebs", PluginController}: 7, {"ebs", PluginNode}: 7, {"efs", PluginController}: 7},
	} {
		j := &nomad.Job{Type: jobType, TaskGroups: groups}
		if got := Expected(j, sum); !maps.Equal(got, want) {
			t.Errorf("Expected() of a %s job = %v, want %v", jobType, got, want)
		}
	}
	if got := Expected(&nomad.Job{Type: "system", TaskGroups: groups}, nil); got[Part{"ebs", PluginNode}] != 0 || len(got) != 3 {
		t.Errorf("Expected() without a summary = %v", got)
	}
}
