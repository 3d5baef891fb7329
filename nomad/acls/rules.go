package acls

// Rules are the rules of a policy as they were read, for answers. The names are those
// of compat/structs.txt, package acl.
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

// VariablesRules are the rules of the variables of a namespace.
type VariablesRules struct {
	Paths []*VariablePathRules
}

// VariablePathRules are the rules of a path of variables.
type VariablePathRules struct {
	PathSpec     string
	Capabilities []string
}

// NamedRules are the rules of a node pool or host volume.
type NamedRules struct {
	Name         string
	Policy       string
	Capabilities []string
}

// PlainRules are the rules of what has no name. Capabilities are those of operator
// and sentinel only.
type PlainRules struct {
	Policy       string
	Capabilities []string `json:",omitempty" codec:",omitempty"`
}
