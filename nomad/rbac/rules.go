package rbac

// Rules are the parsed rules of a policy, for replies. The field names are those of Nomad 2.0.
type Rules struct {
	Namespaces   []*NamespaceRules
	NodePools    []*NamedRules
	HostVolumes  []*NamedRules
	Agent        *PlainRules
	Node         *PlainRules
	Operator     *PlainRules
	Sentinel     *PlainRules
	Quota        *PlainRules
	Plugin       *PlainRules
	Raw          string
	ExtraKeysHCL []string
}

// NamespaceRules are the rules of a namespace.
type NamespaceRules struct {
	Name         string
	Policy       string
	Capabilities []string
	Variables    *VariablesRules
}

// VariablesRules are the rules for the variables of a namespace.
type VariablesRules struct {
	Paths []*VariablePathRules
}

// VariablePathRules are the rules for a variable path.
type VariablePathRules struct {
	PathSpec     string
	Capabilities []string
}

// NamedRules are the rules for a node pool or host volume.
type NamedRules struct {
	Name         string
	Policy       string
	Capabilities []string
}

// PlainRules are the rules of a block without a name. Only operator and sentinel have Capabilities.
type PlainRules struct {
	Policy       string
	Capabilities []string `json:",omitempty" codec:",omitempty"`
}
