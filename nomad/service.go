package nomad

import (
	"slices"
	"time"
)

// ChangeScript is the program that runs in the task when a rendered template changes.
type ChangeScript struct {
	Command          string
	Args             []string
	Timeout          time.Duration
	FailOnError      bool
	RunOnFirstRender bool
}

// CheckID identifies a check of an allocation by a hash of its definition.
type CheckID string

// CheckMode is healthiness or readiness. Only healthiness checks affect deployments.
type CheckMode string

// CheckQueryResult is the latest result of a check. The client writes it.
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

// CheckRestart restarts a task after Limit consecutive failures of a check. Failures within Grace after the start of
// the task are ignored.
type CheckRestart struct {
	Limit          int
	Grace          time.Duration
	IgnoreWarnings bool
}

// CheckStatus is success, failure or pending.
type CheckStatus string

// Consul selects the Consul cluster, namespace and partition of a group or task.
type Consul struct {
	Namespace string
	Cluster   string
	Partition string
}

// ConsulConnect makes a service part of a Consul service mesh.
type ConsulConnect struct {
	Native         bool
	SidecarService *ConsulSidecarService
	SidecarTask    *SidecarTask
	Gateway        *ConsulGateway
}

// ConsulExposeConfig lists paths that a sidecar proxy exposes without mutual TLS.
type ConsulExposeConfig struct {
	Paths []ConsulExposePath
}

// ConsulExposePath is one HTTP path that a sidecar proxy exposes.
type ConsulExposePath struct {
	Path          string
	Protocol      string
	LocalPathPort int
	ListenerPort  string
}

// ConsulGateway makes a group a gateway of a Consul service mesh.
type ConsulGateway struct {
	Proxy       *ConsulGatewayProxy
	Ingress     *ConsulIngressConfigEntry
	Terminating *ConsulTerminatingConfigEntry
	Mesh        *ConsulMeshConfigEntry
}

// ConsulGatewayBindAddress is an address that a gateway proxy listens on.
type ConsulGatewayBindAddress struct {
	Address string
	Port    int
}

// ConsulGatewayProxy configures the proxy of a gateway.
type ConsulGatewayProxy struct {
	ConnectTimeout                  *time.Duration
	EnvoyGatewayBindTaggedAddresses bool
	EnvoyGatewayBindAddresses       map[string]*ConsulGatewayBindAddress
	EnvoyGatewayNoDefaultBind       bool
	EnvoyDNSDiscoveryType           string
	Config                          map[string]any
}

// ConsulGatewayTLSConfig configures TLS of an ingress gateway.
type ConsulGatewayTLSConfig struct {
	Enabled       bool
	TLSMinVersion string
	TLSMaxVersion string
	CipherSuites  []string
	SDS           *ConsulGatewayTLSSDSConfig
}

// ConsulGatewayTLSSDSConfig specifies the source of a gateway's certificate.
type ConsulGatewayTLSSDSConfig struct {
	ClusterName  string
	CertResource string
}

// ConsulHTTPHeaderModifiers adds, sets and removes HTTP headers.
type ConsulHTTPHeaderModifiers struct {
	Add    map[string]string
	Set    map[string]string
	Remove []string
}

// ConsulIngressConfigEntry configures an ingress gateway.
type ConsulIngressConfigEntry struct {
	TLS       *ConsulGatewayTLSConfig
	Listeners []*ConsulIngressListener
}

// ConsulIngressListener is a port of an ingress gateway.
type ConsulIngressListener struct {
	Port     int
	Protocol string
	Services []*ConsulIngressService
}

// ConsulIngressService is a service behind a listener of an ingress gateway.
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

// ConsulLinkedService is a service outside of the mesh that a terminating gateway forwards to.
type ConsulLinkedService struct {
	Name     string
	CAFile   string
	CertFile string
	KeyFile  string
	SNI      string
}

// ConsulMeshConfigEntry makes a gateway a mesh gateway; it has no options.
type ConsulMeshConfigEntry struct {
}

// ConsulMeshGateway specifies the mesh gateway for traffic to an upstream.
type ConsulMeshGateway struct {
	Mode string
}

// ConsulProxy configures a sidecar proxy.
type ConsulProxy struct {
	LocalServiceAddress string
	LocalServicePort    int
	Upstreams           []ConsulUpstream
	Expose              *ConsulExposeConfig
	TransparentProxy    *ConsulTransparentProxy
	Config              map[string]any
}

// ConsulSidecarService requests a sidecar proxy for a service.
type ConsulSidecarService struct {
	Tags                   []string
	Port                   string
	Proxy                  *ConsulProxy
	DisableDefaultTCPCheck bool
	Meta                   map[string]string
}

// ConsulTerminatingConfigEntry configures a terminating gateway.
type ConsulTerminatingConfigEntry struct {
	Services []*ConsulLinkedService
}

// ConsulTransparentProxy redirects the traffic of a network namespace through the sidecar proxy.
type ConsulTransparentProxy struct {
	UID                  string
	OutboundPort         uint16
	ExcludeInboundPorts  []string
	ExcludeOutboundPorts []uint16
	ExcludeOutboundCIDRs []string
	ExcludeUIDs          []string
	NoDNS                bool
}

// ConsulUpstream is a mesh service that a sidecar proxy provides on a local port.
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

// Secret is a value that a secrets provider supplies to a task.
type Secret struct {
	Name     string
	Provider string
	Path     string
	Config   map[string]any
	Env      map[string]string
}

// Service is a service that a group or task registers in a service catalog.
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

// ServiceCheck is a health check of a service.
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

// ServiceWeights are the weights of a service in DNS answers, by health.
type ServiceWeights struct {
	Passing int
	Warning int
}

// SidecarTask overrides parts of the task that runs a sidecar proxy.
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

// What happens after the content of a template has changed.
const (
	TemplateChangeModeNoop    = "noop"
	TemplateChangeModeRestart = "restart"
	TemplateChangeModeSignal  = "signal"
	TemplateChangeModeScript  = "script"
)

// Template is a file that is rendered before the task starts and whenever its data changes.
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

// Vault requests a Vault token for a task.
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

// WaitConfig is the minimum and maximum time that rendering waits for data to settle.
type WaitConfig struct {
	Min *time.Duration
	Max *time.Duration
}

// RunsScripts reports whether a check of the group runs a script in the task.
func (tg *TaskGroup) RunsScripts(t *Task) bool {
	runs := func(owner string) func(*Service) bool {
		return func(s *Service) bool {
			return slices.ContainsFunc(s.Checks, func(c *ServiceCheck) bool {
				return c.Type == ServiceCheckScript && CheckTask(s, c, owner) == t.Name
			})
		}
	}
	return slices.ContainsFunc(tg.Services, runs("")) || slices.ContainsFunc(t.Services, runs(t.Name))
}
