package nomad

// Bounds of ports and address families.
const (
	DefaultMinDynamicPort               = 20000
	DefaultMaxDynamicPort               = 32000
	MaxValidPort                        = 65536
	NodeNetworkAF_IPv4    NodeNetworkAF = "ipv4"
	NodeNetworkAF_IPv6    NodeNetworkAF = "ipv6"
)

// AllocNetworkStatus holds the fields of an alloc network status.
type AllocNetworkStatus struct {
	InterfaceName string
	Address       string
	AddressIPv6   string
	DNS           *DNSConfig
}

// CNIConfig holds the fields of a cni config.
type CNIConfig struct {
	Args map[string]string
}

// DNSConfig holds the fields of a dns config.
type DNSConfig struct {
	Servers  []string
	Searches []string
	Options  []string
}

// NetworkResource holds the fields of a network resource.
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
}

// Networks holds the fields of a networks.
type Networks []*NetworkResource

// NodeNetworkAF holds the fields of a node network af.
type NodeNetworkAF string

// NodeNetworkAddress holds the fields of a node network address.
type NodeNetworkAddress struct {
	Family        NodeNetworkAF
	Alias         string
	Address       string
	ReservedPorts string
	Gateway       string
}

// NodeNetworkResource holds the fields of a node network resource.
type NodeNetworkResource struct {
	Mode       string
	Device     string
	MacAddress string
	Speed      int
	Addresses  []NodeNetworkAddress
}

// Port holds the fields of a port.
type Port struct {
	//lint:ignore U1000 read by the codec: zero fields stay off the wire
	_struct         bool `codec:",omitempty"`
	Label           string
	Value           int
	To              int
	HostNetwork     string
	IgnoreCollision bool
}
