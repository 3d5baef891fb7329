package allochook

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"

	"github.com/open-nomad/open-nomad/client/allocdir"
	"github.com/open-nomad/open-nomad/client/migrate"
	"github.com/open-nomad/open-nomad/internal/safefs"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/message"
)

// Users are the uids of tasks without a user (driverset.Users).
type Users interface {
	Contains(uid int) bool
}

// diskHook moves the data of the previous allocation into the allocation's directory. If that
// fails, the tasks get an event and start with empty directories.
type diskHook struct {
	root     string
	peers    Peers
	start    Start
	users    Users
	drivers  Drivers
	previous *previousHook
	log      *slog.Logger
}

func newDiskHook(c Config, previous *previousHook) *diskHook {
	return &diskHook{root: c.AllocDir, peers: c.Peers, start: c.Start, users: c.Users, drivers: c.Drivers, previous: previous, log: c.Log}
}

func (*diskHook) Name() string { return "migrate_disk" }

func (h *diskHook) Prerun(ctx context.Context, req *PrerunRequest, _ *PrerunResponse) error {
	defer h.previous.release()
	disk := diskOf(req.Alloc)
	if disk == nil || req.Alloc.PreviousAllocation == "" || h.peers == nil || h.start.Started() {
		return nil
	}
	select {
	case <-h.start.Stopped():
		return nil // the data stays for the next allocation
	default:
	}
	ctx, cancel := untilStopped(ctx, h.start)
	defer cancel()
	var err error
	switch {
	case h.previous.here && (disk.Sticky || disk.Migrate):
		err = h.move(req.Alloc)
	case h.previous.remote != nil && disk.Migrate:
		err = h.fetch(ctx, req.Alloc)
	default:
		return nil
	}
	switch {
	case context.Cause(ctx) == errStopped:
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		h.log.Warn("move the data of the previous allocation", "alloc", req.Alloc.ID, "previous", req.Alloc.PreviousAllocation, "err", err)
		h.start.Note(fmt.Sprintf("Data of allocation %s was not moved, the task starts without it: %v", req.Alloc.PreviousAllocation, err))
		return nil
	}
	h.log.Info("moved the data of the previous allocation", "alloc", req.Alloc.ID, "previous", req.Alloc.PreviousAllocation)
	return nil
}

// target opens the directory of the allocation.
func (h *diskHook) target(a *nomad.Allocation) (t migrate.Target, err error) {
	group := a.Job.TaskGroup(a.TaskGroup)
	for _, task := range group.Tasks {
		t.Tasks = append(t.Tasks, task.Name)
	}
	o := owners{group: group, users: h.users, start: h.start, drivers: h.drivers}
	t.Owner = o.of
	t.Dir, err = h.open(a.ID)
	return t, err
}

// open opens the directory of an allocation of this node.
func (h *diskHook) open(id string) (*safefs.Dir, error) {
	root, err := safefs.Open(h.root)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	return root.Sub(id)
}

// move renames the data of an allocation of this node.
func (h *diskHook) move(a *nomad.Allocation) error {
	old, err := h.open(a.PreviousAllocation)
	if err != nil {
		return err
	}
	defer old.Close()
	t, err := h.target(a)
	if err != nil {
		return err
	}
	defer t.Dir.Close()
	return t.Move(old, func(uid int) string { return h.peers.TaskOf(a.PreviousAllocation, uid) })
}

// fetch gets the data of an allocation of another node.
func (h *diskHook) fetch(ctx context.Context, a *nomad.Allocation) error {
	remote, err := h.find(ctx, a)
	if err != nil {
		return err
	}
	t, err := h.target(a)
	if err != nil {
		return err
	}
	defer t.Dir.Close()
	limits := migrate.For(diskOf(a).SizeMB)
	stream := remote.Stream(ctx, limits)
	return errors.Join(t.Receive(stream, limits), stream.Close())
}

// findTries is the number of attempts to find the snapshot, which take a minute together.
const findTries = 7

// find returns the snapshot of the previous allocation. Servers that do not answer are asked again, because without the
// snapshot the data is lost.
func (h *diskHook) find(ctx context.Context, a *nomad.Allocation) (migrate.Remote, error) {
	wait := askAgainMin
	for try := 1; ; try++ {
		remote, err := h.findOnce(ctx, a)
		if err == nil || try == findTries || apierror.HTTPStatus(err) < http.StatusInternalServerError {
			return remote, err
		}
		h.log.Warn("find the data of the previous allocation", "alloc", a.ID, "previous", a.PreviousAllocation, "err", err)
		if err := pause(ctx, wait); err != nil {
			return remote, err
		}
		wait *= 2
	}
}

// findOnce returns an error with a status below 500 if another attempt is useless.
func (h *diskHook) findOnce(ctx context.Context, a *nomad.Allocation) (migrate.Remote, error) {
	from := h.previous.remote
	var resp message.SingleNodeResponse
	if err := h.peers.Call(ctx, "Node.GetNode", &message.NodeSpecificRequest{NodeID: from.NodeID}, &resp); err != nil {
		return migrate.Remote{}, fmt.Errorf("find node %s: %w", from.NodeID, err)
	}
	if resp.Node == nil {
		return migrate.Remote{}, apierror.Errorf(http.StatusNotFound, "node %s, which has the data, does not exist any more", from.NodeID)
	}
	if s := resp.Node.Status; s == nomad.NodeStatusDown || s == nomad.NodeStatusDisconnected {
		// Its agent may accept connections and never answer: the tasks would wait for that.
		return migrate.Remote{}, apierror.Errorf(http.StatusNotFound, "node %s, which has the data, is %s", from.NodeID, s)
	}
	return h.peers.Snapshot(ctx, resp.Node, from.ID, a.ID)
}

// owners maps the owners of moved data. Dynamic uids of the previous allocation become those of
// the same tasks in the new one. Other users keep their files. The dynamic uids of another node may have another range:
// its snapshot names their tasks.
type owners struct {
	group   *nomad.TaskGroup
	users   Users
	start   Start
	drivers Drivers
}

func (o owners) of(path, task string, uid, gid int) (int, int, error) {
	if task == "" && !o.users.Contains(uid) {
		if o.users.Contains(gid) {
			gid = 0
		}
		return uid, gid, nil
	}
	to, err := o.heir(path, task)
	if err != nil {
		return 0, 0, err
	}
	if gid == uid || o.users.Contains(gid) { // the group of a dynamic user has its number
		gid = to
	}
	return to, gid, nil
}

// heir returns the uid that gets the files of a dynamic user: that of the task, or root's if the
// task does not get a dynamic uid.
func (o owners) heir(path, name string) (int, error) {
	first, _, _ := strings.Cut(path, "/")
	switch {
	case o.group.Task(name) != nil:
	case first != allocdir.SharedName:
		name = first
	case len(o.group.Tasks) == 1:
		name = o.group.Tasks[0].Name
	}
	task := o.group.Task(name)
	if task == nil || task.User != "" {
		return 0, nil
	}
	d, err := o.drivers.Driver(task.Driver)
	if err != nil || !d.Capabilities().DynamicWorkloadUsers {
		return 0, nil // the allocation fails for other reasons
	}
	return o.start.AssignUser(name)
}
