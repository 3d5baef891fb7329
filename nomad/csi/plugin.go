package csi

import "github.com/open-nomad/open-nomad/nomad"

// The types of plugins, in csi_plugin blocks.
const (
	PluginNode       nomad.CSIPluginType = "node"
	PluginController nomad.CSIPluginType = "controller"
	PluginMonolith   nomad.CSIPluginType = "monolith" // both
)

// JobDescription is a job with tasks of a plugin, and how many of them it should run.
type JobDescription struct {
	Namespace string
	ID        string
	Expected  int
}

// JobDescriptions are jobs by namespace and ID.
type JobDescriptions map[string]map[string]JobDescription

// Plugin is a plugin: all instances with one ID on all nodes.
type Plugin struct {
	ID                  string
	Provider            string
	Version             string
	ControllerRequired  bool
	Controllers         map[string]*nomad.CSIInfo // by node ID
	Nodes               map[string]*nomad.CSIInfo // by node ID
	Allocations         []*nomad.AllocListStub    // in the reply of CSIPlugin.Get only
	ControllerJobs      JobDescriptions
	NodeJobs            JobDescriptions
	ControllersHealthy  int
	ControllersExpected int
	NodesHealthy        int
	NodesExpected       int
	CreateIndex         uint64
	ModifyIndex         uint64
	CreateTime          int64
	ModifyTime          int64
}

// PluginStub is a plugin in a list.
type PluginStub struct {
	ID                  string
	Provider            string
	ControllerRequired  bool
	ControllersHealthy  int
	ControllersExpected int
	NodesHealthy        int
	NodesExpected       int
	CreateIndex         uint64
	ModifyIndex         uint64
}

// Stub returns the plugin as it is listed.
func (p *Plugin) Stub() *PluginStub {
	return &PluginStub{ID: p.ID, Provider: p.Provider, ControllerRequired: p.ControllerRequired,
		ControllersHealthy: p.ControllersHealthy, ControllersExpected: p.ControllersExpected,
		NodesHealthy: p.NodesHealthy, NodesExpected: p.NodesExpected, CreateIndex: p.CreateIndex, ModifyIndex: p.ModifyIndex}
}
