package chroot

import (
	"fmt"
	"strings"

	"github.com/open-nomad/open-nomad/drivers/process"
)

// devices adds the device nodes of the task. In /dev they are beside those that every root has.
func (l *layout) devices() error {
	for _, d := range l.cfg.Devices {
		b, modes, err := process.DeviceBind(d)
		if err == nil && (!strings.Contains(modes, "r") || !strings.Contains(modes, "w")) {
			// No rule of the root restricts what the mode of the node allows.
			err = fmt.Errorf("permissions %q: the driver grants only reading and writing together: use rw", d.Permissions)
		}
		if err != nil {
			return fmt.Errorf("device %s at %s: %w", d.HostPath, d.TaskPath, err)
		}
		l.binds = append(l.binds, b)
	}
	return nil
}
