package api

import "time"

// Consul chooses the Consul cluster, namespace and partition of a group or task.
type Consul struct {
	Namespace string `hcl:"namespace"`
	Cluster   string `hcl:"cluster"`
	Partition string `hcl:"partition"`
}

// ConsulConnect makes a service part of a Consul service mesh.
type ConsulConnect struct {
	Native         bool                  `hcl:"native"`
	Gateway        *ConsulGateway        `hcl:"gateway,block"`
	SidecarService *ConsulSidecarService `hcl:"sidecar_service,block"`
	SidecarTask    *SidecarTask          `hcl:"sidecar_task,block"`
}

// ConsulExposeConfig lists paths that a sidecar proxy exposes without mutual TLS.
type ConsulExposeConfig struct {
	Paths []*ConsulExposePath `hcl:"path,block"`
	Path  []*ConsulExposePath
}

// ConsulExposePath is one HTTP path that a sidecar proxy exposes.
type ConsulExposePath struct {
	Path          string `hcl:"path"`
	Protocol      string `hcl:"protocol"`
	LocalPathPort int    `hcl:"local_path_port"`
	ListenerPort  string `hcl:"listener_port"`
}

// ConsulGateway makes a group a gateway of a Consul service mesh.
type ConsulGateway struct {
	Proxy       *ConsulGatewayProxy           `hcl:"proxy,block"`
	Ingress     *ConsulIngressConfigEntry     `hcl:"ingress,block"`
	Terminating *ConsulTerminatingConfigEntry `hcl:"terminating,block"`
	Mesh        *ConsulMeshConfigEntry        `hcl:"mesh,block"`
}

// ConsulGatewayBindAddress is an address that a gateway proxy listens on.
type ConsulGatewayBindAddress struct {
	Name    string
	Address string `hcl:"address"`
	Port    int    `hcl:"port"`
}

// ConsulGatewayProxy configures the proxy of a gateway.
type ConsulGatewayProxy struct {
	ConnectTimeout                  *time.Duration                       `hcl:"connect_timeout"`
	EnvoyGatewayBindTaggedAddresses bool                                 `hcl:"envoy_gateway_bind_tagged_addresses"`
	EnvoyGatewayBindAddresses       map[string]*ConsulGatewayBindAddress `hcl:"envoy_gateway_bind_addresses,block"`
	EnvoyGatewayNoDefaultBind       bool                                 `hcl:"envoy_gateway_no_default_bind"`
	EnvoyDNSDiscoveryType           string                               `hcl:"envoy_dns_discovery_type"`
	Config                          map[string]any                       `hcl:"config,block"`
}

// ConsulGatewayTLSConfig configures TLS of an ingress gateway.
type ConsulGatewayTLSConfig struct {
	Enabled       bool                       `hcl:"enabled"`
	TLSMinVersion string                     `hcl:"tls_min_version"`
	TLSMaxVersion string                     `hcl:"tls_max_version"`
	CipherSuites  []string                   `hcl:"cipher_suites"`
	SDS           *ConsulGatewayTLSSDSConfig `hcl:"sds,block"`
}

// ConsulGatewayTLSSDSConfig is the SDS source of a gateway's certificate.
type ConsulGatewayTLSSDSConfig struct {
	ClusterName  string `hcl:"cluster_name"`
	CertResource string `hcl:"cert_resource"`
}

// ConsulHTTPHeaderModifiers adds, sets and removes HTTP headers.
type ConsulHTTPHeaderModifiers struct {
	Add    map[string]string `hcl:"add,block"`
	Set    map[string]string `hcl:"set,block"`
	Remove []string          `hcl:"remove"`
}

// ConsulIngressConfigEntry configures an ingress gateway.
type ConsulIngressConfigEntry struct {
	TLS       *ConsulGatewayTLSConfig  `hcl:"tls,block"`
	Listeners []*ConsulIngressListener `hcl:"listener,block"`
}

// ConsulIngressListener is a listener of an ingress gateway.
type ConsulIngressListener struct {
	Port     int                     `hcl:"port"`
	Protocol string                  `hcl:"protocol"`
	Services []*ConsulIngressService `hcl:"service,block"`
}

// ConsulIngressService is a service behind a listener of an ingress gateway.
type ConsulIngressService struct {
	Name                  string                     `hcl:"name"`
	Hosts                 []string                   `hcl:"hosts"`
	TLS                   *ConsulGatewayTLSConfig    `hcl:"tls,block"`
	RequestHeaders        *ConsulHTTPHeaderModifiers `hcl:"request_headers,block"`
	ResponseHeaders       *ConsulHTTPHeaderModifiers `hcl:"response_headers,block"`
	MaxConnections        *uint32                    `hcl:"max_connections"`
	MaxPendingRequests    *uint32                    `hcl:"max_pending_requests"`
	MaxConcurrentRequests *uint32                    `hcl:"max_concurrent_requests"`
}

