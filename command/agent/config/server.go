package config

import "time"

// Server is the server block.
type Server struct {
	Enabled                   bool                   `hcl:"enabled"`
	AuthoritativeRegion       string                 `hcl:"authoritative_region"`
	BootstrapExpect           int                    `hcl:"bootstrap_expect"`
	ClientIntroduction        ClientIntroduction     `hcl:"client_introduction"`
	DataDir                   string                 `hcl:"data_dir"`
	ProtocolVersion           int                    `hcl:"protocol_version"`
	RaftProtocol              int                    `hcl:"raft_protocol" default:"3"`
	RaftMultiplier            int                    `hcl:"raft_multiplier" default:"1"`
	NumSchedulers             int                    `hcl:"num_schedulers" default:"-1"`
	EnabledSchedulers         []string               `hcl:"enabled_schedulers" default:"service,batch,system,sysbatch"`
	NodeGCThreshold           time.Duration          `hcl:"node_gc_threshold" default:"24h"`
	JobGCInterval             time.Duration          `hcl:"job_gc_interval" default:"5m"`
	JobGCThreshold            time.Duration          `hcl:"job_gc_threshold" default:"4h"`
	EvalGCThreshold           time.Duration          `hcl:"eval_gc_threshold" default:"1h"`
	BatchEvalGCThreshold      time.Duration          `hcl:"batch_eval_gc_threshold" default:"24h"`
	DeploymentGCThreshold     time.Duration          `hcl:"deployment_gc_threshold" default:"1h"`
	CSIVolumeClaimGCInterval  time.Duration          `hcl:"csi_volume_claim_gc_interval" default:"5m"`
	CSIVolumeClaimGCThreshold time.Duration          `hcl:"csi_volume_claim_gc_threshold" default:"5m"`
	CSIPluginGCThreshold      time.Duration          `hcl:"csi_plugin_gc_threshold" default:"1h"`
	ACLTokenGCThreshold       time.Duration          `hcl:"acl_token_gc_threshold" default:"1h"`
	RootKeyGCInterval         time.Duration          `hcl:"root_key_gc_interval" default:"10m"`
	RootKeyGCThreshold        time.Duration          `hcl:"root_key_gc_threshold" default:"1h"`
	RootKeyRotationThreshold  time.Duration          `hcl:"root_key_rotation_threshold" default:"720h"`
	HeartbeatGrace            time.Duration          `hcl:"heartbeat_grace" default:"10s"`
	MinHeartbeatTTL           time.Duration          `hcl:"min_heartbeat_ttl" default:"10s"`
	MaxHeartbeatsPerSecond    float64                `hcl:"max_heartbeats_per_second" default:"50"`
	FailoverHeartbeatTTL      time.Duration          `hcl:"failover_heartbeat_ttl" default:"300s"`
	StartJoin                 []string               `hcl:"start_join"`
	RetryJoin                 []string               `hcl:"retry_join"`
	RetryMax                  int                    `hcl:"retry_max"`
	RetryInterval             time.Duration          `hcl:"retry_interval"`
	RejoinAfterLeave          bool                   `hcl:"rejoin_after_leave"`
	NonVotingServer           bool                   `hcl:"non_voting_server"`
	RedundancyZone            string                 `hcl:"redundancy_zone" later:"redundancy zones (Nomad Enterprise)"`
	UpgradeVersion            string                 `hcl:"upgrade_version" later:"automated upgrades (Nomad Enterprise)"`
	Encrypt                   string                 `hcl:"encrypt"`
	ServerJoin                ServerJoin             `hcl:"server_join"`
	DefaultSchedulerConfig    DefaultSchedulerConfig `hcl:"default_scheduler_config"`
	PlanRejectionTracker      PlanRejectionTracker   `hcl:"plan_rejection_tracker"`
	PlanApplyPipeline         int                    `hcl:"plan_apply_pipeline" default:"1" later:"setting the depth of the plan pipeline"`
	EnableEventBroker         bool                   `hcl:"enable_event_broker" default:"true"`
	EventBufferSize           int                    `hcl:"event_buffer_size" default:"100"`
	LicensePath               string                 `hcl:"license_path" later:"licenses"`
	Search                    Search                 `hcl:"search"`
	DeployQueryRateLimit      float64                `hcl:"deploy_query_rate_limit" default:"100" later:"rate limits on deployment queries"`
	RaftLogstore              RaftLogstore           `hcl:"raft_logstore"`
	RaftBoltdb                RaftBoltdb             `hcl:"raft_boltdb"`
	RaftSnapshotThreshold     int                    `hcl:"raft_snapshot_threshold" default:"8192"`
	RaftSnapshotInterval      time.Duration          `hcl:"raft_snapshot_interval" default:"120s"`
	RaftTrailingLogs          int                    `hcl:"raft_trailing_logs" default:"10240"`
	JobDefaultPriority        int                    `hcl:"job_default_priority" default:"50"`
	JobMaxPriority            int                    `hcl:"job_max_priority" default:"100"`
	JobMaxCount               int                    `hcl:"job_max_count" default:"50000"`
	Privileged                string                 `hcl:"privileged"`
	JobMaxSourceSize          string                 `hcl:"job_max_source_size" default:"1M"`
	JobTrackedVersions        int                    `hcl:"job_tracked_versions" default:"6" later:"setting the number of tracked job versions"`
	OIDCIssuer                string                 `hcl:"oidc_issuer"`
	Spiffe                    Spiffe                 `hcl:"spiffe"`
	Services                  Services               `hcl:"services"`
	AcceptAnyAudience         bool                   `hcl:"accept_any_audience"`
	RelayTokensToNodes        bool                   `hcl:"relay_tokens_to_nodes"`
	StartTimeout              time.Duration          `hcl:"start_timeout" default:"30s"`
	LogFile                   string                 `hcl:"log_file"`
	NonProduction             bool                   `hcl:"non_production" later:"licenses"`
}

