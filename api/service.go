package api

import (
	"net/http"
	"net/url"
	"time"
)

// ServiceRegistration is one address of a service.
type ServiceRegistration struct {
	ID          string
	ServiceName string
	Namespace   string
	NodeID      string
	Datacenter  string
	JobID       string
	AllocID     string
	Tags        []string
	Address     string
	Port        int
	CreateIndex uint64
	ModifyIndex uint64

	// The fields below are not in Nomad.
	Meta              map[string]string
	TaggedAddresses   map[string]ServiceTaggedAddress
	Weights           *ServiceWeights
	EnableTagOverride bool
	Status            string // passing, warning or critical; "" means passing
	Checks            []*ServiceCheckState
}

// ServiceTaggedAddress is another address of a service. Port is 0 if it has none.
type ServiceTaggedAddress struct {
	Address string
	Port    int
}

// ServiceCheckState is the state of a health check at its last change of status.
type ServiceCheckState struct {
	ID     string
	Name   string
	Type   string
	Status string
	Output string
}

// ServiceInstance is a registration with the name and the address of its node.
type ServiceInstance struct {
	ServiceRegistration
	NodeName    string
	NodeAddress string
}

// ServiceRegistrationListStub lists the services of one namespace.
type ServiceRegistrationListStub struct {
	Namespace string
	Services  []*ServiceRegistrationStub
}

// ServiceRegistrationStub is the name of a service with the tags of all its registrations.
type ServiceRegistrationStub struct {
	ServiceName string
	Tags        []string
}

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
	// DeclaredProvider is "consul" if the job file has this provider and the servers registered the service natively. Only
	// servers set it. Nomad does not have it.
	DeclaredProvider string `json:",omitempty"`
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

// Services is the handle for service registrations.
type Services struct{ client *Client }

// Services returns the handle for service registrations.
func (c *Client) Services() *Services { return &Services{c} }

// List lists the services by namespace.
func (s *Services) List(q *QueryOptions) ([]*ServiceRegistrationListStub, *QueryMeta, error) {
	return get[[]*ServiceRegistrationListStub](s.client, "/v1/services", q)
}

// Get returns the registrations of a service. The parameter choose selects some.
func (s *Services) Get(name string, q *QueryOptions) ([]*ServiceRegistration, *QueryMeta, error) {
	return get[[]*ServiceRegistration](s.client, "/v1/service/"+url.PathEscape(name), q)
}

// Instances returns the registrations of a service with their nodes. It is not in Nomad.
func (s *Services) Instances(name string, q *QueryOptions) ([]*ServiceInstance, *QueryMeta, error) {
	return get[[]*ServiceInstance](s.client, "/v1/service/"+url.PathEscape(name)+"/instances", q)
}

// Delete removes a registration. Its client does not register it again before the next update of the allocation.
func (s *Services) Delete(name, id string, q *WriteOptions) (*WriteMeta, error) {
	return s.client.write(call{http.MethodDelete, "/v1/service/" + url.PathEscape(name) + "/" + url.PathEscape(id), nil, nil}, q)
}

// Services returns the service registrations of the allocations of a job.
func (j *Jobs) Services(jobID string, q *QueryOptions) ([]*ServiceRegistration, *QueryMeta, error) {
	return get[[]*ServiceRegistration](j.client, jobPath(jobID, "/services"), q)
}

// Services returns the service registrations of an allocation.
func (a *Allocations) Services(allocID string, q *QueryOptions) ([]*ServiceRegistration, *QueryMeta, error) {
	return get[[]*ServiceRegistration](a.client, "/v1/allocation/"+allocID+"/services", q)
}
