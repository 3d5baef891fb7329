package api

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
