// Package quota defines quotas: limits on the resources of all allocations and variables in the namespaces that use one.
//
// A Spec has a Limit for each region. An Amount is what allocations use: Of counts one, and Resources.Exceeded compares the
// sum with a limit. Package state keeps the usage of each namespace, the scheduler and package plan compare it before they
// place, and package rules rejects limits that are not supported.
//
// The package keeps no state and starts no goroutine.
package quota

import "github.com/open-nomad/open-nomad/nomad"

// Spec limits the total resources of the allocations and variables in all namespaces that use it.
type Spec struct {
	Name        string
	Description string
	Limits      []*Limit
	CreateIndex uint64
	ModifyIndex uint64
}

// Limit is the limit in one region. In a Usage it is the usage of that limit. VariablesLimit is the legacy
// form of RegionLimit.Storage.VariablesMB.
type Limit struct {
	Region         string
	RegionLimit    *Resources
	VariablesLimit *int
	Hash           []byte
}

// Resources are the resources that a quota limits. Zero or nil means no limit, and a negative value means that
// none is allowed. Allocs, the number of allocations, is open-nomad only. Devices, NUMA, SecretsMB and NodePools
// are rejected.
type Resources struct {
	CPU         *int
	Cores       *int
	MemoryMB    *int
	MemoryMaxMB *int
	Allocs      *int `codec:",omitempty"`
	Devices     []*nomad.RequestedDevice
	NUMA        *nomad.NUMA
	SecretsMB   *int
	Storage     *StorageResources
	NodePools   []*NodePoolLimit
}

// StorageResources limits the size of the variables, in MiB. HostVolumesMB is rejected.
type StorageResources struct {
	VariablesMB   int
	HostVolumesMB int
}

// NodePoolLimit is a limit in one node pool. Validate rejects it.
type NodePoolLimit struct {
	NodePool    string
	CPU         *int
	Cores       *int
	MemoryMB    *int
	MemoryMaxMB *int
	Devices     []*nomad.RequestedDevice
	NUMA        *nomad.NUMA
	SecretsMB   *int
	Storage     *StorageResources
}

// Usage is the usage of a quota in this region. Used is keyed by the hash of the limit.
type Usage struct {
	Name        string
	Used        map[string]*Limit
	CreateIndex uint64
	ModifyIndex uint64
}

// NamespaceUsage is the usage of the nonterminal allocations of a namespace.
type NamespaceUsage struct {
	Namespace string
	Held      Amount
}

// VariablesAllowance is the maximum total size, in bytes, of the variables in all namespaces of a quota (open-nomad only).
type VariablesAllowance struct {
	Quota string
	Bytes int64
}
