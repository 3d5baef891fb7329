package api

import (
	"net/http"
	"net/url"
)

// AllNamespacesNamespace is the wildcard for all namespaces.
const AllNamespacesNamespace = "*"

// Namespace groups jobs and their objects, for access control and quotas.
type Namespace struct {
	Name                  string
	Description           string
	Quota                 string
	Capabilities          *NamespaceCapabilities
	NodePoolConfiguration *NamespaceNodePoolConfiguration
	VaultConfiguration    *NamespaceVaultConfiguration
	ConsulConfiguration   *NamespaceConsulConfiguration
	Meta                  map[string]string
	CreateIndex           uint64
	ModifyIndex           uint64
	RequiredExtraClaims   map[string]string
	OptionalExtraClaims   map[string]string
	Isolation             *NamespaceIsolation `json:",omitempty"` // only in open-nomad
	// Privileged is "explicit" if the servers do not add privileged = true to tasks that need it. Only in open-nomad.
	Privileged string `json:",omitempty"`
}

// NamespaceCapabilities lists the drivers and network modes allowed in a namespace.
type NamespaceCapabilities struct {
	EnabledTaskDrivers   []string
	DisabledTaskDrivers  []string
	EnabledNetworkModes  []string
	DisabledNetworkModes []string
}

// NamespaceNodePoolConfiguration lists the node pools allowed in a namespace.
type NamespaceNodePoolConfiguration struct {
	Default string
	Allowed []string
	Denied  []string
}

// NamespaceVaultConfiguration lists the Vault clusters allowed in a namespace.
type NamespaceVaultConfiguration struct {
	Default string
	Allowed []string
	Denied  []string
}

// NamespaceIsolation specifies the isolation levels of the jobs of a namespace. Only open-nomad has it.
type NamespaceIsolation struct {
	Minimum string // the lowest level of its tasks; empty for none
	Enforce bool   // jobs below Minimum are refused; otherwise the caller is warned
	Warn    string // the level below which the caller is warned; empty for none
	Claim   bool   // all identities have the claim nomad_isolation
}

// NamespaceConsulConfiguration lists the Consul clusters allowed in a namespace.
type NamespaceConsulConfiguration struct {
	Default string
	Allowed []string
	Denied  []string
}

// Namespaces is the handle for namespaces.
type Namespaces struct{ client *Client }

// Namespaces returns the handle for namespaces.
func (c *Client) Namespaces() *Namespaces { return &Namespaces{c} }

// List lists namespaces, sorted by name.
func (n *Namespaces) List(q *QueryOptions) ([]*Namespace, *QueryMeta, error) {
	return get[[]*Namespace](n.client, "/v1/namespaces", q)
}

// PrefixList lists the namespaces whose name begins with prefix.
func (n *Namespaces) PrefixList(prefix string, q *QueryOptions) ([]*Namespace, *QueryMeta, error) {
	opts := QueryOptions{}
	if q != nil {
		opts = *q
	}
	opts.Prefix = prefix
	return n.List(&opts)
}

// Info returns a namespace.
func (n *Namespaces) Info(name string, q *QueryOptions) (*Namespace, *QueryMeta, error) {
	return get[*Namespace](n.client, "/v1/namespace/"+url.PathEscape(name), q)
}

// Register creates or replaces a namespace.
func (n *Namespaces) Register(namespace *Namespace, q *WriteOptions) (*WriteMeta, error) {
	return n.client.put("/v1/namespace", namespace, nil, q)
}

// Delete deletes a namespace, which must have no jobs.
func (n *Namespaces) Delete(namespace string, q *WriteOptions) (*WriteMeta, error) {
	return n.client.write(call{http.MethodDelete, "/v1/namespace/" + url.PathEscape(namespace), nil, nil}, q)
}
