package mock

import (
	"fmt"
	"strings"

	"github.com/open-nomad/open-nomad/plugins/drivers"
)

var _ drivers.Isolator = (*Driver)(nil)

// Isolates implements drivers.Isolator. Nothing isolates mock tasks: the levels of the instance and
// of the task are those of their isolation options, the lower of both.
func (d *Driver) Isolates(_ string, config map[string]any) (drivers.Isolation, error) {
	d.mu.Lock()
	l := d.settings.level
	d.mu.Unlock()
	task, err := taskLevel(config)
	return pretend(min(l, task)), err
}

// isolates is Isolates for an instance of the highest level. A level that is a reference is known on
// the node.
func isolates(_ string, config map[string]any) drivers.Isolation {
	if name, _ := config["isolation"].(string); strings.Contains(name, "${") {
		return drivers.Strictest()
	}
	l, err := taskLevel(config)
	if err != nil {
		l = drivers.LevelNone
	}
	return pretend(l)
}

// taskLevel returns the level that a task's config block declares.
func taskLevel(config map[string]any) (drivers.Level, error) {
	name, given := config["isolation"].(string)
	if !given {
		return drivers.LevelStrict, nil
	}
	l, err := drivers.ParseLevel(name)
	if err != nil {
		return l, fmt.Errorf("isolation: %w", err)
	}
	return l, nil
}

// pretend returns an isolation of exactly this level.
func pretend(l drivers.Level) drivers.Isolation {
	i := drivers.Strictest()
	if l < drivers.LevelStrict {
		i.User, i.Files = drivers.UserShared, drivers.FilesGranted
	}
	if l < drivers.LevelRestricted {
		i.User, i.Capabilities, i.NoPrivileges = drivers.UserRoot, drivers.CapabilitiesDefault, false
	}
	if l < drivers.LevelBaseline {
		i.PID, i.IPC, i.Mounts, i.Files = false, false, false, drivers.FilesNode
	}
	if l < drivers.LevelHost {
		i = drivers.Isolation{}
	}
	return i
}
