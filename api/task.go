package api

import "time"

// Values of lifecycle and volume_mount blocks.
const (
	VolumeMountPropagationPrivate       = "private"
	VolumeMountPropagationHostToTask    = "host-to-task"
	VolumeMountPropagationBidirectional = "bidirectional"
	TaskLifecycleHookPrestart           = "prestart"
	TaskLifecycleHookPoststart          = "poststart"
	TaskLifecycleHookPoststop           = "poststop"
)

// CSIPluginType is a kind of CSI plugin.
type CSIPluginType string

// Kinds of CSI plugins.
const (
	CSIPluginTypeNode       CSIPluginType = "node"
	CSIPluginTypeController CSIPluginType = "controller"
	CSIPluginTypeMonolith   CSIPluginType = "monolith"
)

// Task is a unit of execution in a group.
type Task struct {
	Name            string                 `hcl:",label"`
	Driver          string                 `hcl:"driver"`
	User            string                 `hcl:"user"`
	Lifecycle       *TaskLifecycle         `hcl:"lifecycle,block"`
	Config          map[string]any         `hcl:"config,block"`
	Constraints     []*Constraint          `hcl:"constraint,block"`
	Affinities      []*Affinity            `hcl:"affinity,block"`
	Env             map[string]string      `hcl:"env,block|attr"`
	Services        []*Service             `hcl:"service,block"`
	Resources       *Resources             `hcl:"resources,block"`
	RestartPolicy   *RestartPolicy         `hcl:"restart,block"`
	Meta            map[string]string      `hcl:"meta,block|attr"`
	KillTimeout     *time.Duration         `hcl:"kill_timeout"`
	LogConfig       *LogConfig             `hcl:"logs,block"`
	Artifacts       []*TaskArtifact        `hcl:"artifact,block"`
	Vault           *Vault                 `hcl:"vault,block"`
	Consul          *Consul                `hcl:"consul,block"`
	Templates       []*Template            `hcl:"template,block"`
	DispatchPayload *DispatchPayloadConfig `hcl:"dispatch_payload,block"`
	VolumeMounts    []*VolumeMount         `hcl:"volume_mount,block"`
	CSIPluginConfig *TaskCSIPluginConfig   `json:",omitempty" hcl:"csi_plugin,block"`
	Leader          bool                   `hcl:"leader"`
	ShutdownDelay   time.Duration          `hcl:"shutdown_delay"`
	KillSignal      string                 `hcl:"kill_signal"`
	Kind            string                 `hcl:"kind"`
	ScalingPolicies []*ScalingPolicy       `hcl:"scaling,block"`
	Secrets         []*Secret              `hcl:"secret,block"`
	Identity        *WorkloadIdentity
	Identities      []*WorkloadIdentity `hcl:"identity,block"`
	Actions         []*Action           `hcl:"action,block"`
	Schedule        *TaskSchedule       `hcl:"schedule,block"`
	Privileged      bool                `hcl:"privileged" json:",omitempty"` // only in open-nomad
	Isolation       string              `hcl:"isolation" json:",omitempty"`  // the lowest isolation level; only in open-nomad
	Spiffe          *TaskSpiffe         `hcl:"spiffe,block" json:",omitempty"`
}

// TaskSpiffe requests the SPIFFE Workload API for a task. It exists only in open-nomad. A zero TTL
// means one hour.
type TaskSpiffe struct {
	X509 bool          `hcl:"x509"`
	JWT  bool          `hcl:"jwt"`
	TTL  time.Duration `hcl:"ttl"`
	DNS  []string      `hcl:"dns"`
}

// TaskArtifact is a file or directory that is downloaded before the task starts.
type TaskArtifact struct {
	GetterSource   *string           `hcl:"source"`
	GetterOptions  map[string]string `hcl:"options,block"`
	GetterHeaders  map[string]string `hcl:"headers,block"`
	GetterMode     *string           `hcl:"mode"`
	GetterInsecure *bool             `hcl:"insecure"`
	RelativeDest   *string           `hcl:"destination"`
	Chown          bool              `hcl:"chown"`
	// Verify is the signature that the artifact must have. Nomad does not have it.
	Verify *ArtifactVerify `json:",omitempty" hcl:"verify,block"`
}

// ArtifactVerify is a signature made with minisign.
type ArtifactVerify struct {
	MinisignKey string `hcl:"minisign_key"` // the public key
	Signature   string `hcl:"signature"`    // its source; "" is the artifact's with the suffix .minisig
}

// TaskLifecycle makes a task run before or after the main tasks of its group, or as a
// sidecar.
type TaskLifecycle struct {
	Hook    string `hcl:"hook"`
	Sidecar bool   `hcl:"sidecar"`
}

// Empty reports whether l is nil or has no hook.
func (l *TaskLifecycle) Empty() bool { return l == nil || l.Hook == "" }

// TaskSchedule limits the times at which a task runs.
type TaskSchedule struct {
	Cron *TaskScheduleCron `hcl:"cron,block"`
}

// TaskScheduleCron is the start and end times of a scheduled task.
type TaskScheduleCron struct {
	Start    string `hcl:"start"`
	End      string `hcl:"end"`
	Timezone string `hcl:"timezone"`
}

