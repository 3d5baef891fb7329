package qemu

import (
	"fmt"
	"strings"
	"syscall"

	"github.com/open-nomad/open-nomad/internal/hostuser"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// Kind returns the description of the driver.
func Kind() *drivers.Kind {
	return &drivers.Kind{
		Name: Name, ConfigSpec: configSpec, TaskSpec: taskSpec, KillSignal: syscall.SIGINT, SignalsMain: true, Daemon: true, Grouped: true,
		Capabilities: drivers.Capabilities{FSIsolation: drivers.FSIsolationNone, DynamicWorkloadUsers: true, OwnEnvironment: true, Devices: true,
			Networks: []string{drivers.NetworkHost, drivers.NetworkGroup}},
		CheckConfig: drivers.CheckWith(configSpec, decodeSettings),
		CheckTask: func(user string, _ map[string]any) error {
			if user == "root" || user == "0" {
				return fmt.Errorf("the emulator does not run as root: remove user, or name another one")
			}
			return nil
		},
		Isolates: isolates,
	}
}

// isolates is Kind.Isolates. An image outside the task's directories is a file of the node that the
// emulator can write. With kvm it has a device of the node.
func isolates(user string, config map[string]any) drivers.Isolation {
	i := drivers.Strictest()
	if user != "" && !hostuser.IsDynamic(user) {
		i.User = drivers.UserShared
	}
	image, _ := config["image_path"].(string)
	if strings.HasPrefix(image, "/") || strings.HasPrefix(image, "$") && !drivers.IsOwn(image) {
		i.Files = drivers.FilesGranted
	}
	if a, _ := config["accelerator"].(string); a != "" && a != "tcg" {
		i.Devices = false
	}
	return i
}
