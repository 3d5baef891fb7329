package nomad

import "time"

// AutopilotConfig configures how the leader manages the servers of its region.
type AutopilotConfig struct {
	CleanupDeadServers      bool
	ServerStabilizationTime time.Duration
	LastContactThreshold    time.Duration
	MaxTrailingLogs         uint64
	MinQuorum               uint
	EnableRedundancyZones   bool
	DisableUpgradeMigration bool
	EnableCustomUpgrades    bool
	CreateIndex             uint64
	ModifyIndex             uint64
}

// DefaultAutopilotConfig returns the initial configuration of a region.
func DefaultAutopilotConfig() AutopilotConfig {
	return AutopilotConfig{CleanupDeadServers: true, ServerStabilizationTime: 10 * time.Second,
		LastContactThreshold: 200 * time.Millisecond, MaxTrailingLogs: 250}
}
