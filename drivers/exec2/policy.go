package exec2

import (
	"github.com/open-nomad/open-nomad/drivers/exec2/config"
	"github.com/open-nomad/open-nomad/drivers/process"
	"github.com/open-nomad/open-nomad/internal/hostuser"
	"github.com/open-nomad/open-nomad/internal/sandbox"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// notFound is the exit status of a task whose program does not exist or is not executable.
const notFound = 127

// policy returns the policy of the task without its system calls.
func policy(set config.Plugin, cfg *drivers.TaskConfig, t config.Task, acc hostuser.User) (*sandbox.Policy, error) {
	paths, err := grants(set, cfg, t)
	if err != nil {
		return nil, err
	}
	p, err := confinement(set, cfg, t, acc)
	if err != nil {
		return nil, err
	}
	if p.Dir, err = workDir(cfg, t, paths); err != nil {
		return nil, err
	}
	p.Argv, p.Env, p.MissingExit = append([]string{t.Command}, t.Args...), environment(cfg, acc).Apply(cfg.Env), notFound
	p.Files.Paths = paths
	return p, mount(p, cfg)
}

// confinement returns the part of the policy that also holds for programs of the client that work
// for the task.
func confinement(set config.Plugin, cfg *drivers.TaskConfig, t config.Task, acc hostuser.User) (*sandbox.Policy, error) {
	limits, err := rlimits(t)
	if err != nil {
		return nil, err
	}
	p := &sandbox.Policy{DirAs: sandbox.DirAsUser, OOMScoreAdj: max(t.OOMScoreAdj, 0),
		Files: &sandbox.Files{MinABI: requiredABI(set, t), TCP: t.Network}, Rlimits: limits}
	if err := separate(p, cfg); err != nil {
		return nil, err
	}
	if acc.Name == "" {
		return p, nil
	}
	p.User = &sandbox.User{UID: acc.UID, GID: acc.GID, Groups: acc.Groups}
	return p, reachable(cfg.TaskDir, acc)
}

// requiredABI returns the Landlock ABI that the node's operator and the task require.
func requiredABI(set config.Plugin, t config.Task) int { return max(set.RequireABI, t.RequireABI) }

// environment is the client's environment without variables that affect the loader or a desktop,
// and with those of the task's user.
func environment(cfg *drivers.TaskConfig, acc hostuser.User) process.Environment {
	e := process.Environment{
		Default: map[string]string{"PATH": "/usr/local/bin:/usr/bin:/bin"},
		Set:     map[string]string{"TMPDIR": process.TmpDir(cfg)},
		Without: []string{"LD_*", "LS_COLORS", "XAUTHORITY", "DISPLAY", "COLORTERM", "MAIL"},
	}
	if acc.Name != "" {
		e.Set["USER"], e.Set["HOME"] = acc.Name, acc.Home
	}
	return e
}
