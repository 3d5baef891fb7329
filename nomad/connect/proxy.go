// Package connect defines the blocks of a job for a Consul service mesh: the proxy of a service, its upstreams, and gateways.
// They are part of ConsulConnect of package nomad. It also has the names of what the servers add for them: see package
// nomad/mesh.
package connect

// ExposeConfig lists paths that a sidecar proxy exposes without mutual TLS.
type ExposeConfig struct {
	Paths []ExposePath
}

// ExposePath is one HTTP path that a sidecar proxy exposes.
type ExposePath struct {
	Path          string
	Protocol      string
	LocalPathPort int
	ListenerPort  string
}

// MeshGateway specifies the mesh gateway for traffic to an upstream.
type MeshGateway struct {
	Mode string
}

// Proxy configures a sidecar proxy.
type Proxy struct {
	LocalServiceAddress string
	LocalServicePort    int
	Upstreams           []Upstream
	Expose              *ExposeConfig
	TransparentProxy    *TransparentProxy
	Config              map[string]any
}

// SidecarService requests a sidecar proxy for a service.
type SidecarService struct {
	Tags                   []string
	Port                   string
	Proxy                  *Proxy
	DisableDefaultTCPCheck bool
	Meta                   map[string]string
}

// TransparentProxy redirects the traffic of a network namespace through the sidecar proxy.
type TransparentProxy struct {
	UID                  string
	OutboundPort         uint16
	ExcludeInboundPorts  []string
	ExcludeOutboundPorts []uint16
	ExcludeOutboundCIDRs []string
	ExcludeUIDs          []string
	NoDNS                bool
}

// Upstream is a mesh service that a sidecar proxy provides on a local port.
type Upstream struct {
	DestinationName      string
	DestinationNamespace string
	DestinationPartition string
	DestinationPeer      string
	DestinationType      string
	LocalBindPort        int
	Datacenter           string
	LocalBindAddress     string
	LocalBindSocketPath  string
	LocalBindSocketMode  string
	MeshGateway          MeshGateway
	Config               map[string]any
}
