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