// TaskCSIPluginConfig makes a task a CSI plugin of its node.
type TaskCSIPluginConfig struct {
	ID                  string        `hcl:"id"`
	Type                CSIPluginType `hcl:"type"`
	MountDir            string        `hcl:"mount_dir"`
	StagePublishBaseDir string        `hcl:"stage_publish_base_dir"`
	HealthTimeout       time.Duration `hcl:"health_timeout"`
}

// LogConfig is the number and the size in MiB of the log files of each stream of a task.
type LogConfig struct {
	MaxFiles      *int  `hcl:"max_files"`
	MaxFileSizeMB *int  `hcl:"max_file_size"`
	Enabled       *bool `hcl:"enabled"`
	Disabled      *bool `hcl:"disabled"`
	// Sinks are the log sinks of the node that get a copy. It exists only in open-nomad.
	Sinks []string `hcl:"sinks" json:",omitempty"`
}

// Template is a file that is rendered before the task starts, and again when its data
// changes.
type Template struct {
	SourcePath    *string        `hcl:"source"`
	DestPath      *string        `hcl:"destination"`
	EmbeddedTmpl  *string        `hcl:"data"`
	ChangeMode    *string        `hcl:"change_mode"`
	ChangeScript  *ChangeScript  `hcl:"change_script,block"`
	ChangeSignal  *string        `hcl:"change_signal"`
	Once          *bool          `hcl:"once"`
	Splay         *time.Duration `hcl:"splay"`
	Perms         *string        `hcl:"perms"`
	Uid           *int           `hcl:"uid"`
	Gid           *int           `hcl:"gid"`
	LeftDelim     *string        `hcl:"left_delimiter"`
	RightDelim    *string        `hcl:"right_delimiter"`
	Envvars       *bool          `hcl:"env"`
	VaultGrace    *time.Duration `hcl:"vault_grace"`
	Wait          *WaitConfig    `hcl:"wait,block"`
	ErrMissingKey *bool          `hcl:"error_on_missing_key"`
}

// ChangeScript is a program that runs in the task when a rendered template changes.
type ChangeScript struct {
	Command          *string        `hcl:"command"`
	Args             []string       `hcl:"args"`
	Timeout          *time.Duration `hcl:"timeout"`
	FailOnError      *bool          `hcl:"fail_on_error"`
	RunOnFirstRender *bool          `hcl:"run_on_first_render"`
}

// WaitConfig is the minimum and maximum time to wait for stable data before rendering.
type WaitConfig struct {
	Min *time.Duration `hcl:"min"`
	Max *time.Duration `hcl:"max"`
}

// Vault requests a Vault token for a task.
type Vault struct {
	Policies             []string `hcl:"policies"`
	Role                 string   `hcl:"role"`
	Namespace            *string  `hcl:"namespace"`
	Cluster              string   `hcl:"cluster"`
	Env                  *bool    `hcl:"env"`
	DisableFile          *bool    `hcl:"disable_file"`
	ChangeMode           *string  `hcl:"change_mode"`
	ChangeSignal         *string  `hcl:"change_signal"`
	AllowTokenExpiration *bool    `hcl:"allow_token_expiration"`
}

// Secret is a secret from a secrets provider for a task.
type Secret struct {
	Name     string            `hcl:",label"`
	Provider string            `hcl:"provider"`
	Path     string            `hcl:"path"`
	Config   map[string]any    `hcl:"config,block"`
	Env      map[string]string `hcl:"env,block"`
}

// Action is a named command that a user can run in a running task.
type Action struct {
	Name    string   `hcl:",label"`
	Command string   `hcl:"command"`
	Args    []string `hcl:"args"`
}

// VolumeMount mounts a volume of the group into a task.
type VolumeMount struct {
	Volume          *string `hcl:"volume"`
	Destination     *string `hcl:"destination"`
	ReadOnly        *bool   `hcl:"read_only"`
	PropagationMode *string `hcl:"propagation_mode"`
	SELinuxLabel    *string `hcl:"selinux_label"`
	// Owner is "task" to give the files of a CSI volume to the user of the task. It exists only in open-nomad.
	Owner string `hcl:"owner" json:",omitempty"`
}

// WorkloadIdentity requests an identity (a signed JWT) for a task or service. It also
// configures how the task gets it. A zero TTL means that the identity does not expire.
type WorkloadIdentity struct {
	Name         string        `hcl:"name"`
	Audience     []string      `hcl:"aud"`
	ChangeMode   string        `hcl:"change_mode"`
	ChangeSignal string        `hcl:"change_signal"`
	Env          bool          `hcl:"env"`
	File         bool          `hcl:"file"`
	Filepath     string        `hcl:"filepath"`
	ServiceName  string        `hcl:"service_name"`
	TTL          time.Duration `hcl:"ttl"`
	ExtraClaims  []string      `hcl:"extra_claims"`
	Alg          string        `hcl:"alg" json:",omitempty"`       // EdDSA or RS256; only in open-nomad
	Isolation    bool          `hcl:"isolation" json:",omitempty"` // adds the claim nomad_isolation; only in open-nomad
}
