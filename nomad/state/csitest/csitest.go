// Package csitest runs CSI plugins on nodes of tests. A node's report about a plugin counts only while an allocation of the node
// runs the plugin, so that a node of a test needs a job and an allocation too.
//
//	csitest.Run(t, store, csitest.Instance{node, "ebs", csi.PluginMonolith})   // a store without servers
//
//	for _, e := range csitest.Place(node, "ebs", csi.PluginNode) { apply e.Type, e.Body }   // a server
//	register node again
//
// It starts no goroutine.
package csitest

import (
	"fmt"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/csi"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// Entry is a log entry.
type Entry struct {
	Type message.CommandType
	Body any
}

// Place returns the log entries of a job with the plugin and of its allocation on the node. It adds a healthy instance with all
// capabilities to what the node reports. Kind is that of a csi_plugin block.
func Place(n *nomad.Node, plugin string, kind nomad.CSIPluginType) []Entry {
	j := &nomad.Job{ID: fmt.Sprintf("%s-%s-%.8s", plugin, kind, n.ID), Namespace: nomad.DefaultNamespace, Type: nomad.JobTypeService,
		Region: "global", Datacenters: []string{"*"}, NodePool: nomad.NodePoolDefault,
		TaskGroups: []*nomad.TaskGroup{{Name: "plugin", Count: 1, Tasks: []*nomad.Task{{Name: "plugin", Driver: "mock_driver",
			CSIPluginConfig: &nomad.TaskCSIPluginConfig{ID: plugin, Type: kind}}}}}}
	j.Name = j.ID
	a := &nomad.Allocation{ID: nomad.NewID(), Namespace: j.Namespace, JobID: j.ID, Job: j, TaskGroup: "plugin", NodeID: n.ID,
		NodeName: n.Name, Name: nomad.AllocName(j.ID, "plugin", 0), DesiredStatus: nomad.AllocDesiredStatusRun,
		ClientStatus: nomad.AllocClientStatusRunning}
	if kind != csi.PluginNode {
		n.CSIControllerPlugins = with(n.CSIControllerPlugins, instance(plugin, a.ID, func(i *nomad.CSIInfo) {
			i.ControllerInfo = &nomad.CSIControllerInfo{SupportsCreateDelete: true, SupportsAttachDetach: true, SupportsListVolumes: true,
				SupportsCreateDeleteSnapshot: true, SupportsListSnapshots: true, SupportsClone: true, SupportsReadOnlyAttach: true,
				SupportsExpand: true, SupportsGet: true}
			i.RequiresControllerPlugin = true
		}))
	}
	if kind != csi.PluginController {
		n.CSINodePlugins = with(n.CSINodePlugins, instance(plugin, a.ID, func(i *nomad.CSIInfo) {
			i.NodeInfo = &nomad.CSINodeInfo{ID: "external-" + n.ID, MaxVolumes: 1 << 20, RequiresNodeStageVolume: true, SupportsExpand: true}
		}))
	}
	return []Entry{{message.JobRegisterRequestType, &message.JobRegisterRequest{Job: j}},
		{message.ApplyPlanResultsRequestType, &message.ApplyPlanResultsRequest{Job: j, AllocsUpdated: []*nomad.Allocation{a}}}}
}

func instance(plugin, alloc string, edit func(*nomad.CSIInfo)) *nomad.CSIInfo {
	i := &nomad.CSIInfo{PluginID: plugin, AllocID: alloc, Healthy: true, HealthDescription: "healthy", Provider: plugin + ".example.com",
		ProviderVersion: "1.0.0", UpdateTime: time.Unix(1_800_000_000, 0).UTC()}
	edit(i)
	return i
}

// with returns a copy of a map with another instance, because the map may be that of a stored node.
func with(infos map[string]*nomad.CSIInfo, i *nomad.CSIInfo) map[string]*nomad.CSIInfo {
	out := map[string]*nomad.CSIInfo{i.PluginID: i}
	for id, other := range infos {
		if id != i.PluginID {
			out[id] = other
		}
	}
	return out
}

// Instance is a plugin on a node. See Place.
type Instance struct {
	Node   *nomad.Node
	Plugin string
	Kind   nomad.CSIPluginType
}

// Run runs a plugin on a node, which it registers, and returns the ID of the allocation. Each entry gets the next index of the
// store.
func Run(t testing.TB, s *state.Store, i Instance) (alloc string) {
	t.Helper()
	register(t, s, i.Node)
	for _, e := range Place(i.Node, i.Plugin, i.Kind) {
		var err error
		switch body := e.Body.(type) {
		case *message.JobRegisterRequest:
			_, err = s.RegisterJob(s.LatestIndex()+1, body)
		case *message.ApplyPlanResultsRequest:
			alloc = body.AllocsUpdated[0].ID
			_, err = s.ApplyPlanResults(s.LatestIndex()+1, body)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	register(t, s, i.Node)
	return alloc
}

func register(t testing.TB, s *state.Store, n *nomad.Node) {
	t.Helper()
	own := *n
	if _, err := s.RegisterNode(s.LatestIndex()+1, &message.NodeRegisterRequest{Node: &own}); err != nil {
		t.Fatal(err)
	}
}
