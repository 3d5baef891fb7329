package workload

import "time"

// Values of service blocks.
const (
	OnUpdateRequireHealthy = "require_healthy"
	OnUpdateIgnoreWarn     = "ignore_warnings"
	OnUpdateIgnore         = "ignore"
	ServiceProviderConsul  = "consul"
)

// Service is a service that a group or task registers in a service catalog.
type Service struct {
	Name              string            `hcl:"name"`
	Tags              []string          `hcl:"tags"`
	CanaryTags        []string          `hcl:"canary_tags"`
	EnableTagOverride bool              `hcl:"enable_tag_override"`
	PortLabel         string            `hcl:"port"`
	AddressMode       string            `hcl:"address_mode"`
	Address           string            `hcl:"address"`
	Checks            []ServiceCheck    `hcl:"check,block"`
	CheckRestart      *CheckRestart     `hcl:"check_restart,block"`
	Connect           *ConsulConnect    `hcl:"connect,block"`
	Meta              map[string]string `hcl:"meta,block"`
	CanaryMeta        map[string]string `hcl:"canary_meta,block"`
	TaggedAddresses   map[string]string `hcl:"tagged_addresses,block"`
	TaskName          string            `hcl:"task"`
	OnUpdate          string            `hcl:"on_update"`
	Identity          *WorkloadIdentity `hcl:"identity,block"`
	Weights           *ServiceWeights   `hcl:"weights,block"`
	Provider          string            `hcl:"provider"`
	Cluster           string            `hcl:"cluster"`
	Kind              string            `hcl:"kind"`
}

// ServiceCheck is a health check of a service.
type ServiceCheck struct {
	Name                   string              `hcl:"name"`
	Type                   string              `hcl:"type"`
	Command                string              `hcl:"command"`
	Args                   []string            `hcl:"args"`
	Path                   string              `hcl:"path"`
	Protocol               string              `hcl:"protocol"`
	PortLabel              string              `hcl:"port"`
	Expose                 bool                `hcl:"expose"`
	AddressMode            string              `hcl:"address_mode"`
	Advertise              string              `hcl:"advertise"`
	Interval               time.Duration       `hcl:"interval"`
	Timeout                time.Duration       `hcl:"timeout"`
	InitialStatus          string              `hcl:"initial_status"`
	Notes                  string              `hcl:"notes"`
	TLSServerName          string              `hcl:"tls_server_name"`
	TLSSkipVerify          bool                `hcl:"tls_skip_verify"`
	Header                 map[string][]string `hcl:"header,block"`
	Method                 string              `hcl:"method"`
	CheckRestart           *CheckRestart       `hcl:"check_restart,block"`
	GRPCService            string              `hcl:"grpc_service"`
	GRPCUseTLS             bool                `hcl:"grpc_use_tls"`
	TaskName               string              `hcl:"task"`
	SuccessBeforePassing   int                 `hcl:"success_before_passing"`
	FailuresBeforeCritical int                 `hcl:"failures_before_critical"`
	FailuresBeforeWarning  int                 `hcl:"failures_before_warning"`
	Body                   string              `hcl:"body"`
	OnUpdate               string              `hcl:"on_update"`
}

// ServiceWeights are the weights of a service in DNS responses, by health.
type ServiceWeights struct {
	Passing int `hcl:"passing"`
	Warning int `hcl:"warning"`
}

// CheckRestart configures the restart of a task with an unhealthy check.
type CheckRestart struct {
	Limit          int            `hcl:"limit"`
	Grace          *time.Duration `hcl:"grace"`
	IgnoreWarnings bool           `hcl:"ignore_warnings"`
}
