package process

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/open-nomad/open-nomad/internal/cgroup"
	"github.com/open-nomad/open-nomad/internal/hostuser"
	"github.com/open-nomad/open-nomad/internal/safefs"
	"github.com/open-nomad/open-nomad/internal/sandbox"
	"github.com/open-nomad/open-nomad/internal/sandbox/seccomp"
	"github.com/open-nomad/open-nomad/internal/supervise/proc"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// Confiner confines the sidecars of tasks whose driver has no sandbox. A sidecar runs as the task's
// user without capabilities. It has its own namespaces, in which it sees of the allocations only the
// task's. Landlock restricts it to its paths. It cannot make the system calls that the default
// profile refuses. It is in the task's control group.
type Confiner struct {
	Sidecars  Sidecars
	AgentDirs []string // directories of the agent, which sidecars do not see
}

// Sidecars runs sidecars with a given confinement: the Groups of the client, or the Tasks of a driver.
type Sidecars interface {
	Confine(ctx context.Context, c Confinement, s *drivers.Sidecar) (*drivers.ExitResult, error)
}

var (
	_ drivers.Confiner = (*Confiner)(nil)
	_ Sidecars         = (*Groups)(nil)
	_ Sidecars         = (*Tasks)(nil)
)

// sidecarProcesses limits the processes of a sidecar before its task starts.
const sidecarProcesses = 256

// Confine implements drivers.Confiner.
func (c *Confiner) Confine(ctx context.Context, cfg *drivers.TaskConfig, s *drivers.Sidecar) (*drivers.ExitResult, error) {
	base := &sandbox.Policy{}
	if err := becomeTaskUser(base, cfg); err != nil {
		return nil, err
	}
	if err := OwnNamespaces(); err == nil {
		if err := Isolate(base, cfg); err != nil {
			return nil, err
		}
		if err := viewTask(base, cfg, s); err != nil {
			return nil, err
		}
		if err := HideAgent(base.Mounts, c.AgentDirs); err != nil {
			return nil, err
		}
	} else if os.Geteuid() == 0 || cfg.NetNS != "" || len(cfg.Files) > 0 {
		return nil, fmt.Errorf("confine a sidecar: this agent cannot create namespaces: %w", err)
	}
	p, err := SidecarPolicy(base, cfg, s)
	if err != nil {
		return nil, err
	}
	profile, err := seccomp.Standard()
	if err != nil {
		return nil, err
	}
	if err := SetFilter(p, profile); err != nil {
		return nil, err
	}
	group, err := fallbackGroup(cfg)
	if err != nil {
		return nil, err
	}
	return c.Sidecars.Confine(ctx, Confinement{Policy: p, Group: group}, s)
}

// viewTask makes the sidecar see of its allocation only the task's directory, and what it is granted. These are mounts of
// their own, so that the task's user need not be able to pass through the directory of the allocation.
func viewTask(p *sandbox.Policy, cfg *drivers.TaskConfig, s *drivers.Sidecar) error {
	if os.Geteuid() != 0 {
		return nil
	}
	p.Mounts.View.Own = filepath.Join(filepath.Base(cfg.AllocDir), filepath.Base(cfg.TaskDir))
	if !s.Unconfined { // it has no list of paths
		return nil
	}
	shared, err := InAlloc(cfg, cfg.SharedDir)
	if err != nil {
		return err
	}
	p.Mounts.Binds = append(p.Mounts.Binds, sandbox.Bind{Source: shared, Target: shared.Name, Beneath: shared.Beneath})
	return nil
}

// becomeTaskUser makes the program run as the task's user. Without one it keeps the agent's, but none
// of root's supplementary groups. An agent without root has its own user only.
func becomeTaskUser(p *sandbox.Policy, cfg *drivers.TaskConfig) error {
	root := os.Geteuid() == 0
	if cfg.User == "" {
		if root {
			p.User = &sandbox.User{}
		}
		return nil
	}
	acc, err := hostuser.Lookup(cfg.User)
	if err != nil {
		return err
	}
	if root {
		p.User = &sandbox.User{UID: acc.UID, GID: acc.GID, Groups: acc.Groups}
		return nil
	}
	if int(acc.UID) != os.Geteuid() && !hostuser.IsDynamic(cfg.User) {
		return fmt.Errorf("running as user %s needs an agent that runs as root", acc.Name)
	}
	return nil
}

// SetFilter adds the seccomp filter of a profile to a policy that is otherwise complete.
func SetFilter(p *sandbox.Policy, profile *seccomp.Profile) (err error) {
	p.Seccomp = profile.Name
	p.Filter, err = profile.Filter(seccomp.Gaps{IPC: !p.PrivateIPC, Processes: !p.PrivatePID, Ports: p.Files != nil && p.Files.TCP != nil})
	return err
}

// Existing returns the paths, without links, of those directories that exist. It omits directories
// below others of them, which are hidden with those.
func Existing(dirs []string) ([]string, error) {
	all, err := existing(dirs)
	return outermost(all), err
}

func existing(dirs []string) ([]string, error) {
	var out []string
	for _, dir := range dirs {
		real, err := filepath.EvalSymlinks(dir)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("hide the directory of the agent: %w", err)
		}
		out = append(out, real)
	}
	return out, nil
}

// volumesDir is the directory of the CSI volumes below the state directory of a client. It is a mount of its own.
const volumesDir = "csi"

// HideAgent hides the directories of the agent, and unmounts the volumes of other tasks that are below them: the namespace of the
// program would keep them in use after their tasks have ended.
func HideAgent(m *sandbox.Mounts, dirs []string) error {
	all, err := existing(dirs)
	if err != nil {
		return err
	}
	m.Hide = slices.Concat(m.Hide, outermost(all))
	for _, dir := range all {
		m.Unmount = append(m.Unmount, filepath.Join(dir, volumesDir))
	}
	return nil
}

// outermost omits directories that are below others of them.
func outermost(dirs []string) []string {
	var out []string
	for i, dir := range dirs {
		inside := func(d string) bool { return d != dir && safefs.Within(dir, d) }
		if !slices.ContainsFunc(dirs, inside) && !slices.Contains(dirs[:i], dir) {
			out = append(out, dir)
		}
	}
	return out
}

// fallbackGroup returns the control group of sidecars whose driver does not choose one, nil if this
// agent cannot use groups. The memory limit is that of the task.
func fallbackGroup(cfg *drivers.TaskConfig) (*proc.GroupSpec, error) {
	h, err := cgroup.Detect()
	if err == nil {
		err = h.Usable()
	}
	if errors.Is(err, cgroup.ErrUnavailable) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return SidecarGroup(cfg, sidecarProcesses), nil
}