// ClientIntroduction is the server.client_introduction block.
type ClientIntroduction struct {
	Enforcement        string        `hcl:"enforcement" default:"warn"`
	DefaultIdentityTTL time.Duration `hcl:"default_identity_ttl" default:"5m"`
	MaxIdentityTTL     time.Duration `hcl:"max_identity_ttl" default:"30m"`
}

// DefaultSchedulerConfig is the server.default_scheduler_config block.
type DefaultSchedulerConfig struct {
	SchedulerAlgorithm            string           `hcl:"scheduler_algorithm" default:"binpack"`
	PreemptionConfig              PreemptionConfig `hcl:"preemption_config"`
	MemoryOversubscriptionEnabled bool             `hcl:"memory_oversubscription_enabled"`
	RejectJobRegistration         bool             `hcl:"reject_job_registration"`
	PauseEvalBroker               bool             `hcl:"pause_eval_broker"`
	NodeLimitForFeasibilityChecks int              `hcl:"node_limit_for_feasibility_checks"`
}

// PreemptionConfig is the server.default_scheduler_config.preemption_config block.
type PreemptionConfig struct {
	SystemSchedulerEnabled   bool `hcl:"system_scheduler_enabled" default:"true"`
	SysbatchSchedulerEnabled bool `hcl:"sysbatch_scheduler_enabled"`
	BatchSchedulerEnabled    bool `hcl:"batch_scheduler_enabled"`
	ServiceSchedulerEnabled  bool `hcl:"service_scheduler_enabled"`
}

// PlanRejectionTracker is the server.plan_rejection_tracker block.
type PlanRejectionTracker struct {
	Enabled       bool          `hcl:"enabled"`
	NodeThreshold int           `hcl:"node_threshold" default:"100"`
	NodeWindow    time.Duration `hcl:"node_window" default:"5m"`
}

// Search is the server.search block.
type Search struct {
	FuzzyEnabled  bool `hcl:"fuzzy_enabled" default:"true"`
	LimitQuery    int  `hcl:"limit_query" default:"20"`
	LimitResults  int  `hcl:"limit_results" default:"100"`
	MinTermLength int  `hcl:"min_term_length" default:"2"`
}

// RaftLogstore is the server.raft_logstore block.
type RaftLogstore struct {
	Backend         string           `hcl:"backend" default:"wal"`
	Boltdb          RaftBoltdb       `hcl:"boltdb"`
	WAL             RaftWAL          `hcl:"wal"`
	DisableLogCache bool             `hcl:"disable_log_cache"`
	Verification    RaftVerification `hcl:"verification" later:"verification of the Raft log"`
}

// RaftBoltdb is the server.raft_logstore.boltdb block, or its older form server.raft_boltdb.
type RaftBoltdb struct {
	NoFreelistSync bool `hcl:"no_freelist_sync"`
}

// RaftWAL is the server.raft_logstore.wal block.
type RaftWAL struct {
	SegmentSizeMB int `hcl:"segment_size_mb" default:"64"`
}

// RaftVerification is the server.raft_logstore.verification block.
type RaftVerification struct {
	Enabled  bool          `hcl:"enabled"`
	Interval time.Duration `hcl:"interval" default:"5m"`
}

// Autopilot is the autopilot block.
type Autopilot struct {
	CleanupDeadServers      bool          `hcl:"cleanup_dead_servers" default:"true"`
	ServerStabilizationTime time.Duration `hcl:"server_stabilization_time" default:"10s"`
	LastContactThreshold    time.Duration `hcl:"last_contact_threshold" default:"200ms"`
	MaxTrailingLogs         int           `hcl:"max_trailing_logs" default:"250"`
	MinQuorum               int           `hcl:"min_quorum"`
	EnableRedundancyZones   bool          `hcl:"enable_redundancy_zones" later:"redundancy zones (Nomad Enterprise)"`
	DisableUpgradeMigration bool          `hcl:"disable_upgrade_migration" later:"automated upgrades (Nomad Enterprise)"`
	EnableCustomUpgrades    bool          `hcl:"enable_custom_upgrades" later:"automated upgrades (Nomad Enterprise)"`
}
