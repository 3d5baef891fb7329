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
//	(none) ──first sidecar creates it──▶ ours ──Start──▶ the supervisor's ──task ends──▶ (none)
//	   ▲────────last sidecar removes it────┘
//
// The supervisor removes the group of a task at its end, with the sidecars in it. A sidecar that finds
// a task's processes in the group uses it as it is.
type Groups struct {
	mu    sync.Mutex
	users map[proc.Group]*groupUsers
	kills map[proc.Group]uint64 // sidecars of a running task that the OOM killer killed
}

// groupUsers are the users of one group.
type groupUsers struct {
	count int           // guarded by Groups.mu
	turn  chan struct{} // has a value while a user creates, starts or removes
	ours  bool          // a sidecar created the group, and no task was started in it; for the user with the turn
}

// removePatience is the time limit for removing a group whose processes have just ended.
const removePatience = 5 * time.Second

// enter adds a user and waits for its turn.
func (g *Groups) enter(ctx context.Context, name proc.Group) (*groupUsers, error) {
	g.mu.Lock()
	u := g.users[name]
	if u == nil {
		u = &groupUsers{turn: make(chan struct{}, 1)}
		if g.users == nil {
			g.users = map[proc.Group]*groupUsers{}
		}
		g.users[name] = u
	}
	u.count++
	g.mu.Unlock()
	select {
	case u.turn <- struct{}{}:
		return u, nil
	case <-ctx.Done():
		return nil, errors.Join(context.Cause(ctx), g.leave(name, u))
	}
}

// leave removes a user that does not have the turn. The last one removes the group if it is ours.
func (g *Groups) leave(name proc.Group, u *groupUsers) error {
	if !g.isLast(name, u) {
		return nil
	}
	var err error
	if u.ours {
		err = removeEmpty(name)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	<-u.turn
	if u.count--; u.count == 0 {
		delete(g.users, name)
	}
	return err
}

// isLast removes a user if there are others. Otherwise it takes the turn, which no other user has.
func (g *Groups) isLast(name proc.Group, u *groupUsers) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if u.count > 1 {
		u.count--
		return false
	}
	u.turn <- struct{}{}
	return true
}

// Start calls start, which has the supervisor start a task in the group, or without one if group is
// nil. Meanwhile no sidecar creates or removes the group.
func (g *Groups) Start(ctx context.Context, group *supervise.Group, start func() error) error {
	if group == nil {
		return start()
	}
	u, err := g.enter(ctx, group.Group)
	if err != nil {
		return err
	}
	g.forget(group.Group)
	err = start()
	if err == nil || errors.Is(err, supervise.ErrLost) || ctx.Err() != nil {
		u.ours = false // the task may run
	}
	<-u.turn
	return errors.Join(err, g.leave(group.Group, u))
}

// join returns the group for a sidecar: that of the running task or of other sidecars as it is, else
// a new one with the limits. The caller calls leave when the sidecar has ended.
func (g *Groups) join(ctx context.Context, group *supervise.Group) (c *cgroup.Group, leave func() error, err error) {
	u, err := g.enter(ctx, group.Group)
	if err != nil {
		return nil, nil, err
	}
	c, created, err := openOrCreate(group)
	u.ours = u.ours || created
	<-u.turn
	leave = func() error { return g.leave(group.Group, u) }
	if err != nil {
		return nil, nil, errors.Join(err, leave())
	}
	return c, leave, nil
}

func openOrCreate(group *supervise.Group) (c *cgroup.Group, created bool, err error) {
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
