package mock

import (
	"strings"
	"syscall"

	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// Kind returns the description of the driver. Agents run it only with a plugin block, or with -dev.
func Kind() *drivers.Kind {
	return &drivers.Kind{
		Name: Name, OptIn: true, ConfigSpec: configSpec, TaskSpec: taskSpec, KillSignal: syscall.SIGINT,
		Capabilities:   drivers.Capabilities{SendSignals: true, FSIsolation: drivers.FSIsolationNone},
		CheckConfig:    drivers.CheckWith(configSpec, decodeSettings),
		Isolates:       isolates,
		NeedsPrivilege: needsPrivilege,
	}
}

// needsPrivilege is Kind.NeedsPrivilege: the option needs_privilege of the config block is the reason.
func needsPrivilege(config map[string]any) string {
	why, _ := config["needs_privilege"].(string)
	if strings.Contains(why, "${") {
		return "" // only the node knows
	}
	return why
}
