package api

import (
	"encoding/base64"

	"github.com/open-nomad/open-nomad/api/workload"
)

// QuotaSpec limits the total resources of the allocations and variables in all namespaces
// that use it.
type QuotaSpec struct {
	Name        string
	Description string
	Limits      []*QuotaLimit
	CreateIndex uint64
	ModifyIndex uint64
}

// QuotaLimit is the limit in one region, or the usage. VariablesLimit is the older name of
// RegionLimit.Storage.VariablesMB.
type QuotaLimit struct {
	Region         string
	RegionLimit    *QuotaResources
	VariablesLimit *int
	Hash           []byte
}

// Key returns the key of the limit in QuotaUsage.Used.
func (l *QuotaLimit) Key() string { return base64.StdEncoding.EncodeToString(l.Hash) }

// QuotaResources are the limits of a quota. Zero or nil means unlimited. A negative value
// allows nothing. Servers reject Devices, NUMA, SecretsMB and NodePools.
type QuotaResources struct {
	CPU         *int
	Cores       *int
	MemoryMB    *int
	MemoryMaxMB *int
	// Allocs is the number of allocations (only in open-nomad).
	Allocs    *int `json:",omitempty"`
	Devices   []*workload.RequestedDevice
	NUMA      *workload.NUMAResource
	SecretsMB *int
	Storage   *QuotaStorageResources
	NodePools []*NodePoolLimit
}

// QuotaStorageResources limits the size of variables, in MiB. Servers reject HostVolumesMB.
type QuotaStorageResources struct {
	VariablesMB   int
	HostVolumesMB int
}

// NodePoolLimit is a limit in one node pool. Servers reject it.
type NodePoolLimit struct {
	NodePool    string
	CPU         *int
	Cores       *int
	MemoryMB    *int
	MemoryMaxMB *int
	Devices     []*workload.RequestedDevice
	NUMA        *workload.NUMAResource
	SecretsMB   *int
	Storage     *QuotaStorageResources
}

// QuotaUsage is the usage of a quota in the region of the responding server, by the key of
// the limit.
type QuotaUsage struct {
	Name        string
	Used        map[string]*QuotaLimit
	CreateIndex uint64
	ModifyIndex uint64
}
