package docker

import (
	"errors"
	"syscall"

	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// Name is the name of the driver's kind.
const Name = "docker"

// Kind returns the description of the driver.
func Kind() *drivers.Kind {
	return &drivers.Kind{
		Name: Name, Daemon: true, ConfigSpec: configSpec, TaskSpec: taskSpec, KillSignal: syscall.SIGTERM, Capabilities: capabilities(false),
		DevConfig:   map[string]any{drivers.LegacyOption: true},
		CheckConfig: CheckConfig, Isolates: Isolates, NeedsPrivilege: NeedsPrivilege,
		CheckTask:  func(user string, config map[string]any) error { return errors.Join(CheckTask(config), checkUser(user)) },
		CheckPorts: CheckPorts,
	}
}

func capabilities(noLogs bool) drivers.Capabilities {
	return drivers.Capabilities{SendSignals: true, Exec: true, FSIsolation: drivers.FSIsolationImage, NoLogs: noLogs,
		Networks: []string{drivers.NetworkHost, drivers.NetworkGroup}, MustCreateNetwork: true, Mounts: true, Devices: true,
		Propagations: []string{drivers.PropagateToTask, drivers.PropagateBoth}, SELinux: true}
}
