package nomad

// QuotaSpec limits the total resources of the allocations and variables in all namespaces that use it.
type QuotaSpec struct {
	Name        string
	Description string
	Limits      []*QuotaLimit
	CreateIndex uint64
	ModifyIndex uint64
}

// QuotaLimit is the limit in one region. In a QuotaUsage it is the usage of that limit. VariablesLimit is the legacy
// form of RegionLimit.Storage.VariablesMB.
type QuotaLimit struct {
	Region         string
	RegionLimit    *QuotaResources
	VariablesLimit *int
	Hash           []byte
}

// QuotaResources are the resources that a quota limits. Zero or nil means no limit, and a negative value means that
// none is allowed. Allocs, the number of allocations, is open-nomad only. Devices, NUMA, SecretsMB and NodePools
// are rejected.
type QuotaResources struct {
	CPU         *int
	Cores       *int
	MemoryMB    *int
	MemoryMaxMB *int
	Allocs      *int `codec:",omitempty"`
	Devices     []*RequestedDevice
	NUMA        *NUMA
	SecretsMB   *int
	Storage     *QuotaStorageResources
	NodePools   []*NodePoolLimit
}

// QuotaStorageResources limits the size of the variables, in MiB. HostVolumesMB is rejected.
type QuotaStorageResources struct {
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
	Devices     []*RequestedDevice
	NUMA        *NUMA
	SecretsMB   *int
	Storage     *QuotaStorageResources
}

// QuotaUsage is the usage of a quota in this region. Used is keyed by the hash of the limit.
type QuotaUsage struct {
	Name        string
	Used        map[string]*QuotaLimit
	CreateIndex uint64
	ModifyIndex uint64
}

// NamespaceUsage is the usage of the nonterminal allocations of a namespace.
type NamespaceUsage struct {
	Namespace string
	Held      QuotaAmount
}

// VariablesAllowance is the maximum total size, in bytes, of the variables in all namespaces of a quota (open-nomad only).
type VariablesAllowance struct {
	Quota string
	Bytes int64
}
