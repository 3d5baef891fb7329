package config

import "time"

// Client is the client block.
type Client struct {
	Enabled                        bool                      `hcl:"enabled"`
	StateDir                       string                    `hcl:"state_dir"`
	AllocDir                       string                    `hcl:"alloc_dir"`
	AllocMountsDir                 string                    `hcl:"alloc_mounts_dir" later:"another directory for the mounts of allocations"`
	HostVolumesDir                 string                    `hcl:"host_volumes_dir"`
	HostVolumePluginDir            string                    `hcl:"host_volume_plugin_dir"`
	CommonPluginDir                string                    `hcl:"common_plugin_dir"`
	Servers                        []string                  `hcl:"servers"`
	NodeClass                      string                    `hcl:"node_class"`
	NodePool                       string                    `hcl:"node_pool" default:"default"`
	Options                        map[string]string         `hcl:"options"`
	Meta                           map[string]string         `hcl:"meta"`
	ChrootEnv                      map[string]string         `hcl:"chroot_env"`
	NetworkInterface               string                    `hcl:"network_interface"`
	PreferredAddressFamily         string                    `hcl:"preferred_address_family"`
	NetworkSpeed                   int                       `hcl:"network_speed"`
	CPUDisableDmidecode            bool                      `hcl:"cpu_disable_dmidecode"`
	CPUTotalCompute                int                       `hcl:"cpu_total_compute"`
	MemoryTotalMB                  int                       `hcl:"memory_total_mb"`
	DiskTotalMB                    int                       `hcl:"disk_total_mb"`
	DiskFreeMB                     int                       `hcl:"disk_free_mb" later:"setting the free disk space (disk_total_mb sets the total)"`
	ReservableCores                string                    `hcl:"reservable_cores"`
	MaxKillTimeout                 time.Duration             `hcl:"max_kill_timeout" default:"30s"`
	ClientMaxPort                  int                       `hcl:"client_max_port" default:"14512"`
	ClientMinPort                  int                       `hcl:"client_min_port" default:"14000"`
	MaxDynamicPort                 int                       `hcl:"max_dynamic_port" default:"32000"`
	MinDynamicPort                 int                       `hcl:"min_dynamic_port" default:"20000"`
	Reserved                       Reserved                  `hcl:"reserved"`
	GCInterval                     time.Duration             `hcl:"gc_interval" default:"1m"`
	GCParallelDestroys             int                       `hcl:"gc_parallel_destroys" default:"2"`
	GCDiskUsageThreshold           float64                   `hcl:"gc_disk_usage_threshold" default:"80"`
	GCInodeUsageThreshold          float64                   `hcl:"gc_inode_usage_threshold" default:"70"`
	GCMaxAllocs                    int                       `hcl:"gc_max_allocs" default:"50"`
	GCVolumesOnNodeGC              bool                      `hcl:"gc_volumes_on_node_gc"`
	NoHostUUID                     bool                      `hcl:"no_host_uuid" default:"true" later:"node IDs derived from the host's UUID"`
	DisableRemoteExec              bool                      `hcl:"disable_remote_exec"`
	Template                       Template                  `hcl:"template"`
	ServerJoin                     ServerJoin                `hcl:"server_join"`
	HostVolume                     map[string]*HostVolume    `hcl:"host_volume,label"`
	CNIPath                        string                    `hcl:"cni_path" default:"/opt/cni/bin:/usr/libexec/cni"`
	CNIConfigDir                   string                    `hcl:"cni_config_dir" default:"/opt/cni/config"`
	BridgeNetworkName              string                    `hcl:"bridge_network_name" default:"nomad"`
	BridgeNetworkSubnet            string                    `hcl:"bridge_network_subnet" default:"172.26.64.0/20"`
	BridgeNetworkSubnetIPv6        string                    `hcl:"bridge_network_subnet_ipv6"`
	BridgeNetworkHairpinMode       bool                      `hcl:"bridge_network_hairpin_mode"`
	BridgeNetworkIsolate           bool                      `hcl:"bridge_network_isolate"`
	HostNetwork                    map[string]*HostNetwork   `hcl:"host_network,label"`
	BindWildcardDefaultHostNetwork bool                      `hcl:"bind_wildcard_default_host_network" default:"true"`
	CgroupParent                   string                    `hcl:"cgroup_parent"`
	NomadServiceDiscovery          bool                      `hcl:"nomad_service_discovery" default:"true"`
	Artifact                       Artifact                  `hcl:"artifact"`
	DrainOnShutdown                DrainOnShutdown           `hcl:"drain_on_shutdown"`
	Users                          Users                     `hcl:"users"`
	NodeMaxAllocs                  int                       `hcl:"node_max_allocs"`
	LogFile                        string                    `hcl:"log_file"`
	Fingerprint                    map[string]*Fingerprinter `hcl:"fingerprint,label"`
	DefaultIneligible              bool                      `hcl:"default_ineligible"`
	LogSink                        map[string]*LogSink       `hcl:"log_sink,label"`
	ConsulAPI                      ConsulAPI                 `hcl:"consul_api"`
	DNS                            DNS                       `hcl:"dns"`
}

// ConsulAPI is the client.consul_api block (open-nomad only). An empty address serves no Consul API.
type ConsulAPI struct {
	Address string `hcl:"address"`
}

