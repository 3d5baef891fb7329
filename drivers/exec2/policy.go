package exec2

import (
	"github.com/open-nomad/open-nomad/drivers/process"
	"github.com/open-nomad/open-nomad/internal/sandbox"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// notFound is the exit status of a task whose program does not exist or is not executable.
const notFound = 127

// policy returns the policy of the task. The directories in own are hidden from it.
func (s *setup) policy(agentDirs []string) (*sandbox.Policy, error) {
	paths, err := s.grants()
	if err != nil {
		return nil, err
	}
	p, err := s.confinement()
	if err != nil {
		return nil, err
	}
	if p.Dir, err = s.workDir(paths); err != nil {
		return nil, err
	}
	p.Argv, p.Env, p.MissingExit = append([]string{s.task.Command}, s.task.Args...), s.environment().Apply(s.cfg.Env), notFound
	p.Files.Paths = paths
	if err := mount(p, s.cfg); err != nil {
		return nil, err
	}
	if err := process.AddDevices(p, s.cfg); err != nil {
		return nil, err
	}
	if err := hide(p, agentDirs, s.cfg.AllocDir); err != nil {
		return nil, err
	}
	if p.OwnUsers {
		p.KeepLinks()
	}
	return p, s.filter(p)
}

// sidecarPolicy returns the policy of a sidecar of the task. The directories in own are hidden from it.
func (s *setup) sidecarPolicy(agentDirs []string, sidecar *drivers.Sidecar) (*sandbox.Policy, error) {
	base, err := s.confinement()
	if err != nil {
		return nil, err
	}
	if base.Mounts != nil {
		if err := process.HideAgent(base.Mounts, agentDirs); err != nil {
			return nil, err
		}
	}
	p, err := process.SidecarPolicy(base, s.cfg, sidecar)
	if err != nil {
		return nil, err
	}
	return p, s.filter(p)
}

// confinement returns the part of the policy that also holds for sidecars of the task.
func (s *setup) confinement() (*sandbox.Policy, error) {
	limits, err := rlimits(s.task)
	if err != nil {
		return nil, err
	}
	p := &sandbox.Policy{DirAs: sandbox.DirAsUser, OOMScoreAdj: max(s.task.OOMScoreAdj, 0), Rlimits: limits,
		Files: &sandbox.Files{MinABI: max(s.set.RequireABI, s.task.RequireABI), TCP: s.task.Network}}
	if err := separate(p, s.cfg); err != nil {
		return nil, err
	}
	if s.account.Name == "" {
		return p, nil
	}
	p.User = &sandbox.User{UID: s.account.UID, GID: s.account.GID, Groups: s.account.Groups}
	return p, reachable(s.cfg.TaskDir, s.account)
}

// environment is the client's environment without variables that affect the loader or a desktop,
// and with those of the task's user.
func (s *setup) environment() process.Environment {
	e := process.Environment{
		Default: map[string]string{"PATH": "/usr/local/bin:/usr/bin:/bin"},
		Set:     map[string]string{"TMPDIR": process.TmpDir(s.cfg)},
		Without: []string{"LD_*", "LS_COLORS", "XAUTHORITY", "DISPLAY", "COLORTERM", "MAIL"},
	}
	if s.account.Name != "" {
		e.Set["USER"], e.Set["HOME"] = s.account.Name, s.account.Home
	}
	return e
}
