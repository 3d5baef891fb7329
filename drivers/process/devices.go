package process

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/open-nomad/open-nomad/internal/safefs"
	"github.com/open-nomad/open-nomad/internal/sandbox"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// AddDevices grants the device nodes of a task, with ioctl, and nothing else. The policy restricts files. A
// node that the program would not see under its path is mounted there.
func AddDevices(p *sandbox.Policy, cfg *drivers.TaskConfig) error {
	for _, d := range cfg.Devices {
		if err := addDevice(p, cfg, d); err != nil {
			return fmt.Errorf("device %s at %s: %w", d.HostPath, d.TaskPath, err)
		}
	}
	return nil
}

func addDevice(p *sandbox.Policy, cfg *drivers.TaskConfig, d drivers.Device) error {
	b, modes, err := DeviceBind(d)
	if err != nil {
		return err
	}
	if b.Target == b.Source.Name && safefs.Within(b.Target, "/dev") {
		p.Files.Paths = append(p.Files.Paths, sandbox.Path{Modes: modes, Name: b.Target, Device: true})
		return nil
	}
	if p.Mounts == nil {
		return errors.New("this node's agent cannot create namespaces, so the device must be in /dev and have the same path in the task")
	}
	if err := place(&b, cfg); err != nil {
		return err
	}
	p.Mounts.Binds = append(p.Mounts.Binds, b)
	p.Files.Paths = append(p.Files.Paths, sandbox.Path{Modes: modes, Name: b.Target, Beneath: b.Beneath, Device: true})
	return nil
}

// DeviceBind returns the mount of a device node at its path in the task, and the modes of the grant. The
// sandbox opens the node once, follows no link, and refuses a file of another kind.
func DeviceBind(d drivers.Device) (b sandbox.Bind, modes string, err error) {
	modes = strings.ReplaceAll(d.Permissions, "m", "") // creating nodes needs a capability
	if modes == "" {
		return b, "", fmt.Errorf("permissions %q allow neither reading nor writing", d.Permissions)
	}
	return sandbox.Bind{Source: sandbox.Path{Name: filepath.Clean(d.HostPath)}, Target: filepath.Clean(d.TaskPath), Device: true}, modes, nil
}

// place sets where a device node is mounted. The mount point is created in the task's directories;
// elsewhere it must exist.
func place(b *sandbox.Bind, cfg *drivers.TaskConfig) error {
	target := b.Target
	switch {
	case safefs.Within(target, cfg.AllocDir) && safefs.Within(cfg.AllocDir, drivers.PrivateTmp):
		return errors.New("the allocation is below /tmp, where device nodes do not work")
	case safefs.Within(target, cfg.TaskDir) || safefs.Within(target, cfg.SharedDir):
	case safefs.Within(target, cfg.AllocDir):
		return errors.New("the path is in a directory of another task")
	case safefs.Within(target, drivers.PrivateTmp):
		return errors.New("device nodes do not work in the /tmp of a task")
	default:
		if _, err := os.Lstat(target); err != nil {
			return fmt.Errorf("the path must exist on this node: the driver has no /dev of its own: %w", err)
		}
		return nil
	}
	at, err := InAlloc(cfg, target)
	b.Target, b.Beneath = at.Name, at.Beneath
	return err
}
