package config

import "time"

// Sentinel is the sentinel block.
type Sentinel struct {
	Import                   map[string]*SentinelImport `hcl:"import,label"`
	AdditionalEnabledModules []string                   `hcl:"additional_enabled_modules"`
}

// SentinelImport is the sentinel.import block.
type SentinelImport struct {
	Path string   `hcl:"path"`
	Args []string `hcl:"args"`
}

// Reporting is the reporting block.
type Reporting struct {
	License                      ReportingLicense `hcl:"license"`
	Address                      string           `hcl:"address"`
	ExportInterval               time.Duration    `hcl:"export_interval"`
	SnapshotRetentionTime        string           `hcl:"snapshot_retention_time"`
	DisableProductUsageReporting bool             `hcl:"disable_product_usage_reporting"`
}

// ReportingLicense is the reporting.license block.
type ReportingLicense struct {
	Enabled bool `hcl:"enabled"`
}

// Eventlog is the eventlog block.
type Eventlog struct {
	Enabled bool   `hcl:"enabled"`
	Level   string `hcl:"level" default:"error"`
}

// Consul is the consul block.
type Consul struct {
	Name                         string        `hcl:"name" default:"default"`
	ServerServiceName            string        `hcl:"server_service_name" default:"nomad"`
	ServerHTTPCheckName          string        `hcl:"server_http_check_name" default:"Nomad Server HTTP Check"`
	ServerSerfCheckName          string        `hcl:"server_serf_check_name" default:"Nomad Server Serf Check"`
	ServerRPCCheckName           string        `hcl:"server_rpc_check_name" default:"Nomad Server RPC Check"`
	ServerFailuresBeforeCritical int           `hcl:"server_failures_before_critical"`
	ServerFailuresBeforeWarning  int           `hcl:"server_failures_before_warning"`
	ClientServiceName            string        `hcl:"client_service_name" default:"nomad-client"`
	ClientHTTPCheckName          string        `hcl:"client_http_check_name" default:"Nomad Client HTTP Check"`
	ClientFailuresBeforeCritical int           `hcl:"client_failures_before_critical"`
	ClientFailuresBeforeWarning  int           `hcl:"client_failures_before_warning"`
	Tags                         []string      `hcl:"tags"`
	AutoAdvertise                bool          `hcl:"auto_advertise" default:"true"`
	ChecksUseAdvertise           bool          `hcl:"checks_use_advertise"`
	Address                      string        `hcl:"address" default:"127.0.0.1:8500"`
	GRPCAddress                  string        `hcl:"grpc_address"`
	Timeout                      time.Duration `hcl:"timeout" default:"5s"`
	Token                        string        `hcl:"token"`
	Auth                         string        `hcl:"auth"`
	SSL                          bool          `hcl:"ssl"`
	ShareSSL                     bool          `hcl:"share_ssl"`
	VerifySSL                    bool          `hcl:"verify_ssl" default:"true"`
	GRPCCAFile                   string        `hcl:"grpc_ca_file"`
	CAFile                       string        `hcl:"ca_file"`
	CertFile                     string        `hcl:"cert_file"`
	KeyFile                      string        `hcl:"key_file"`
	ServerAutoJoin               bool          `hcl:"server_auto_join" default:"true"`
	ClientAutoJoin               bool          `hcl:"client_auto_join" default:"true"`
	Namespace                    string        `hcl:"namespace"`
	ServiceIdentity              Identity      `hcl:"service_identity"`
	ServiceAuthMethod            string        `hcl:"service_auth_method" default:"nomad-workloads"`
	TaskIdentity                 Identity      `hcl:"task_identity"`
	TaskAuthMethod               string        `hcl:"task_auth_method" default:"nomad-workloads"`
}

// Identity is the consul.service_identity, consul.task_identity or vault.default_identity block.
type Identity struct {
	Aud         []string          `hcl:"aud"`
	Env         bool              `hcl:"env"`
	File        bool              `hcl:"file"`
	Filepath    string            `hcl:"filepath"`
	TTL         string            `hcl:"ttl"`
	ExtraClaims map[string]string `hcl:"extra_claims"`
}

// Vault is the vault block.
type Vault struct {
	Name               string   `hcl:"name" default:"default"`
	Enabled            bool     `hcl:"enabled"`
	CreateFromRole     string   `hcl:"create_from_role"`
	Namespace          string   `hcl:"namespace"`
	Address            string   `hcl:"address" default:"https://vault.service.consul:8200"`
	JWTAuthBackendPath string   `hcl:"jwt_auth_backend_path" default:"jwt-nomad"`
	CAFile             string   `hcl:"ca_file"`
	CAPath             string   `hcl:"ca_path"`
	CertFile           string   `hcl:"cert_file"`
	KeyFile            string   `hcl:"key_file"`
	TLSSkipVerify      bool     `hcl:"tls_skip_verify"`
	TLSServerName      string   `hcl:"tls_server_name"`
	DefaultIdentity    Identity `hcl:"default_identity"`
	Token              string   `hcl:"token"`
}
