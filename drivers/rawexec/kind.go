package rawexec

import (
	"syscall"

	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// Kind returns the description of the driver.
func Kind() *drivers.Kind {
	return &drivers.Kind{
		Name: Name, ConfigSpec: configSpec, TaskSpec: taskSpec, KillSignal: syscall.SIGINT,
		Capabilities: drivers.Capabilities{SendSignals: true, Exec: true, FSIsolation: drivers.FSIsolationNone, Devices: true,
			Networks: []string{drivers.NetworkHost, drivers.NetworkGroup}},
		CheckConfig:    drivers.CheckWith(configSpec, decodeSettings),
		DevConfig:      map[string]any{drivers.LegacyOption: true},
		NeedsPrivilege: needsPrivilege,
		Grouped:        true,
	}
}

// needsPrivilege is Kind.NeedsPrivilege.
func needsPrivilege(map[string]any) string {
	return "raw_exec runs programs with the rights of the agent and without a sandbox"
}
