package state_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/csi"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// plugins describes the records of plugins: ID, controllers and nodes as healthy/expected, and whether volumes can be mounted.
func plugins(s *state.Snapshot) string {
	var out []string
	for p := range s.CSIPlugins(nil) {
		text := fmt.Sprintf("%s %d/%d %d/%d", p.ID, p.ControllersHealthy, p.ControllersExpected, p.NodesHealthy, p.NodesExpected)
		if p.Schedulable() {
			text += " schedulable"
		}
		out = append(out, text)
	}
	return strings.Join(out, ", ")
}

// wantPlugins compares the records of plugins, also after a restore.
func (w *world) wantPlugins(when, want string) {
	w.t.Helper()
	for how, s := range map[string]*state.Snapshot{"": w.snap(), " and a restore": w.restored().snap()} {
		if got := plugins(s); got != want {
			w.t.Errorf("after %s%s: plugins are %q, want %q", when, how, got, want)
		}
	}
}

// pluginJob registers a job whose tasks run parts of plugins, each as plugin/type.
func (w *world) pluginJob(id, jobType string, count int, parts ...string) *nomad.Job {
	w.t.Helper()
	return w.job(id, func(j *nomad.Job) {
		j.Type, j.SubmitTime = jobType, int64(w.index)
		j.TaskGroups[0].Count = count
		for i, part := range parts {
			plugin, kind, _ := strings.Cut(part, "/")
			j.TaskGroups[0].Tasks = append(j.TaskGroups[0].Tasks, &nomad.Task{Name: fmt.Sprint("t", i),
				CSIPluginConfig: &nomad.TaskCSIPluginConfig{ID: plugin, Type: nomad.CSIPluginType(kind)}})
		}
	})
}

// reportPlugins registers a node with instances, each as plugin/part/allocation. A "!" makes it unhealthy.
func (w *world) reportPlugins(node string, instances ...string) *state.Changes {
	w.t.Helper()
	n := &nomad.Node{ID: node, SecretID: "secret-" + node, Status: nomad.NodeStatusReady, StatusUpdatedAt: int64(w.index),
		CSIControllerPlugins: map[string]*nomad.CSIInfo{}, CSINodePlugins: map[string]*nomad.CSIInfo{}}
	for _, text := range instances {
		text, unhealthy := strings.CutSuffix(text, "!")
		f := strings.Split(text, "/")
		info := &nomad.CSIInfo{PluginID: f[0], AllocID: f[2], Healthy: !unhealthy, Provider: f[0] + ".example", ProviderVersion: "1",
			RequiresControllerPlugin: f[1] == "controller"}
		if f[1] == "controller" {
			n.CSIControllerPlugins[f[0]] = info
		} else {
			info.NodeInfo = &nomad.CSINodeInfo{ID: node, MaxVolumes: 9}
			n.CSINodePlugins[f[0]] = info
		}
	}
	return w.ok(w.RegisterNode(w.next(), &message.NodeRegisterRequest{Node: n}))
}

// on places the allocations of plan on a node.
func on(node string) func(*nomad.Allocation) { return func(a *nomad.Allocation) { a.NodeID = node } }

func TestCSIPluginFollowsJobsAndNodes(t *testing.T) {
	w := newWorld(t)
	w.node("n1")
	w.wantPlugins("nothing", "")
	monolith := w.pluginJob("m", nomad.JobTypeService, 2, "ebs/monolith")
	w.wantPlugins("a job", "ebs 0/2 0/2")
	w.reportPlugins("n1", "ebs/controller/a1", "ebs/node/a1")
	w.wantPlugins("a report without an allocation", "ebs 0/2 0/2")
	w.place(monolith, nil, "a1")
	w.wantPlugins("the placement", "ebs 1/2 1/2 schedulable")
	p := w.snap().CSIPlugin(nil, "ebs")
	if p.Provider != "ebs.example" || p.Version != "1" || !p.ControllerRequired || p.ModifyIndex != w.index || p.CreateIndex != 102 {
		t.Errorf("the record is %+v", p)
	}
	if got := p.NodeJobs["default"]["m"]; got != (csi.JobDescription{Namespace: "default", ID: "m", Expected: 2}) {
		t.Errorf("the job of the record is %+v", got)
	}
	before := p.ModifyIndex
	w.reportPlugins("n1", "ebs/controller/a1", "ebs/node/a1")
	if got := w.snap().CSIPlugin(nil, "ebs").ModifyIndex; got != before {
		t.Errorf("a report without news changed the record at %d", got)
	}
	w.reportPlugins("n1", "ebs/controller/a1!", "ebs/node/a1")
	w.wantPlugins("an unhealthy controller", "ebs 0/2 1/2")
	w.reportPlugins("n1", "ebs/controller/a1", "ebs/node/a1")
	w.reportPlugins("n1", "ebs/controller/a1")
	w.wantPlugins("a report without the node plugin", "ebs 1/2 0/2")
	w.reportPlugins("n1", "ebs/controller/a1", "ebs/node/a1!")
	if w.snap().CSIPlugin(nil, "ebs").Nodes["n1"] != nil {
		t.Error("an unhealthy first report is stored")
	}
	w.reportPlugins("n1", "ebs/controller/a1", "ebs/node/a1")
	w.pluginJob("m", nomad.JobTypeService, 3, "ebs/node", "efs/node")
	w.wantPlugins("an update of the job", "ebs 1/0 1/3 schedulable, efs 0/0 0/3")
	w.place(monolith, func(a *nomad.Allocation) { a.DesiredStatus = nomad.AllocDesiredStatusStop }, "a1")
	w.wantPlugins("the stop of the allocation", "ebs 0/0 0/3, efs 0/0 0/3")
	w.reportPlugins("n1", "ebs/controller/a1", "ebs/node/a1")
	w.wantPlugins("a late report", "ebs 0/0 0/3, efs 0/0 0/3")
	w.ok(w.DeregisterJob(w.next(), &message.JobDeregisterRequest{JobID: "m", WriteRequest: message.WriteRequest{Namespace: "default"}}))
	w.wantPlugins("the stop of the job", "ebs 0/0 0/3, efs 0/0 0/3")
	w.ok(w.DeregisterJob(w.next(), &message.JobDeregisterRequest{JobID: "m", Purge: true, WriteRequest: message.WriteRequest{Namespace: "default"}}))
	w.wantPlugins("the purge", "")
}