// ConsulLinkedService is a service outside the mesh behind a terminating gateway.
type ConsulLinkedService struct {
	Name     string `hcl:"name"`
	CAFile   string `hcl:"ca_file"`
	CertFile string `hcl:"cert_file"`
	KeyFile  string `hcl:"key_file"`
	SNI      string `hcl:"sni"`
}

// ConsulMeshGateway is the mesh gateway mode for traffic to an upstream.
type ConsulMeshGateway struct {
	Mode string `hcl:"mode"`
}

// ConsulProxy configures a sidecar proxy.
type ConsulProxy struct {
	LocalServiceAddress string              `hcl:"local_service_address"`
	LocalServicePort    int                 `hcl:"local_service_port"`
	Expose              *ConsulExposeConfig `hcl:"expose,block"`
	ExposeConfig        *ConsulExposeConfig
	Upstreams           []*ConsulUpstream       `hcl:"upstreams,block"`
	TransparentProxy    *ConsulTransparentProxy `hcl:"transparent_proxy,block"`
	Config              map[string]any          `hcl:"config,block"`
}

// ConsulSidecarService requests a sidecar proxy for a service.
type ConsulSidecarService struct {
	Tags                   []string          `hcl:"tags"`
	Port                   string            `hcl:"port"`
	Proxy                  *ConsulProxy      `hcl:"proxy,block"`
	DisableDefaultTCPCheck bool              `hcl:"disable_default_tcp_check"`
	Meta                   map[string]string `hcl:"meta,block"`
}

// ConsulTerminatingConfigEntry configures a terminating gateway.
type ConsulTerminatingConfigEntry struct {
	Services []*ConsulLinkedService `hcl:"service,block"`
}

// ConsulTransparentProxy redirects the traffic of a network namespace through the
// sidecar proxy.
type ConsulTransparentProxy struct {
	UID                  string   `hcl:"uid"`
	OutboundPort         uint16   `hcl:"outbound_port"`
	ExcludeInboundPorts  []string `hcl:"exclude_inbound_ports"`
	ExcludeOutboundPorts []uint16 `hcl:"exclude_outbound_ports"`
	ExcludeOutboundCIDRs []string `hcl:"exclude_outbound_cidrs"`
	ExcludeUIDs          []string `hcl:"exclude_uids"`
	NoDNS                bool     `hcl:"no_dns"`
}

// ConsulUpstream is a mesh service that a sidecar proxy makes reachable on a local port.
type ConsulUpstream struct {
	DestinationName      string             `hcl:"destination_name"`
	DestinationNamespace string             `hcl:"destination_namespace"`
	DestinationPeer      string             `hcl:"destination_peer"`
	DestinationPartition string             `hcl:"destination_partition"`
	DestinationType      string             `hcl:"destination_type"`
	LocalBindPort        int                `hcl:"local_bind_port"`
	Datacenter           string             `hcl:"datacenter"`
	LocalBindAddress     string             `hcl:"local_bind_address"`
	LocalBindSocketPath  string             `hcl:"local_bind_socket_path"`
	LocalBindSocketMode  string             `hcl:"local_bind_socket_mode"`
	MeshGateway          *ConsulMeshGateway `hcl:"mesh_gateway,block"`
	Config               map[string]any     `hcl:"config,block"`
}

// SidecarTask overrides parts of the task that runs a sidecar proxy.
type SidecarTask struct {
	Name          string              `hcl:"name"`
	Driver        string              `hcl:"driver"`
	User          string              `hcl:"user"`
	Config        map[string]any      `hcl:"config,block"`
	Env           map[string]string   `hcl:"env,block"`
	Resources     *Resources          `hcl:"resources,block"`
	Meta          map[string]string   `hcl:"meta,block"`
	KillTimeout   *time.Duration      `hcl:"kill_timeout"`
	LogConfig     *LogConfig          `hcl:"logs,block"`
	ShutdownDelay *time.Duration      `hcl:"shutdown_delay"`
	KillSignal    string              `hcl:"kill_signal"`
	VolumeMounts  []*VolumeMount      `hcl:"volume_mount,block"`
	Identities    []*WorkloadIdentity `hcl:"identity,block"`
}

// ConsulMeshConfigEntry makes a gateway a mesh gateway. It has no options.
type ConsulMeshConfigEntry struct{}
