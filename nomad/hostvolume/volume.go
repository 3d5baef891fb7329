// Package hostvolume defines dynamic host volumes: directories of a node that a plugin created, or that an operator
// registered. Followed has the states of a volume.
//
// A job requests a volume with VolumeRequest of package nomad; Volume.Serves reports whether a volume satisfies it. A Claim
// binds a group with a sticky request to one volume. Package endpoint/hostvolumes creates and deletes volumes, package rules
// checks them, and client/hostvolume runs the plugins.
//
// The package keeps no state and starts no goroutine.
package hostvolume

import "github.com/open-nomad/open-nomad/nomad"

// State is whether a dynamic host volume can be used.
type State string

// The states of dynamic host volumes. See Followed.
const (
	Pending     State = "pending"
	Ready       State = "ready"
	Unavailable State = "unavailable"
)

// DefaultPlugin is the plugin of a volume that names none. There is no built-in plugin of this name.
const DefaultPlugin = "default"

// PluginAttribute returns the node attribute with the version of a host volume plugin.
func PluginAttribute(plugin string) string {
	return "plugins.host_volume." + plugin + ".version"
}

// Volume is a dynamic host volume: a directory of one node that a plugin created or that an operator registered.
// Allocations is only set in the reply of HostVolume.Get.
type Volume struct {
	Namespace                 string
	ID                        string
	Name                      string
	PluginID                  string
	NodePool                  string
	NodeID                    string
	Constraints               []*nomad.Constraint
	RequestedCapacityMinBytes int64
	RequestedCapacityMaxBytes int64
	CapacityBytes             int64
	RequestedCapabilities     []*nomad.VolumeCapability
	Parameters                map[string]string
	HostPath                  string
	State                     State
	CreateIndex               uint64
	CreateTime                int64
	ModifyIndex               uint64
	ModifyTime                int64
	Allocations               []*nomad.AllocListStub
}

// Stub is the short form of a volume for lists.
type Stub struct {
	Namespace     string
	ID            string
	Name          string
	PluginID      string
	NodePool      string
	NodeID        string
	CapacityBytes int64
	State         State
	CreateIndex   uint64
	CreateTime    int64
	ModifyIndex   uint64
	ModifyTime    int64
}

// Stub returns the short form of the volume.
func (v *Volume) Stub() *Stub {
	return &Stub{Namespace: v.Namespace, ID: v.ID, Name: v.Name, PluginID: v.PluginID, NodePool: v.NodePool, NodeID: v.NodeID,
		CapacityBytes: v.CapacityBytes, State: v.State, CreateIndex: v.CreateIndex, CreateTime: v.CreateTime,
		ModifyIndex: v.ModifyIndex, ModifyTime: v.ModifyTime}
}

// Claim binds a task group with a sticky volume request to one volume. AllocID is the allocation
// that uses the volume.
type Claim struct {
	ID            string
	Namespace     string
	JobID         string
	TaskGroupName string
	AllocID       string
	VolumeID      string
	VolumeName    string
	CreateIndex   uint64
	ModifyIndex   uint64
}