// The instances of a node that is deleted are removed, and so are those of an allocation that ended or was collected.
func TestCSIPluginLosesInstances(t *testing.T) {
	for name, lose := range map[string]func(*world){
		"node deleted": func(w *world) { w.ok(w.DeregisterNodes(w.next(), state.Deregistration{IDs: []string{"n1"}})) },
		"failed":       func(w *world) { w.report("a1", nomad.AllocClientStatusFailed) },
		"collected":    func(w *world) { w.ok(w.Reap(w.next(), &message.EvalReapRequest{Allocs: []string{"a1"}})) },
		"evicted": func(w *world) {
			w.ok(w.ApplyPlanResults(w.next(), &message.ApplyPlanResultsRequest{AllocsPreempted: []*nomad.AllocationDiff{{ID: "a1"}}}))
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			j := w.pluginJob("m", nomad.JobTypeService, 1, "ebs/node")
			for i, node := range []string{"n1", "n2"} {
				w.node(node)
				alloc := fmt.Sprint("a", i+1)
				w.place(j, on(node), alloc)
				w.reportPlugins(node, "ebs/node/"+alloc)
			}
			w.wantPlugins("both", "ebs 0/0 2/1 schedulable")
			lose(w)
			w.wantPlugins(name, "ebs 0/0 1/1 schedulable")
		})
	}
}

// A node gets the calls of a controller, with secrets, only if the scheduler placed the plugin there.
func TestCSIPluginOfAnotherNodeDoesNotCount(t *testing.T) {
	w := newWorld(t)
	j := w.pluginJob("m", nomad.JobTypeService, 1, "ebs/node")
	other := w.job("web")
	w.node("n1")
	w.node("n2")
	w.place(j, on("n1"), "a1")
	w.place(other, on("n2"), "a2")
	for _, instance := range []string{"ebs/node/a1", "ebs/node/a2", "ebs/node/", "ebs/node/none", "ebs/controller/a1", "efs/node/a1"} {
		w.reportPlugins("n2", instance)
		w.wantPlugins("the report "+instance, "ebs 0/0 0/1")
	}
	w.reportPlugins("n1", "ebs/controller/a1", "efs/node/a1")
	w.wantPlugins("a report of what the task does not run", "ebs 0/0 0/1")
}

func TestCSIPluginOfSystemJob(t *testing.T) {
	w := newWorld(t)
	j := w.pluginJob("m", nomad.JobTypeSystem, 1, "ebs/node")
	w.wantPlugins("the registration", "ebs 0/0 0/0")
	for i, node := range []string{"n1", "n2"} {
		w.node(node)
		w.place(j, on(node), fmt.Sprint("a", i))
		w.reportPlugins(node, fmt.Sprint("ebs/node/a", i))
	}
	w.wantPlugins("two placements", "ebs 0/0 2/2 schedulable")
	w.report("a0", nomad.AllocClientStatusRunning)
	w.wantPlugins("one runs", "ebs 0/0 2/2 schedulable")
	w.report("a0", nomad.AllocClientStatusFailed)
	w.wantPlugins("one failed", "ebs 0/0 1/1 schedulable")
	w.ok(w.ReconcileJobSummaries(w.next()))
	w.wantPlugins("the summaries were computed again", "ebs 0/0 1/1 schedulable")
}

func TestDeleteCSIPlugin(t *testing.T) {
	w := newWorld(t)
	w.pluginJob("m", nomad.JobTypeService, 1, "ebs/node")
	if _, err := w.DeleteCSIPlugin(w.next(), &message.CSIPluginDeleteRequest{ID: "ebs"}); !errors.Is(err, csi.ErrPluginInUse) {
		t.Errorf("DeleteCSIPlugin() = %v, want %v", err, csi.ErrPluginInUse)
	}
	w.ok(w.DeleteCSIPlugin(w.next(), &message.CSIPluginDeleteRequest{ID: "none"}))
	w.wantPlugins("refused", "ebs 0/0 0/1")
}

// A volume whose plugin becomes usable lets the evaluations retry that wait for it.
func TestCSIPluginLetsEvaluationsRetry(t *testing.T) {
	w := newWorld(t)
	j := w.pluginJob("m", nomad.JobTypeService, 1, "ebs/monolith")
	w.node("n1")
	w.place(j, nil, "a1")
	w.csiVolume("db", "ebs")
	w.csiVolume("other", "efs")
	c := w.reportPlugins("n1", "ebs/controller/a1")
	if len(c.Volumes) > 0 {
		t.Errorf("a controller alone frees %q", c.Volumes)
	}
	c = w.reportPlugins("n1", "ebs/controller/a1", "ebs/node/a1")
	if !slices.Equal(c.Volumes, []string{csi.Resource("default", "db")}) {
		t.Errorf("a usable plugin frees %q", c.Volumes)
	}
	if c = w.reportPlugins("n1", "ebs/controller/a1", "ebs/node/a1"); len(c.Volumes) > 0 {
		t.Errorf("the same report frees %q", c.Volumes)
	}
}
