package api

import "encoding/base64"

// QuotaSpec limits what the allocations and variables of all namespaces that name it hold
// together.
type QuotaSpec struct {
	Name        string
	Description string
	Limits      []*QuotaLimit
	CreateIndex uint64
	ModifyIndex uint64
}

// QuotaLimit is the limit in one region, or what is used of it. VariablesLimit is the
// older place of RegionLimit.Storage.VariablesMB.
type QuotaLimit struct {
	Region         string
	RegionLimit    *QuotaResources
	VariablesLimit *int
	Hash           []byte
}

// Key names the limit in QuotaUsage.Used.
func (l *QuotaLimit) Key() string { return base64.StdEncoding.EncodeToString(l.Hash) }

// QuotaResources are what a quota limits. Of each zero, or nothing, means that it is not
// limited, and less than zero that none is allowed. Servers refuse Devices, NUMA, SecretsMB
// and NodePools.
type QuotaResources struct {
	CPU         *int
	Cores       *int
	MemoryMB    *int
	MemoryMaxMB *int
	// Allocs is the number of allocations (ours).
	Allocs    *int `json:",omitempty"`
	Devices   []*RequestedDevice
	NUMA      *NUMAResource
	SecretsMB *int
	Storage   *QuotaStorageResources
	NodePools []*NodePoolLimit
}

// QuotaStorageResources limits the variables, in MiB. Servers refuse HostVolumesMB.
type QuotaStorageResources struct {
	VariablesMB   int
	HostVolumesMB int
}

// NodePoolLimit is a limit in one node pool. Servers refuse it.
type NodePoolLimit struct {
	NodePool    string
	CPU         *int
	Cores       *int
	MemoryMB    *int
	MemoryMaxMB *int
	Devices     []*RequestedDevice
	NUMA        *NUMAResource
	SecretsMB   *int
	Storage     *QuotaStorageResources
}

// QuotaUsage is what is used of a quota in the region that answers, by the key of the
// limit.
type QuotaUsage struct {
	Name        string
	Used        map[string]*QuotaLimit
	CreateIndex uint64
	ModifyIndex uint64
}
