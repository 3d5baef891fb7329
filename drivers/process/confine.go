package process

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/internal/cgroup"
	"github.com/open-nomad/open-nomad/internal/sandbox"
	"github.com/open-nomad/open-nomad/internal/supervise/proc"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// Confinement is how the sidecars of a task are confined.
type Confinement struct {
	Policy *sandbox.Policy // of SidecarPolicy, with a seccomp filter
	Group  *proc.GroupSpec // the task's control group, with the limits before the task's start; nil: none
}

// SidecarGroup returns the control group for sidecars: that of the task. Before the task's start its
// memory limit is at least drivers.SidecarMemory, or none if the task has none, and there is no CPU limit.
func SidecarGroup(cfg *drivers.TaskConfig, processes int64) *proc.GroupSpec {
	l := cgroup.Limits{Cores: cfg.Limits.Cores, Processes: processes, MemoryMax: cfg.Limits.SidecarLimit()}
	return &proc.GroupSpec{Group: GroupName(cfg), Limits: l}
}

// joinTries limits the attempts to start a sidecar in the group of a task that is ending, whose
// supervisor removes it.
const joinTries = 5

// Confine runs a sidecar of a task until it ends, as drivers.Confiner does.
func (ts *Tasks) Confine(ctx context.Context, c Confinement, s *drivers.Sidecar) (*drivers.ExitResult, error) {
	exit, err := ts.groups.Confine(ctx, c, s)
	// The end of a task kills the sidecars in its group. While the task runs, only the OOM killer does.
	if err == nil && exit.OOMKilled && exit.Signal == int(unix.SIGKILL) && ts.runsIn(ctx, c.Group.Group) {
		ts.groups.killed(c.Group.Group)
	}
	return exit, err
}

// runsIn reports whether the program of a task runs in a group.
func (ts *Tasks) runsIn(ctx context.Context, group proc.Group) bool {
	ts.mu.Lock()
	var ids []string
	for id, s := range ts.byID {
		if s.group == group {
			ids = append(ids, id)
		}
	}
	ts.mu.Unlock()
	return slices.ContainsFunc(ids, func(id string) bool {
		t, err := ts.running(ctx, id)
		if err != nil {
			return false
		}
		st, err := proc.ReadStat(t.PID)
		return err == nil && st.State != "Z"
	})
}

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

// confineIn runs a sidecar in a group. It reports whether the sidecar did not start because the group
// no longer exists.
func (g *Groups) confineIn(ctx context.Context, group *proc.GroupSpec,
	cmd sandbox.Command) (exit *drivers.ExitResult, gone bool, err error) {
	in, leave, err := g.join(ctx, group)
	if err != nil {
		return nil, isGone(err), err
	}
	// A group that cannot be removed does not change the result of a sidecar that ran.
	defer func() {
		if lerr := leave(); err != nil {
			err = errors.Join(err, lerr)
		}
	}()
	cmd.GroupDir, cmd.Join = in.Dir(), in.JoinFiles()
	if !cmd.Policy.PrivatePID && in.Dir() != "" {
		if cmd.Group, err = in.Sub(fmt.Sprintf("sidecar-%d", lastSub.Add(1))); err != nil {
			return nil, isGone(err), err
		}
		defer removeSoon(cmd.Group) //nolint:errcheck // below the group that leave, or the supervisor, removes
		cmd.GroupDir = cmd.Group.Dir()
	}
	kills := in.OOMKills()
	started := false
	ws, err := cmd.Run(ctx, func() { started = true })
	if err != nil {
		return nil, !started && (isGone(err) || isGone(inGroup(cmd))), err
	}
	exit = exitOf(ws)
	exit.OOMKilled = ctx.Err() == nil && ws != 0 && in.OOMKills() > kills
	return exit, false, nil
}

// lastSub numbers the groups of sidecars without a PID namespace.
var lastSub atomic.Uint64

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