// Reserved is the client.reserved block.
type Reserved struct {
	CPU           int    `hcl:"cpu"`
	Memory        int    `hcl:"memory"`
	Disk          int    `hcl:"disk"`
	ReservedPorts string `hcl:"reserved_ports"`
	Cores         string `hcl:"cores"`
}

// Template is the client.template block.
type Template struct {
	FunctionDenylist          []string           `hcl:"function_denylist" default:"plugin,writeToFile"`
	FunctionBlacklist         []string           `hcl:"function_blacklist"`
	DisableFileSandbox        bool               `hcl:"disable_file_sandbox"`
	MaxStale                  time.Duration      `hcl:"max_stale" default:"87600h"`
	BlockQueryWait            time.Duration      `hcl:"block_query_wait" default:"5m"`
	Wait                      TemplateWait       `hcl:"wait"`
	WaitBounds                TemplateWaitBounds `hcl:"wait_bounds"`
	ConsulRetry               UnlimitedRetry     `hcl:"consul_retry"`
	VaultDefaultLeaseDuration time.Duration      `hcl:"vault_default_lease_duration" default:"5m"`
	VaultRetry                UnlimitedRetry     `hcl:"vault_retry"`
	NomadRetry                Retry              `hcl:"nomad_retry"`
	UseClientConsulToken      bool               `hcl:"use_client_consul_token"`
	ShareClientConsulToken    bool               `hcl:"share_client_consul_token"`
}

// TemplateWait is the client.template.wait block.
type TemplateWait struct {
	Min time.Duration `hcl:"min" default:"5s"`
	Max time.Duration `hcl:"max" default:"4m"`
}

// TemplateWaitBounds is the client.template.wait_bounds block.
type TemplateWaitBounds struct {
	Min string `hcl:"min"`
	Max string `hcl:"max"`
}

// UnlimitedRetry is the client.template.consul_retry or vault_retry block. Unlike in Nomad, its attempts are unlimited by
// default.
type UnlimitedRetry struct {
	Attempts   int           `hcl:"attempts" default:"0"`
	Backoff    time.Duration `hcl:"backoff" default:"250ms"`
	MaxBackoff time.Duration `hcl:"max_backoff" default:"1m"`
}

// Retry is the client.template.nomad_retry block.
type Retry struct {
	Attempts   int           `hcl:"attempts" default:"12"`
	Backoff    time.Duration `hcl:"backoff" default:"250ms"`
	MaxBackoff time.Duration `hcl:"max_backoff" default:"1m"`
}

// ServerJoin is the server_join block of the client or server block.
type ServerJoin struct {
	StartJoin     []string      `hcl:"start_join"`
	RetryJoin     []string      `hcl:"retry_join"`
	RetryMax      int           `hcl:"retry_max"`
	RetryInterval time.Duration `hcl:"retry_interval" default:"30s"`
}

// HostVolume is the client.host_volume block.
type HostVolume struct {
	Path     string `hcl:"path"`
	ReadOnly bool   `hcl:"read_only"`
}

// HostNetwork is the client.host_network block.
type HostNetwork struct {
	CIDR          string `hcl:"cidr"`
	Interface     string `hcl:"interface"`
	ReservedPorts string `hcl:"reserved_ports"`
}

// Artifact is the client.artifact block.
type Artifact struct {
	HTTPReadTimeout               time.Duration `hcl:"http_read_timeout" default:"30m"`
	HTTPMaxSize                   string        `hcl:"http_max_size" default:"100GB"`
	GCSTimeout                    time.Duration `hcl:"gcs_timeout" default:"30m"`
	GitTimeout                    time.Duration `hcl:"git_timeout" default:"30m"`
	HgTimeout                     time.Duration `hcl:"hg_timeout" default:"30m"`
	S3Timeout                     time.Duration `hcl:"s3_timeout" default:"30m"`
	DecompressionFileCountLimit   int           `hcl:"decompression_file_count_limit" default:"4096"`
	DecompressionSizeLimit        string        `hcl:"decompression_size_limit" default:"100GB"`
	DisableArtifactInspection     bool          `hcl:"disable_artifact_inspection"`
	DisableFilesystemIsolation    bool          `hcl:"disable_filesystem_isolation"`
	FilesystemIsolationExtraPaths []string      `hcl:"filesystem_isolation_extra_paths"`
	SetEnvironmentVariables       string        `hcl:"set_environment_variables"`
	CacheSize                     string        `hcl:"cache_size" default:"2GiB"`
}

// DrainOnShutdown is the client.drain_on_shutdown block. Force has no effect, as in Nomad.
type DrainOnShutdown struct {
	Deadline         time.Duration `hcl:"deadline" default:"1h"`
	IgnoreSystemJobs bool          `hcl:"ignore_system_jobs"`
	Force            bool          `hcl:"force"`
}

// Users is the client.users block.
type Users struct {
	DynamicUserMin int `hcl:"dynamic_user_min" default:"80000"`
	DynamicUserMax int `hcl:"dynamic_user_max" default:"89999"`
}

// Fingerprinter is the client.fingerprint block of a cloud provider.
type Fingerprinter struct {
	RetryInterval time.Duration `hcl:"retry_interval" default:"2s"`
	RetryAttempts int           `hcl:"retry_attempts"`
	ExitOnFailure bool          `hcl:"exit_on_failure"`
}
