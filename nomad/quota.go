package nomad

// QuotaSpec limits what the allocations and variables of all namespaces that name it
// hold together.
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

// QuotaResources are what a quota limits. Of each zero, or nothing, means that it is not
// limited, and less than zero that none is allowed. Allocs is ours: the number of
// allocations. Devices, NUMA, SecretsMB and NodePools are refused.
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

// QuotaStorageResources limits the variables, in MiB. HostVolumesMB is refused.
type QuotaStorageResources struct {
	VariablesMB   int
	HostVolumesMB int
}

// NodePoolLimit is a limit in one node pool. It is refused.
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

// QuotaUsage is what is used of a quota in this region, by the hash of the limit.
type QuotaUsage struct {
	Name        string
	Used        map[string]*QuotaLimit
	CreateIndex uint64
	ModifyIndex uint64
}

// NamespaceUsage is what the allocations of a namespace hold that have not ended.
type NamespaceUsage struct {
	Namespace string
	Held      QuotaAmount
}

// VariablesAllowance is how many bytes the variables of all namespaces of a quota may
// take (open-nomad only).
type VariablesAllowance struct {
	Quota string
	Bytes int64
}

// QuotaListRequest is the request of Quota.List and Quota.Usages.
type QuotaListRequest struct {
	QueryOptions
}

// QuotaListResponse is the reply of Quota.List.
type QuotaListResponse struct {
	Quotas []*QuotaSpec
	QueryMeta
}

// QuotaUsageListResponse is the reply of Quota.Usages.
type QuotaUsageListResponse struct {
	Usages []*QuotaUsage
	QueryMeta
}

// QuotaSpecificRequest is the request of Quota.Get and Quota.Usage.
type QuotaSpecificRequest struct {
	Name string
	QueryOptions
}

// SingleQuotaResponse is the reply of Quota.Get.
type SingleQuotaResponse struct {
	Quota *QuotaSpec
	QueryMeta
}

// SingleQuotaUsageResponse is the reply of Quota.Usage.
type SingleQuotaUsageResponse struct {
	Usage *QuotaUsage
	QueryMeta
}

// QuotaUpsertRequest is the request of Quota.Upsert, and the log entry of it.
type QuotaUpsertRequest struct {
	Quotas []*QuotaSpec
	WriteRequest
}

// QuotaDeleteRequest is the request of Quota.Delete, and the log entry of it.
type QuotaDeleteRequest struct {
	Names []string
	WriteRequest
}
