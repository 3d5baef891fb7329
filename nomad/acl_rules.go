package nomad

// ACLRules are the rules of a policy as they were read, for answers. The names are those
// of compat/structs.txt, package acl.
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

// ACLVariablesRules are the rules of the variables of a namespace.
type ACLVariablesRules struct {
	Paths []*ACLVariablePathRules
}

// ACLVariablePathRules are the rules of a path of variables.
type ACLVariablePathRules struct {
	PathSpec     string
	Capabilities []string
}

// ACLNamedRules are the rules of a node pool or host volume.
type ACLNamedRules struct {
	Name         string
	Policy       string
	Capabilities []string
}

// ACLPlainRules are the rules of what has no name. Capabilities are those of operator
// and sentinel only.
type ACLPlainRules struct {
	Policy       string
	Capabilities []string `json:",omitempty" codec:",omitempty"`
}
