package api

// The built-in namespace, and the name that asks for all of them.
const (
	AllNamespacesNamespace = "*"
	DefaultNamespace       = "default"
)

// Namespace separates jobs and who may see them.
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
}

// NamespaceCapabilities says which drivers and network modes jobs of a namespace may use.
type NamespaceCapabilities struct {
	EnabledTaskDrivers   []string
	DisabledTaskDrivers  []string
	EnabledNetworkModes  []string
	DisabledNetworkModes []string
}

// NamespaceNodePoolConfiguration says which node pools jobs of a namespace may use.
type NamespaceNodePoolConfiguration struct {
	Default string
	Allowed []string
	Denied  []string
}

// NamespaceVaultConfiguration says which Vault clusters jobs of a namespace may use.
type NamespaceVaultConfiguration struct {
	Default string
	Allowed []string
	Denied  []string
}

// NamespaceConsulConfiguration says which Consul clusters jobs of a namespace may use.
type NamespaceConsulConfiguration struct {
	Default string
	Allowed []string
	Denied  []string
}
