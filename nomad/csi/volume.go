// Package csi defines the volumes of storage systems that jobs mount through plugins of the Container Storage Interface (CSI),
// the claims of allocations on them, and the plugins.
//
// A Volume names a Plugin. An allocation that requests a volume claims it before it starts (Claim); the claim ends in the
// steps that claim.go draws. A plugin is what the tasks with a csi_plugin block on all nodes report. What a node reports about
// its own plugins is nomad.CSIInfo.
//
// Package state stores the records, endpoint/csivolumes has the RPC methods, claims releases the claims of ended allocations, and
// client/csi calls the plugins of a node.
//
// The package keeps no state and starts no goroutine.
package csi

import (
	"time"

	"github.com/open-nomad/open-nomad/nomad"
)

// Secrets are passed to a plugin with its calls. No reply, log line, event or error contains them.
type Secrets map[string]string

// Sealed contains secrets that a root key encrypts.
type Sealed struct {
	KeyID string
	Data  []byte // the JSON of Secrets, encrypted as variables are
}

// Capability is a combination of modes in which a volume may be used.
type Capability struct {
	AttachmentMode nomad.VolumeAttachmentMode
	AccessMode     nomad.VolumeAccessMode
}

// TopologyRequest are the locations that a new volume must or should be accessible from.
type TopologyRequest struct {
	Required  []*nomad.CSITopology
	Preferred []*nomad.CSITopology
}

// Volume is a volume of a storage system. The fields after PluginID are computed when the volume is read (state.Snapshot.ShownCSIVolume).
type Volume struct {
	ID                    string
	Name                  string
	ExternalID            string
	Namespace             string
	RequestedTopologies   *TopologyRequest
	Topologies            []*nomad.CSITopology
	AccessMode            nomad.VolumeAccessMode     // of the claims, "" without any
	AttachmentMode        nomad.VolumeAttachmentMode // of the claims, "" without any
	MountOptions          *nomad.CSIMountOptions
	Secrets               Secrets // plain: in requests, in the reply of Claim, and in records of other builds
	Sealed                *Sealed `json:"-" http:"-" bexpr:"-" codec:",omitempty"` // Secrets as they are stored; not in Nomad 2.0
	Parameters            map[string]string
	Context               map[string]string
	Capacity              int64 // bytes
	RequestedCapacityMin  int64
	RequestedCapacityMax  int64
	RequestedCapabilities []*Capability
	CloneID               string
	SnapshotID            string

	// By allocation ID. The allocations are nil; each claim has an entry in one of the two.
	ReadAllocs  map[string]*nomad.Allocation
	WriteAllocs map[string]*nomad.Allocation
	ReadClaims  map[string]*Claim `json:"-" http:"-" bexpr:"-"`
	WriteClaims map[string]*Claim `json:"-" http:"-" bexpr:"-"`
	PastClaims  map[string]*Claim `json:"-" http:"-" bexpr:"-"` // those being released. The entry in ReadClaims or WriteClaims remains until the end

	Schedulable         bool
	PluginID            string
	Provider            string
	ProviderVersion     string
	ControllerRequired  bool
	ControllersHealthy  int
	ControllersExpected int
	NodesHealthy        int
	NodesExpected       int
	ResourceExhausted   time.Time
	CreateIndex         uint64
	ModifyIndex         uint64
	CreateTime          int64
	ModifyTime          int64

	// In the reply of CSIVolume.Get only.
	Allocations []*nomad.AllocListStub `codec:",omitempty" http:"Allocations"`
	Releases    []*Release             `json:",omitempty" codec:",omitempty"` // the claims being released; not in Nomad 2.0
}

// Release describes a claim that is being released, and what it waits for.
type Release struct {
	AllocID string
	NodeID  string
	State   string // ClaimState.String
	Since   time.Time
	Waits   string // what the next step waits for
	Command string // the command that ends the wait, "" if none is needed
}

// Stub is a volume in a list.
type Stub struct {
	ID                  string
	Namespace           string
	Name                string
	ExternalID          string
	Topologies          []*nomad.CSITopology
	AccessMode          nomad.VolumeAccessMode
	AttachmentMode      nomad.VolumeAttachmentMode
	CurrentReaders      int
	CurrentWriters      int
	Schedulable         bool
	PluginID            string
	Provider            string
	ControllerRequired  bool
	ControllersHealthy  int
	ControllersExpected int
	NodesHealthy        int
	NodesExpected       int
	ResourceExhausted   time.Time
	CreateIndex         uint64
	ModifyIndex         uint64
	CreateTime          int64
	ModifyTime          int64
}

// Stub returns the volume as it is listed.
func (v *Volume) Stub() *Stub {
	return &Stub{ID: v.ID, Namespace: v.Namespace, Name: v.Name, ExternalID: v.ExternalID, Topologies: v.Topologies,
		AccessMode: v.AccessMode, AttachmentMode: v.AttachmentMode, CurrentReaders: len(v.ReadClaims), CurrentWriters: len(v.WriteClaims),
		Schedulable: v.Schedulable, PluginID: v.PluginID, Provider: v.Provider, ControllerRequired: v.ControllerRequired,
		ControllersHealthy: v.ControllersHealthy, ControllersExpected: v.ControllersExpected,
		NodesHealthy: v.NodesHealthy, NodesExpected: v.NodesExpected, ResourceExhausted: v.ResourceExhausted,
		CreateIndex: v.CreateIndex, ModifyIndex: v.ModifyIndex, CreateTime: v.CreateTime, ModifyTime: v.ModifyTime}
}

// RemoteID returns the ID that the storage system has for the volume.
func (v *Volume) RemoteID() string {
	if v.ExternalID != "" {
		return v.ExternalID
	}
	return v.ID
}

// Duplicates reports whether another record is of the same volume of the storage system, as those that several namespaces share.
func (v *Volume) Duplicates(other *Volume) bool {
	return v.PluginID == other.PluginID && v.RemoteID() == other.RemoteID() && (v.Namespace != other.Namespace || v.ID != other.ID)
}

// RemoteKey returns the ID of the lock of the volume in the storage system. Its namespace is empty. Whoever needs the lock of the
// record too takes that one first.
func (v *Volume) RemoteKey() string { return "external " + v.PluginID + "/" + v.RemoteID() }

// Redacted returns a copy for readers: without secrets, and with MountFlags replaced, which may contain passwords.
func (v *Volume) Redacted() *Volume {
	out := *v
	out.Secrets, out.Sealed = nil, nil
	if v.MountOptions != nil {
		shown := nomad.CSIMountOptions{FSType: v.MountOptions.FSType}
		if len(v.MountOptions.MountFlags) > 0 {
			shown.MountFlags = []string{"[REDACTED]"}
		}
		out.MountOptions = &shown
	}
	return &out
}

// ExternalStub is a volume as its storage system lists it.
type ExternalStub struct {
	ExternalID               string
	CapacityBytes            int64
	VolumeContext            map[string]string
	CloneID                  string
	SnapshotID               string
	PublishedExternalNodeIDs []string
	IsAbnormal               bool
	Status                   string
}

// Snapshot is a snapshot of a volume in its storage system.
type Snapshot struct {
	ID                     string
	ExternalSourceVolumeID string
	SizeBytes              int64
	CreateTime             int64 // seconds since 1970
	IsReady                bool
	SourceVolumeID         string
	PluginID               string
	Name                   string
	Secrets                Secrets
	Parameters             map[string]string
}

// CapacityRange limits the size of a volume, in bytes. 0 is no limit. The names are those of the CSI specification.
type CapacityRange struct {
	RequiredBytes int64
	LimitBytes    int64
}
