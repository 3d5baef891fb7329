// Package config has the options of the driver docker: the schemas of its plugin block and of a task's config block,
// their decoded form, and the checks that need neither a daemon nor a node. The servers check a job with it before a node
// gets the job; the driver decodes both blocks with it.
//
//	plugin block ──DecodePlugin──▶ Plugin ─────┐ allows
//	config block ──DecodeTask────▶ Task ───────┴──▶ container (package docker)
//	config block of the job, with references ──▶ CheckTask, CheckPorts, Isolates, NeedsPrivilege
//
// Every option of a task has an answer to who may use it: in answers, a table that the page docker.md repeats. An option
// without one fails a test. The daemon accepts several spellings of a value. Task has one of them, which the driver passes
// on. What cannot be read, such as the value of a reference on the servers, counts as the worst case.
//
// The package reads no files and starts no goroutine.
package config

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
		Name: Name, Daemon: true, ConfigSpec: PluginSpec, TaskSpec: TaskSpec, KillSignal: syscall.SIGTERM, Capabilities: Capabilities(false),
		DevConfig:   map[string]any{drivers.LegacyOption: true},
		CheckConfig: CheckConfig, Isolates: Isolates, NeedsPrivilege: NeedsPrivilege,
		CheckTask:  func(user string, config map[string]any) error { return errors.Join(CheckTask(config), CheckUser(user)) },
		CheckPorts: CheckPorts, WarnTask: warnings,
	}
}

// warnings returns what a valid task has without effect.
func warnings(_ string, config map[string]any) []string {
	if config["cpuset_cpus"] == nil {
		return nil
	}
	return []string{"cpuset_cpus has no effect: the scheduler assigns cores: use cores in resources"}
}

// Capabilities returns what the driver can do.
func Capabilities(noLogs bool) drivers.Capabilities {
	return drivers.Capabilities{SendSignals: true, Exec: true, FSIsolation: drivers.FSIsolationImage, NoLogs: noLogs,
		Networks: []string{drivers.NetworkHost, drivers.NetworkGroup}, MustCreateNetwork: true, Mounts: true, Devices: true,
		Propagations: []string{drivers.PropagateToTask, drivers.PropagateBoth}, SELinux: true}
}
