package process

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/internal/cgroup"
	"github.com/open-nomad/open-nomad/internal/sandbox"
	"github.com/open-nomad/open-nomad/internal/supervise"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// Confinement is how the sidecars of a task are confined.
type Confinement struct {
	Policy *sandbox.Policy  // of SidecarPolicy, with a seccomp filter
	Group  *supervise.Group // the task's control group, with the limits before the task's start; nil: none
}

// SidecarGroup returns the control group for sidecars: that of the task. Before the task's start its
// memory limit is at least drivers.SidecarMemory, and there is no CPU limit.
func SidecarGroup(cfg *drivers.TaskConfig, memory, processes int64) *supervise.Group {
	l := cgroup.Limits{Cores: cfg.Limits.Cores, Processes: processes}
	if memory > 0 {
		l.MemoryMax = max(memory, drivers.SidecarMemory)
	}
	return &supervise.Group{Group: GroupName(cfg), Limits: l}
}

// joinTries limits the attempts to start a sidecar in the group of a task that is ending, whose
// supervisor removes it.
const joinTries = 5

// Confine runs a sidecar until it ends, as drivers.Confiner does.
func (g *Groups) Confine(ctx context.Context, c Confinement, s *drivers.Sidecar) (*drivers.ExitResult, error) {
	stdio, null, err := sidecarStdio(s)
	if err != nil {
		return nil, err
	}
	defer null.Close()
	cmd := sandbox.Command{Policy: c.Policy, Executable: s.Program, Stdio: stdio, KillRest: true}
	if c.Group == nil {
		ws, err := cmd.Run(ctx, nil)
		if err != nil {
			return nil, sidecarError(s, err)
		}
		return exitOf(ws), nil
	}
	for try := 1; ; try++ {
		exit, gone, err := g.confineIn(ctx, c.Group, cmd)
		if err != nil && gone && ctx.Err() == nil && try < joinTries {
			continue
		}
		if err != nil {
			return nil, sidecarError(s, err)
		}
		return exit, nil
	}
}

// confineIn runs a sidecar in a group. It reports whether the group no longer exists.
func (g *Groups) confineIn(ctx context.Context, group *supervise.Group, cmd sandbox.Command) (exit *drivers.ExitResult, gone bool, err error) {
	in, leave, err := g.join(ctx, group)
	if err != nil {
		return nil, isGone(err), err
	}
	defer func() { err = errors.Join(err, leave()) }()
	cmd.GroupDir, cmd.Join = in.Dir(), in.JoinFiles()
	kills := in.OOMKills()
	ws, err := cmd.Run(ctx, nil)
	if err != nil {
		return nil, isGone(inGroup(cmd)), err
	}
	exit = exitOf(ws)
	exit.OOMKilled = ctx.Err() == nil && ws != 0 && in.OOMKills() > kills
	return exit, false, nil
}

// inGroup returns an error if the group of a program does not exist in every tree.
func inGroup(cmd sandbox.Command) error {
	for _, file := range append([]string{cmd.GroupDir}, cmd.Join...) {
		if err := unix.Access(file, unix.F_OK); file != "" && err != nil {
			return err
		}
	}
	return nil
}

// isGone reports whether an error is that of a control group that was removed meanwhile.
func isGone(err error) bool { return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENODEV) }

func sidecarError(s *drivers.Sidecar, err error) error {
	return fmt.Errorf("run sidecar %s: %w", s.Args[0], startError(err))
}
