package nomad

// ACLRules are the parsed rules of a policy, for replies. The field names are those of Nomad 2.0.
type ACLRules struct {
	Namespaces   []*ACLNamespaceRules
	NodePools    []*ACLNamedRules
	HostVolumes  []*ACLNamedRules
	Agent        *ACLPlainRules
	Node         *ACLPlainRules
	Operator     *ACLPlainRules
	Sentinel     *ACLPlainRules
	Quota        *ACLPlainRules
	Plugin       *ACLPlainRules
	Raw          string
	ExtraKeysHCL []string
}

// ACLNamespaceRules are the rules of a namespace.
type ACLNamespaceRules struct {
	Name         string
	Policy       string
	Capabilities []string
	Variables    *ACLVariablesRules
}

// ACLVariablesRules are the rules for the variables of a namespace.
type ACLVariablesRules struct {
	Paths []*ACLVariablePathRules
}

// ACLVariablePathRules are the rules for a variable path.
type ACLVariablePathRules struct {
	PathSpec     string
	Capabilities []string
}

// ACLNamedRules are the rules for a node pool or host volume.
type ACLNamedRules struct {
	Name         string
	Policy       string
	Capabilities []string
}

// ACLPlainRules are the rules of a block without a name. Only operator and sentinel have Capabilities.
type ACLPlainRules struct {
	Policy       string
	Capabilities []string `json:",omitempty" codec:",omitempty"`
}
