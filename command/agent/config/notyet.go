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
