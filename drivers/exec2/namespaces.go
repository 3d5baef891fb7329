package exec2

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/open-nomad/open-nomad/drivers/process"
	"github.com/open-nomad/open-nomad/internal/safefs"
	"github.com/open-nomad/open-nomad/internal/sandbox"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// privateProc is the task's own in its mount namespace, as drivers.PrivateTmp is.
const privateProc = "/proc"

// mount adds the task's volumes to its mount namespace, before the client's files, which are there
// already. It adds all binds to the policy's paths.
func mount(p *sandbox.Policy, cfg *drivers.TaskConfig) error {
	if p.Mounts == nil {
		return nil
	}
	files := p.Mounts.Binds
	p.Mounts.Binds = nil
	if os.Geteuid() != 0 && cfg.LogDir != "" { // the files belong to the task's user, who could change them
		logs, err := process.InAlloc(cfg, cfg.LogDir)
		if err != nil {
			return err
		}
		show(p, sandbox.Bind{Source: logs, Target: logs.Name, Beneath: logs.Beneath, ReadOnly: true}, "r")
	}
	for _, m := range cfg.Mounts {
		b, err := volume(cfg, m)
		if err != nil {
			return fmt.Errorf("volume at destination %q: %w", m.TaskPath, err)
		}
		modes := "rwxc"
		if m.ReadOnly {
			modes = "rx"
		}
		show(p, b, modes)
	}
	for _, b := range files {
		show(p, b, "r")
	}
	return nil
}

// show adds a bind, with rights at its target.
func show(p *sandbox.Policy, b sandbox.Bind, modes string) {
	p.Mounts.Binds = append(p.Mounts.Binds, b)
	p.Files.Paths = append(p.Files.Paths, sandbox.Path{Modes: modes, Name: b.Target, Beneath: b.Beneath})
}

// volume returns the bind of a volume. Its mount point is created if it is in a directory that the
// task can write; elsewhere it must exist.
func volume(cfg *drivers.TaskConfig, m drivers.Mount) (sandbox.Bind, error) {
	b := sandbox.Bind{Source: sandbox.Path{Name: filepath.Clean(m.HostPath)}, Target: filepath.Clean(m.TaskPath), ReadOnly: m.ReadOnly}
	switch {
	case m.Propagation != "":
		return b, fmt.Errorf("the driver can't mount with propagation_mode = %q: use private", m.Propagation)
	case m.SELinuxLabel != "":
		return b, fmt.Errorf("the driver can't set selinux_label = %q: remove it", m.SELinuxLabel)
	case !filepath.IsAbs(b.Target) || b.Target == "/":
		return b, errors.New("the destination must be an absolute path below the root")
	case safefs.Within(b.Target, privateProc):
		return b, errors.New("the task has its own /proc")
	case safefs.Within(b.Target, cfg.TaskDir) || safefs.Within(b.Target, cfg.SharedDir):
		return beneath(b, cfg, b.Target)
	case safefs.Within(b.Target, cfg.AllocDir):
		return b, errors.New("the destination is in a directory of another task")
	case safefs.Within(b.Target, drivers.PrivateTmp): // seen in the task's own /tmp
		return beneath(b, cfg, filepath.Join(process.TmpDir(cfg), strings.TrimPrefix(b.Target, drivers.PrivateTmp)))
	}
	_, err := os.Lstat(b.Target)
	if errors.Is(err, fs.ErrNotExist) {
		return b, errors.New("the destination does not exist on this node, and is not in the task's directory, where it would be created")
	}
	return b, err
}

func beneath(b sandbox.Bind, cfg *drivers.TaskConfig, target string) (sandbox.Bind, error) {
	at, err := process.InAlloc(cfg, target)
	b.Target, b.Beneath = at.Name, at.Beneath
	return b, err
}

// separate gives the task its namespaces. On a node without them, which the operator has allowed,
// it refuses what needs them.
func separate(p *sandbox.Policy, cfg *drivers.TaskConfig) error {
	if process.OwnNamespaces() != nil {
		return unshared(cfg)
	}
	return process.Isolate(p, cfg)
}

// unshared refuses what needs namespaces, on a node whose agent cannot create them.
func unshared(cfg *drivers.TaskConfig) error {
	for _, what := range []struct {
		asked bool
		name  string
	}{{cfg.NetNS != "" || cfg.Hostname != "", "its own network"}, {len(cfg.Mounts) > 0, "volumes"},
		{len(cfg.Files) > 0, "files mounted over those of the host, such as for a dns block"}} {
		if what.asked {
			return fmt.Errorf("the task needs %s, which needs namespaces, and this node's agent cannot create any: %w", what.name,
				process.OwnNamespaces())
		}
	}
	return nil
}

// networks returns the network modes that the driver supports.
func networks() []string {
	if os.Geteuid() != 0 || process.OwnNamespaces() != nil {
		return nil
	}
	return []string{"host", "group"}
}
