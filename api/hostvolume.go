package api

import "github.com/open-nomad/open-nomad/api/workload"

// HostVolume is a dynamic host volume. Constraints are those for the choice of its node.
type HostVolume struct {
	Namespace                 string
	ID                        string
	Name                      string
	PluginID                  string
	NodePool                  string
	NodeID                    string
	Constraints               []*workload.Constraint `json:",omitempty"`
	RequestedCapacityMinBytes int64
	RequestedCapacityMaxBytes int64
	CapacityBytes             int64
	RequestedCapabilities     []*HostVolumeCapability
	Parameters                map[string]string `json:",omitempty"`
	HostPath                  string
	State                     string
	CreateIndex               uint64
	CreateTime                int64
	ModifyIndex               uint64
	ModifyTime                int64
	Allocations               []*AllocationListStub `json:",omitempty"`
}

// HostVolumeCapability is a combination of modes in which a volume may be used.
type HostVolumeCapability struct {
	AttachmentMode string
	AccessMode     string
}

// HostVolumeStub is the short form of a volume in lists.
type HostVolumeStub struct {
	Namespace     string
	ID            string
	Name          string
	PluginID      string
	NodePool      string
	NodeID        string
	CapacityBytes int64
	State         string
	CreateIndex   uint64
	CreateTime    int64
	ModifyIndex   uint64
	ModifyTime    int64
}

// HostVolumeCreateRequest creates a volume, or updates it if Volume.ID is set.
type HostVolumeCreateRequest struct {
	Volume         *HostVolume
	PolicyOverride bool
}

// HostVolumeCreateResponse is the reply to HostVolumeCreateRequest.
type HostVolumeCreateResponse struct {
	Volume   *HostVolume
	Warnings string
}

// HostVolumeRegisterRequest makes a path of a node a volume.
type HostVolumeRegisterRequest struct {
	Volume         *HostVolume
	PolicyOverride bool
}

// HostVolumeRegisterResponse is the reply to HostVolumeRegisterRequest.
type HostVolumeRegisterResponse struct {
	Volume   *HostVolume
	Warnings string
}

// HostVolumeListRequest selects volumes. Empty fields select all.
type HostVolumeListRequest struct {
	NodeID   string
	NodePool string
}

// TaskGroupHostVolumeClaim binds a group with a sticky volume request to one volume.
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

// TaskGroupHostVolumeClaimsListRequest selects claims. Empty fields select all.
type TaskGroupHostVolumeClaimsListRequest struct {
	JobID      string
	TaskGroup  string
	VolumeName string
}
