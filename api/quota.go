package api

import (
	"encoding/base64"
	"net/http"
	"net/url"
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
	Devices   []*RequestedDevice
	NUMA      *NUMAResource
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
	Devices     []*RequestedDevice
	NUMA        *NUMAResource
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

// Quotas is the handle for quotas.
type Quotas struct{ client *Client }

// Quotas returns the handle for quotas.
func (c *Client) Quotas() *Quotas { return &Quotas{c} }

// List lists quotas, sorted by name.
func (q *Quotas) List(o *QueryOptions) ([]*QuotaSpec, *QueryMeta, error) {
	return get[[]*QuotaSpec](q.client, "/v1/quotas", o)
}

// PrefixList lists the quotas whose name begins with prefix.
func (q *Quotas) PrefixList(prefix string, o *QueryOptions) ([]*QuotaSpec, *QueryMeta, error) {
	opts := QueryOptions{}
	if o != nil {
		opts = *o
	}
	opts.Prefix = prefix
	return q.List(&opts)
}

// ListUsage lists the usage of all quotas.
func (q *Quotas) ListUsage(o *QueryOptions) ([]*QuotaUsage, *QueryMeta, error) {
	return get[[]*QuotaUsage](q.client, "/v1/quota-usages", o)
}

// PrefixListUsage lists the usage of the quotas whose name begins with prefix.
func (q *Quotas) PrefixListUsage(prefix string, o *QueryOptions) ([]*QuotaUsage, *QueryMeta, error) {
	opts := QueryOptions{}
	if o != nil {
		opts = *o
	}
	opts.Prefix = prefix
	return q.ListUsage(&opts)
}

// Info returns a quota.
func (q *Quotas) Info(quota string, o *QueryOptions) (*QuotaSpec, *QueryMeta, error) {
	return get[*QuotaSpec](q.client, "/v1/quota/"+url.PathEscape(quota), o)
}

// Usage returns the usage of a quota.
func (q *Quotas) Usage(quota string, o *QueryOptions) (*QuotaUsage, *QueryMeta, error) {
	return get[*QuotaUsage](q.client, "/v1/quota/usage/"+url.PathEscape(quota), o)
}

// Register creates or replaces a quota.
func (q *Quotas) Register(spec *QuotaSpec, o *WriteOptions) (*WriteMeta, error) {
	return q.client.put("/v1/quota", spec, nil, o)
}

// Delete deletes a quota that no namespace uses.
func (q *Quotas) Delete(quota string, o *WriteOptions) (*WriteMeta, error) {
	return q.client.write(call{http.MethodDelete, "/v1/quota/" + url.PathEscape(quota), nil, nil}, o)
}
