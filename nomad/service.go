package nomad

import "time"

// Values of service blocks.
const (
	ServiceCheckHTTP       = "http"
	ServiceCheckTCP        = "tcp"
	ServiceCheckScript     = "script"
	ServiceCheckGRPC       = "grpc"
	OnUpdateRequireHealthy = "require_healthy"
	OnUpdateIgnoreWarn     = "ignore_warnings"
	OnUpdateIgnore         = "ignore"
	AddressModeAuto        = "auto"
	AddressModeHost        = "host"
	AddressModeDriver      = "driver"
	AddressModeAlloc       = "alloc"
	AddressModeAllocIPv6   = "alloc_ipv6"
	ServiceProviderConsul  = "consul"
	ServiceProviderNomad   = "nomad"
)

// AllocChecksRequest is the request of ClientAllocations.Checks and Allocations.Checks.
type AllocChecksRequest struct {
	QueryOptions
	AllocID string
}

// AllocChecksResponse is the reply of ClientAllocations.Checks and Allocations.Checks.
type AllocChecksResponse struct {
	QueryMeta
	Results map[CheckID]*CheckQueryResult
}

// ChangeScript holds the fields of a change script.
type ChangeScript struct {
	Command          string
	Args             []string
	Timeout          time.Duration
	FailOnError      bool
	RunOnFirstRender bool
}

// CheckID holds the fields of a check id.
type CheckID string

// CheckMode holds the fields of a check mode.
type CheckMode string

// CheckQueryResult holds the fields of a check query result.
type CheckQueryResult struct {
	ID         CheckID
	Mode       CheckMode
	Status     CheckStatus
	StatusCode int
	Output     string
	Timestamp  int64
	Group      string
	Task       string
	Service    string
	Check      string
}

// CheckRestart holds the fields of a check restart.
type CheckRestart struct {
	Limit          int
	Grace          time.Duration
	IgnoreWarnings bool
}

// CheckStatus holds the fields of a check status.
type CheckStatus string

// Consul holds the fields of a consul.
type Consul struct {
	Namespace string
	Cluster   string
	Partition string
}

// ConsulConnect holds the fields of a consul connect.
type ConsulConnect struct {
	Native         bool
	SidecarService *ConsulSidecarService
	SidecarTask    *SidecarTask
	Gateway        *ConsulGateway
}

// ConsulExposeConfig holds the fields of a consul expose config.
type ConsulExposeConfig struct {
	Paths []ConsulExposePath
}

// ConsulExposePath holds the fields of a consul expose path.
type ConsulExposePath struct {
	Path          string
	Protocol      string
	LocalPathPort int
	ListenerPort  string
}

// ConsulGateway holds the fields of a consul gateway.
type ConsulGateway struct {
	Proxy       *ConsulGatewayProxy
	Ingress     *ConsulIngressConfigEntry
	Terminating *ConsulTerminatingConfigEntry
	Mesh        *ConsulMeshConfigEntry
}

// ConsulGatewayBindAddress holds the fields of a consul gateway bind address.
type ConsulGatewayBindAddress struct {
	Address string
	Port    int
}

// ConsulGatewayProxy holds the fields of a consul gateway proxy.
type ConsulGatewayProxy struct {
	ConnectTimeout                  *time.Duration
	EnvoyGatewayBindTaggedAddresses bool
	EnvoyGatewayBindAddresses       map[string]*ConsulGatewayBindAddress
	EnvoyGatewayNoDefaultBind       bool
	EnvoyDNSDiscoveryType           string
	Config                          map[string]any
}

// ConsulGatewayTLSConfig holds the fields of a consul gateway tls config.
type ConsulGatewayTLSConfig struct {
	Enabled       bool
	TLSMinVersion string
	TLSMaxVersion string
	CipherSuites  []string
	SDS           *ConsulGatewayTLSSDSConfig
}

// ConsulGatewayTLSSDSConfig holds the fields of a consul gateway tlssds config.
type ConsulGatewayTLSSDSConfig struct {
	ClusterName  string
	CertResource string
}

// ConsulHTTPHeaderModifiers holds the fields of a consul http header modifiers.
type ConsulHTTPHeaderModifiers struct {
	Add    map[string]string
	Set    map[string]string
	Remove []string
}

// ConsulIngressConfigEntry holds the fields of a consul ingress config entry.
type ConsulIngressConfigEntry struct {
	TLS       *ConsulGatewayTLSConfig
	Listeners []*ConsulIngressListener
}

// ConsulIngressListener holds the fields of a consul ingress listener.
type ConsulIngressListener struct {
	Port     int
	Protocol string
	Services []*ConsulIngressService
}

// ConsulIngressService holds the fields of a consul ingress service.
type ConsulIngressService struct {
	Name                  string
	Hosts                 []string
	TLS                   *ConsulGatewayTLSConfig
	RequestHeaders        *ConsulHTTPHeaderModifiers
	ResponseHeaders       *ConsulHTTPHeaderModifiers
	MaxConnections        *uint32
	MaxPendingRequests    *uint32
	MaxConcurrentRequests *uint32
}

