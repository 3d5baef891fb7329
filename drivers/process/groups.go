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

// Groups counts the users of the control groups of tasks: sidecars, and starts of the task. The first
// sidecar creates the group of a task that does not run, and the last one removes it. The group of a
// running task belongs to the supervisor. The zero value has no users.
type Groups struct {
	mu    sync.Mutex
	users map[proc.Group]*groupUsers
}

// groupUsers are the users of one group.
type groupUsers struct {
	count int           // guarded by Groups.mu
	turn  chan struct{} // has a value while a user creates, starts or removes
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

// leave removes a user that does not have its turn. The last one removes the group, unless it has
// processes.
func (g *Groups) leave(name proc.Group, u *groupUsers) error {
	g.mu.Lock()
	last := u.count == 1
	if last {
		u.turn <- struct{}{} // free, since only users take it
	} else {
		u.count--
	}
	g.mu.Unlock()
	if !last {
		return nil
	}
	err := removeEmpty(name)
	g.mu.Lock()
	defer g.mu.Unlock()
	<-u.turn
	if u.count--; u.count == 0 {
		delete(g.users, name)
	}
	return err
}

// Start calls start, which has the supervisor start a task in the group. Meanwhile no sidecar
// creates or removes the group.
func (g *Groups) Start(ctx context.Context, group *supervise.Group, start func() error) error {
	if group == nil {
		return start()
	}
	u, err := g.enter(ctx, group.Group)
	if err != nil {
		return err
	}
	err = start()
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
	c, err = openOrCreate(group)
	<-u.turn
	leave = func() error { return g.leave(group.Group, u) }
	if err != nil {
		return nil, nil, errors.Join(err, leave())
	}
	return c, leave, nil
}

func openOrCreate(group *supervise.Group) (*cgroup.Group, error) {
	h, err := cgroup.Detect()
	if err != nil {
		return nil, err
	}
	c, err := h.Open(group.Parent, group.Name)
	if err != nil {
		return nil, err
	}
	if pids, err := c.Pids(); err != nil || len(pids) > 0 {
		return c, err
	}
	return h.Create(group.Parent, group.Name, group.Limits)
}

// removeEmpty removes a group without processes. Processes that have ended stay in it for a moment.
func removeEmpty(name proc.Group) error {
	h, err := cgroup.Detect()
	if err != nil {
		return err
	}
	c, err := h.Open(name.Parent, name.Name)
	if err != nil {
		return err
	}
	for deadline := time.Now().Add(removePatience); ; time.Sleep(time.Millisecond) {
		if pids, err := c.Pids(); err != nil || len(pids) > 0 {
			return err
		}
		if err := c.Remove(); !errors.Is(err, unix.EBUSY) || time.Now().After(deadline) {
			return err
		}
	}
}
