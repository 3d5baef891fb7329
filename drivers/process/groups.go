package process

import (
	"context"
	"errors"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/internal/cgroup"
	"github.com/open-nomad/open-nomad/internal/supervise"
	"github.com/open-nomad/open-nomad/internal/supervise/proc"
)

// Groups counts the users of the control groups of tasks: sidecars, and starts of the task. The zero
// value has none.
//
//	(none) ──first sidecar creates it──▶ ours ──start──▶ the supervisor's ──task ends──▶ (none)
//	   ▲────────last sidecar removes it────┘
//
// The supervisor removes the group of a task at its end, with the sidecars in it. A sidecar that finds
// a task's processes in the group uses it as it is.
type Groups struct {
	mu    sync.Mutex
	uses  map[proc.Group]*groupUse
	kills map[proc.Group]uint64 // sidecars of a running task that the OOM killer killed
}

// groupUse is the use of one group. Groups.mu guards its fields. Only the busy user changes ours.
type groupUse struct {
	users int
	ours  bool          // a sidecar created the group, and no task was started in it
	busy  chan struct{} // closed when the busy user, which creates, starts in or removes the group, is ready; nil: there is none
}

// removePatience is the time limit for removing a group whose processes have just ended.
const removePatience = 5 * time.Second

// enter adds a user that makes the group busy, as soon as no other one does. The user calls ready, and later leave.
func (g *Groups) enter(ctx context.Context, name proc.Group) (*groupUse, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	u := g.uses[name]
	if u == nil {
		u = &groupUse{}
		if g.uses == nil {
			g.uses = map[proc.Group]*groupUse{}
		}
		g.uses[name] = u
	}
	u.users++
	for u.busy != nil {
		busy := u.busy
		g.mu.Unlock()
		select {
		case <-busy:
		case <-ctx.Done():
		}
		g.mu.Lock()
		if ctx.Err() != nil && u.busy != nil {
			g.remove(name, u) // the busy user remains
			return nil, context.Cause(ctx)
		}
	}
	u.busy = make(chan struct{})
	return u, nil
}

// ready ends the busy time of a user, and sets whether the group is ours.
func (g *Groups) ready(u *groupUse, ours bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	u.ours = ours
	close(u.busy)
	u.busy = nil
}

// remove removes a user. The caller holds g.mu.
func (g *Groups) remove(name proc.Group, u *groupUse) {
	if u.users--; u.users == 0 {
		delete(g.uses, name)
	}
}

// leave removes a user that is ready. The last one removes the group if it is ours.
func (g *Groups) leave(name proc.Group, u *groupUse) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	defer g.remove(name, u)
	if u.users > 1 || !u.ours {
		return nil
	}
	u.busy = make(chan struct{}) // later users wait
	g.mu.Unlock()
	err := removeEmpty(name)
	g.ready(u, true)
	g.mu.Lock()
	return err
}

// start calls run, which has the supervisor start a task in the group, or without one if group is nil.
// Meanwhile no sidecar creates or removes the group.
func (g *Groups) start(ctx context.Context, group *proc.GroupSpec, run func() error) error {
	if group == nil {
		return run()
	}
	u, err := g.enter(ctx, group.Group)
	if err != nil {
		return err
	}
	g.forget(group.Group)
	err = run()
	mayRun := err == nil || errors.Is(err, supervise.ErrLost) || ctx.Err() != nil
	g.ready(u, u.ours && !mayRun)
	return errors.Join(err, g.leave(group.Group, u))
}

// join returns the group for a sidecar: that of the running task or of other sidecars as it is, else
// a new one with the limits. The caller calls leave when the sidecar has ended.
func (g *Groups) join(ctx context.Context, group *proc.GroupSpec) (c *cgroup.Group, leave func() error, err error) {
	u, err := g.enter(ctx, group.Group)
	if err != nil {
		return nil, nil, err
	}
	c, created, err := openOrCreate(group)
	g.ready(u, u.ours || created)
	leave = func() error { return g.leave(group.Group, u) }
	if err != nil {
		return nil, nil, errors.Join(err, leave())
	}
	return c, leave, nil
}

func openOrCreate(group *proc.GroupSpec) (c *cgroup.Group, created bool, err error) {
	h, err := cgroup.Detect()
	if err != nil {
		return nil, false, err
	}
	if c, err = h.Open(group.Parent, group.Name); err != nil {
		return nil, false, err
	}
	if pids, err := c.Pids(); err != nil || len(pids) > 0 {
		return c, false, err
	}
	c, err = h.Create(group.Parent, group.Name, group.Limits)
	return c, true, err
}

// removeEmpty removes a group without processes.
func removeEmpty(name proc.Group) error {
	h, err := cgroup.Detect()
	if err != nil {
		return err
	}
	c, err := h.Open(name.Parent, name.Name)
	if err != nil {
		return err
	}
	return removeSoon(c)
}

// removeSoon removes a group, unless it has processes. Processes that have ended stay in it for a
// moment.
func removeSoon(c *cgroup.Group) error {
	for deadline := time.Now().Add(removePatience); ; time.Sleep(time.Millisecond) {
		if pids, err := c.Pids(); err != nil || len(pids) > 0 {
			return err
		}
		if err := c.Remove(); !errors.Is(err, unix.EBUSY) || time.Now().After(deadline) {
			return err
		}
	}
}

// killed records that the OOM killer killed a sidecar in the group of a running task.
func (g *Groups) killed(name proc.Group) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.kills == nil {
		g.kills = map[proc.Group]uint64{}
	}
	g.kills[name]++
}

// killedSidecars returns the number of records.
func (g *Groups) killedSidecars(name proc.Group) uint64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.kills[name]
}

// forget removes the records.
func (g *Groups) forget(name proc.Group) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.kills, name)
}
