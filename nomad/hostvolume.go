package nomad

// HostVolumeState is whether a dynamic host volume can be used.
type HostVolumeState string

// The states of dynamic host volumes. See Followed.
const (
	HostVolumeStatePending     HostVolumeState = "pending"
	HostVolumeStateReady       HostVolumeState = "ready"
	HostVolumeStateUnavailable HostVolumeState = "unavailable"
)

// DefaultHostVolumePlugin is the plugin of a volume that names none. There is no built-in plugin of this name.
const DefaultHostVolumePlugin = "default"

// HostVolumePluginAttribute returns the node attribute with the version of a host volume plugin.
func HostVolumePluginAttribute(plugin string) string {
	return "plugins.host_volume." + plugin + ".version"
}

// HostVolume is a dynamic host volume: a directory of one node that a plugin created or that an operator registered.
// Allocations is only set in the reply of HostVolume.Get.
type HostVolume struct {
	Namespace                 string
	ID                        string
	Name                      string
	PluginID                  string
	NodePool                  string
	NodeID                    string
	Constraints               []*Constraint
	RequestedCapacityMinBytes int64
	RequestedCapacityMaxBytes int64
	CapacityBytes             int64
	RequestedCapabilities     []*HostVolumeCapability
	Parameters                map[string]string
	HostPath                  string
	State                     HostVolumeState
	CreateIndex               uint64
	CreateTime                int64
	ModifyIndex               uint64
	ModifyTime                int64
	Allocations               []*AllocListStub
}

// HostVolumeCapability is a combination of modes in which a volume may be used.
type HostVolumeCapability struct {
	AttachmentMode VolumeAttachmentMode
	AccessMode     VolumeAccessMode
}

// HostVolumeStub is the short form of a volume for lists.
type HostVolumeStub struct {
	Namespace     string
	ID            string
	Name          string
	PluginID      string
	NodePool      string
	NodeID        string
	CapacityBytes int64
	State         HostVolumeState
	CreateIndex   uint64
	CreateTime    int64
	ModifyIndex   uint64
	ModifyTime    int64
}

// Stub returns the short form of the volume.
func (v *HostVolume) Stub() *HostVolumeStub {
	return &HostVolumeStub{Namespace: v.Namespace, ID: v.ID, Name: v.Name, PluginID: v.PluginID, NodePool: v.NodePool, NodeID: v.NodeID,
		CapacityBytes: v.CapacityBytes, State: v.State, CreateIndex: v.CreateIndex, CreateTime: v.CreateTime,
		ModifyIndex: v.ModifyIndex, ModifyTime: v.ModifyTime}
}

// TaskGroupHostVolumeClaim binds a task group with a sticky volume request to one volume. AllocID is the allocation
// that uses the volume.
type TaskGroupHostVolumeClaim struct {
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
