package api

// Resources are the resources of a task: CPU in MHz or cores; memory, disk and secrets in
// MiB.
type Resources struct {
	CPU         *int               `hcl:"cpu"`
	Cores       *int               `hcl:"cores"`
	MemoryMB    *int               `hcl:"memory"`
	MemoryMaxMB *int               `hcl:"memory_max"`
	DiskMB      *int               `hcl:"disk"`
	Networks    []*NetworkResource `hcl:"network,block"`
	Devices     []*RequestedDevice `hcl:"device,block"`
	NUMA        *NUMAResource      `hcl:"numa,block"`
	SecretsMB   *int               `hcl:"secrets"`
	IOPS        *int               `hcl:"iops"`
}

// NUMAResource configures whether the cores of a task must be in one NUMA node. Devices are the names of device blocks
// of the task whose instances must be in it too.
type NUMAResource struct {
	Affinity string   `hcl:"affinity"`
	Devices  []string `hcl:"devices"`
}

// RequestedDevice requests instances of a device such as a GPU.
type RequestedDevice struct {
	Name        string        `hcl:",label"`
	Count       *uint64       `hcl:"count"`
	Constraints []*Constraint `hcl:"constraint,block"`
	Affinities  []*Affinity   `hcl:"affinity,block"`
}

// NetworkResource is the network that a group requests, or the network of an allocation.
type NetworkResource struct {
	Mode          string     `hcl:"mode"`
	Device        string     `hcl:"device"`
	CIDR          string     `hcl:"cidr"`
	IP            string     `hcl:"ip"`
	DNS           *DNSConfig `hcl:"dns,block"`
	ReservedPorts []Port     `hcl:"reserved_ports,block"`
	DynamicPorts  []Port
	Hostname      string     `hcl:"hostname"`
	MBits         *int       `hcl:"mbits"`
	CNI           *CNIConfig `hcl:"cni,block"`
	// Isolate keeps the group apart from the other groups on the bridge. Egress limits its
	// destinations. Only servers of this project know them.
	Isolate bool           `json:",omitempty" hcl:"isolate"`
	Egress  *NetworkEgress `json:",omitempty" hcl:"egress,block"`
}

// NetworkEgress lists the destinations that a group on the bridge can reach: prefixes, addresses,
// proto:port, or prefix:proto:port.
type NetworkEgress struct {
	Allow []string `hcl:"allow"`
}

// Port is a port of a network. Value is the port on the host. To is the port inside the
// task's network namespace.
type Port struct {
	Label           string `hcl:",label"`
	Value           int    `hcl:"static"`
	To              int    `hcl:"to"`
	HostNetwork     string `hcl:"host_network"`
	IgnoreCollision bool   `hcl:"ignore_collision"`
}

// DNSConfig replaces the resolver configuration of a group.
type DNSConfig struct {
	Servers  []string `hcl:"servers"`
	Searches []string `hcl:"searches"`
	Options  []string `hcl:"options"`
}

// CNIConfig passes arguments to the CNI plugins of a network.
type CNIConfig struct {
	Args map[string]string `hcl:"args"`
}