// ConsulLinkedService holds the fields of a consul linked service.
type ConsulLinkedService struct {
	Name     string
	CAFile   string
	CertFile string
	KeyFile  string
	SNI      string
}

// ConsulMeshConfigEntry holds the fields of a consul mesh config entry.
type ConsulMeshConfigEntry struct {
}

// ConsulMeshGateway holds the fields of a consul mesh gateway.
type ConsulMeshGateway struct {
	Mode string
}

// ConsulProxy holds the fields of a consul proxy.
type ConsulProxy struct {
	LocalServiceAddress string
	LocalServicePort    int
	Upstreams           []ConsulUpstream
	Expose              *ConsulExposeConfig
	TransparentProxy    *ConsulTransparentProxy
	Config              map[string]any
}

// ConsulSidecarService holds the fields of a consul sidecar service.
type ConsulSidecarService struct {
	Tags                   []string
	Port                   string
	Proxy                  *ConsulProxy
	DisableDefaultTCPCheck bool
	Meta                   map[string]string
}

// ConsulTerminatingConfigEntry holds the fields of a consul terminating config entry.
type ConsulTerminatingConfigEntry struct {
	Services []*ConsulLinkedService
}

// ConsulTransparentProxy holds the fields of a consul transparent proxy.
type ConsulTransparentProxy struct {
	UID                  string
	OutboundPort         uint16
	ExcludeInboundPorts  []string
	ExcludeOutboundPorts []uint16
	ExcludeOutboundCIDRs []string
	ExcludeUIDs          []string
	NoDNS                bool
}

// ConsulUpstream holds the fields of a consul upstream.
type ConsulUpstream struct {
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
	MeshGateway          ConsulMeshGateway
	Config               map[string]any
}

// Secret holds the fields of a secret.
type Secret struct {
	Name     string
	Provider string
	Path     string
	Config   map[string]any
	Env      map[string]string
}

// Service holds the fields of a service.
type Service struct {
	Name              string
	TaskName          string
	PortLabel         string
	AddressMode       string
	Address           string
	EnableTagOverride bool
	Tags              []string
	CanaryTags        []string
	Checks            []*ServiceCheck
	Connect           *ConsulConnect
	Meta              map[string]string
	CanaryMeta        map[string]string
	Weights           *ServiceWeights
	TaggedAddresses   map[string]string
	Namespace         string
	OnUpdate          string
	Provider          string
	Cluster           string
	Identity          *WorkloadIdentity
	Kind              string
}

// ServiceCheck holds the fields of a service check.
type ServiceCheck struct {
	Name                   string
	Type                   string
	Command                string
	Args                   []string
	Path                   string
	Protocol               string
	PortLabel              string
	Expose                 bool
	AddressMode            string
	Interval               time.Duration
	Timeout                time.Duration
	InitialStatus          string
	Notes                  string
	TLSServerName          string
	TLSSkipVerify          bool
	Method                 string
	Header                 map[string][]string
	CheckRestart           *CheckRestart
	GRPCService            string
	GRPCUseTLS             bool
	TaskName               string
	SuccessBeforePassing   int
	FailuresBeforeCritical int
	FailuresBeforeWarning  int
	Body                   string
	OnUpdate               string
}

// ServiceWeights holds the fields of a service weights.
type ServiceWeights struct {
	Passing int
	Warning int
}

// SidecarTask holds the fields of a sidecar task.
type SidecarTask struct {
	Name          string
	Driver        string
	User          string
	Config        map[string]any
	Env           map[string]string
	Resources     *Resources
	Meta          map[string]string
	KillTimeout   *time.Duration
	LogConfig     *LogConfig
	ShutdownDelay *time.Duration
	KillSignal    string
	VolumeMounts  []*VolumeMount
	Identities    []*WorkloadIdentity
}

// Template holds the fields of a template.
type Template struct {
	SourcePath    string
	DestPath      string
	EmbeddedTmpl  string
	ChangeMode    string
	ChangeSignal  string
	ChangeScript  *ChangeScript
	Once          bool
	Splay         time.Duration
	Perms         string
	Uid           *int
	Gid           *int
	LeftDelim     string
	RightDelim    string
	Envvars       bool
	VaultGrace    time.Duration
	Wait          *WaitConfig
	ErrMissingKey bool
}

// Vault holds the fields of a vault.
type Vault struct {
	Role                 string
	Namespace            string
	Cluster              string
	Env                  bool
	DisableFile          bool
	ChangeMode           string
	ChangeSignal         string
	AllowTokenExpiration bool
}

// WaitConfig holds the fields of a wait config.
type WaitConfig struct {
	Min *time.Duration
	Max *time.Duration
}
