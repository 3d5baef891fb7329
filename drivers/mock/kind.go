package mock

import (
	"syscall"

	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// Kind returns the description of the driver. Agents run it only if they are told to.
func Kind() *drivers.Kind {
	return &drivers.Kind{
		Name: Name, OptIn: true, ConfigSpec: configSpec, TaskSpec: taskSpec, KillSignal: syscall.SIGINT,
		Capabilities: drivers.Capabilities{SendSignals: true, FSIsolation: drivers.FSIsolationNone},
		CheckConfig:  drivers.CheckWith(configSpec, decodeSettings),
		Isolates:     isolates,
	}
}
