package nomad

import (
	"cmp"
	"slices"
	"time"

	"github.com/open-nomad/open-nomad/nomad/connect"
)

// ChangeScript is the program that runs in the task when a rendered template changes.
type ChangeScript struct {
	Command          string
	Args             []string
	Timeout          time.Duration
	FailOnError      bool
	RunOnFirstRender bool
}

// CheckRestart restarts a task after Limit consecutive failures of a check. Failures within Grace after the start of
// the task are ignored.
type CheckRestart struct {
	Limit          int
	Grace          time.Duration
	IgnoreWarnings bool
}

// Consul selects the Consul cluster, namespace and partition of a group or task.
type Consul struct {
	Namespace string
	Cluster   string
	Partition string
}

// ConsulConnect makes a service part of a Consul service mesh.
type ConsulConnect struct {
	Native         bool
	SidecarService *connect.SidecarService
	SidecarTask    *SidecarTask
	Gateway        *connect.Gateway
}

// The catalogs of services, and the types of checks.
const (
	ServiceProviderConsul = "consul"
	ServiceProviderNomad  = "nomad"
	ServiceCheckHTTP      = "http"
	ServiceCheckTCP       = "tcp"
	ServiceCheckScript    = "script"
	ServiceCheckGRPC      = "grpc"
)

// The values of on_update: what an update needs of a check.
const (
	OnUpdateRequireHealthy = "require_healthy"
	OnUpdateIgnoreWarnings = "ignore_warnings"
	OnUpdateIgnore         = "ignore"
)

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
	// DeclaredProvider is the provider of the job file if the servers stored another one: "consul" for a service that is
	// registered in the native catalog instead. Only servers set it. Nomad does not have it.
	DeclaredProvider string
}

// Declared returns the provider of a service in the job file.
func (s *Service) Declared() string { return cmp.Or(s.DeclaredProvider, s.Provider) }

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

// AllServices returns the services of the group and of its tasks.
func (tg *TaskGroup) AllServices() []*Service {
	out := slices.Clone(tg.Services)
	for _, t := range tg.Tasks {
		if t != nil {
			out = append(out, t.Services...)
		}
	}
	return slices.DeleteFunc(out, func(s *Service) bool { return s == nil })
}

// CheckTask returns the name of the task in which a script check runs: that of the check, that of the service, or
// owner, the task of the service. owner is "" for services of a group. It returns "" if there is none.
func CheckTask(s *Service, c *ServiceCheck, owner string) string {
	return cmp.Or(c.TaskName, s.TaskName, owner)
}
