package nomad

// Port ranges and address families.
const (
	DefaultMinDynamicPort               = 20000
	DefaultMaxDynamicPort               = 32000
	MaxValidPort                        = 65536
	NodeNetworkAF_IPv4    NodeNetworkAF = "ipv4"
	NodeNetworkAF_IPv6    NodeNetworkAF = "ipv6"
)

// The modes of a group's network: that of the node, a private network without connections, the bridge of the node,
// and the networks of CNI plugins.
const (
	NetworkModeHost   = "host"
	NetworkModeNone   = "none"
	NetworkModeBridge = "bridge"
	NetworkModeCNI    = "cni/" // followed by the name of a CNI configuration
)

// AttrNetworkNone is a node attribute. Its value is "false" if the node does not support network mode none. Nodes
// without the attribute support it.
const AttrNetworkNone = "network.none"

// AttrBridgeIsolation is a node attribute. Its value is "true" if the node can isolate allocations on its bridge,
// and "false" if its kernel has no nftables.
const AttrBridgeIsolation = "nomad.bridge.isolation"

// Attributes of nodes that resolve services by DNS: the address and port for the host, the address for groups on the
// bridge, and the domains, separated by commas. The first two are missing while the node does not listen there.
const (
	AttrDNSAddress       = "nomad.dns.address"
	AttrDNSBridgeAddress = "nomad.dns.bridge_address"
	AttrDNSDomains       = "nomad.dns.domains"
)

// AllocNetworkStatus is the network of an allocation on its node. The client writes it.
type AllocNetworkStatus struct {
	InterfaceName string
	Address       string
	AddressIPv6   string
	DNS           *DNSConfig
}

// CNIConfig passes arguments to the CNI plugins of a network.
type CNIConfig struct {
	Args map[string]string
}

// CNIAddressArgs are the arguments with which the plugins of the bridge take addresses. A job cannot set them with mode
// bridge: it would take those of another allocation.
var CNIAddressArgs = []string{"GATEWAY", "IP", "MAC"}

// DNSConfig replaces the resolver configuration of a group.
type DNSConfig struct {
	Servers  []string
	Searches []string
	Options  []string
}

// NetworkEgress limits the destinations that a group on the bridge can reach. It is an extension of this project.
type NetworkEgress struct {
	// Allow lists the destinations. Each is a prefix, an address, proto:port, or prefix:proto:port.
	Allow []string
}

// NetworkResource is a network that a group requests. In an allocation it is the assigned network, with the ports
// filled in by the scheduler. MBits is in Mbit/s and has no effect.
type NetworkResource struct {
	//lint:ignore U1000 read by the codec: zero fields stay off the wire
	_struct       bool `codec:",omitempty"`
	Mode          string
	Device        string
	CIDR          string
	IP            string
	Hostname      string
	MBits         int
	DNS           *DNSConfig
	ReservedPorts []Port
	DynamicPorts  []Port
	CNI           *CNIConfig
	// Isolate keeps the group apart from the other groups on the bridge. Egress limits its destinations, and
	// implies Isolate. They are extensions of this project.
	Isolate bool           `codec:",omitempty" json:",omitempty"`
	Egress  *NetworkEgress `codec:",omitempty" json:",omitempty"`
}

// Networks is the list of networks of a group, an allocation or a node.
type Networks []*NetworkResource

// NodeNetworkAF is the address family of a node's address.
type NodeNetworkAF string

// NodeNetworkAddress is one address of a node. ReservedPorts lists ports and port ranges that are not available
// to jobs.
type NodeNetworkAddress struct {
	Family        NodeNetworkAF
	Alias         string
	Address       string
	ReservedPorts string
	Gateway       string
}

// NodeNetworkResource is a network interface of a node with its addresses. Speed is in Mbit/s. The client's
// fingerprinters write it.
type NodeNetworkResource struct {
	Mode       string
	Device     string
	MacAddress string
	Speed      int
	Addresses  []NodeNetworkAddress
}

// Port is a port that a group requests or that an allocation uses. Value is the port on the host. It is 0 until the
// scheduler selects one. To is the port in the network namespace; -1 means the same as Value.
type Port struct {
	//lint:ignore U1000 read by the codec: zero fields stay off the wire
	_struct         bool `codec:",omitempty"`
	Label           string
	Value           int
	To              int
	HostNetwork     string
	IgnoreCollision bool
}
