package nomad

import "maps"

// The built-in namespace, and the wildcard for all namespaces.
const (
	DefaultNamespace            = "default"
	DefaultNamespaceDescription = "Default shared namespace"
	AllNamespacesSentinel       = "*"
)

// Namespace separates jobs and their access rights.
type Namespace struct {
	Name                  string
	Description           string
	Quota                 string
	Capabilities          *NamespaceCapabilities
	NodePoolConfiguration *NamespaceNodePoolConfiguration
	VaultConfiguration    *NamespaceVaultConfiguration
	ConsulConfiguration   *NamespaceConsulConfiguration
	Meta                  map[string]string
	Hash                  []byte
	CreateIndex           uint64
	ModifyIndex           uint64
	RequiredExtraClaims   map[string]string
	OptionalExtraClaims   map[string]string
	Isolation             *NamespaceIsolation `json:",omitempty" codec:",omitempty"` // open-nomad only
	// Privileged is PrivilegedExplicit, or empty: the servers add privileged = true to tasks that need it (open-nomad
	// only).
	Privileged string `json:",omitempty" codec:",omitempty"`
}

// PrivilegedExplicit demands privileged = true in the tasks that need it.
const PrivilegedExplicit = "explicit"

// DefaultPool returns the node pool of jobs that do not specify one.
func (n *Namespace) DefaultPool() string {
	if c := n.NodePoolConfiguration; c != nil && c.Default != "" {
		return c.Default
	}
	return NodePoolDefault
}

// Claims returns all extra claims, both required and optional.
func (n *Namespace) Claims() map[string]string {
	all := maps.Clone(n.OptionalExtraClaims)
	if all == nil {
		all = map[string]string{}
	}
	maps.Copy(all, n.RequiredExtraClaims)
	return all
}

// ClaimsIsolation reports whether the tokens of an identity have the claim nomad_isolation. Both may be
// nil.
func (n *Namespace) ClaimsIsolation(id *WorkloadIdentity) bool {
	return n != nil && n.Isolation != nil && n.Isolation.Claim || id != nil && id.Isolation
}

// NamespaceCapabilities specifies which drivers and network modes the jobs of a namespace may use.
type NamespaceCapabilities struct {
	EnabledTaskDrivers   []string
	DisabledTaskDrivers  []string
	EnabledNetworkModes  []string
	DisabledNetworkModes []string
}

// NamespaceIsolation specifies the isolation levels of the jobs of a namespace (open-nomad only).
type NamespaceIsolation struct {
	Minimum string // the lowest level of its tasks; empty for none
	Enforce bool   // jobs below Minimum are refused; otherwise the caller is warned
	Warn    string // the level below which the caller is warned; empty for none
	Claim   bool   // all identities have the claim nomad_isolation
}

// NamespaceConsulConfiguration specifies which Consul clusters the jobs of a namespace may use.
type NamespaceConsulConfiguration struct {
	Default string
	Allowed []string
	Denied  []string
}

// NamespaceNodePoolConfiguration specifies which node pools the jobs of a namespace may use.
type NamespaceNodePoolConfiguration struct {
	Default string
	Allowed []string
	Denied  []string
}

// NamespaceVaultConfiguration specifies which Vault clusters the jobs of a namespace may use.
type NamespaceVaultConfiguration struct {
	Default string
	Allowed []string
	Denied  []string
}
