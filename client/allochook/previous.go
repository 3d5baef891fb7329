package allochook

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/open-nomad/open-nomad/client/hook"
	"github.com/open-nomad/open-nomad/client/migrate"
	"github.com/open-nomad/open-nomad/internal/backoff"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/message"
)

// Peers are the other allocations of this node, and what the node needs to reach those of
// other nodes.
type Peers interface {
	// Hold protects the data of an allocation of this node from removal until release is called. The channel is
	// closed when the allocation has ended. It is nil if the node does not have the allocation. release is never nil.
	Hold(ctx context.Context, alloc string) (ended <-chan struct{}, release func(), err error)
	// TaskOf returns the task of an allocation of this node that has a dynamic uid.
	TaskOf(alloc string, uid int) string
	// Call makes an RPC to the servers with the node's token.
	Call(ctx context.Context, method string, req, resp any) error
	// Snapshot returns the snapshot of an allocation of another node, for an allocation of this one.
	Snapshot(ctx context.Context, node *nomad.Node, previous, alloc string) (migrate.Remote, error)
}

// Start is what the hooks know and change about an allocation that has not started.
type Start interface {
	// Started reports whether an earlier agent has started tasks.
	Started() bool
	// Stopped is closed when the allocation must stop.
	Stopped() <-chan struct{}
	// Note adds an event to every task.
	Note(message string)
	// AssignUser returns the uid that a task without a user will have.
	AssignUser(task string) (int, error)
}

// previousHook waits until the previous allocation and the preempted ones have ended. It finds
// out where the previous one was, for the diskHook.
type previousHook struct {
	peers Peers
	start Start
	log   *slog.Logger

	here   bool              // the previous allocation was on this node and has ended
	free   func()            // ends the hold on its data, nil without one; the diskHook calls it
	remote *nomad.Allocation // the previous allocation, if it was on another node
}

func newPreviousHook(c Config) *previousHook {
	return &previousHook{peers: c.Peers, start: c.Start, log: c.Log}
}

func (*previousHook) Name() string { return "await_previous_allocations" }

func (h *previousHook) Prerun(ctx context.Context, req *PrerunRequest, _ *PrerunResponse) error {
	a := req.Alloc
	if h.start.Started() || h.peers == nil {
		return nil
	}
	ctx, cancel := untilStopped(ctx, h.start)
	defer cancel()
	for _, id := range a.PreemptedAllocations {
		_, release, err := h.await(ctx, id)
		release()
		if err != nil {
			return h.given(ctx, err)
		}
	}
	if a.PreviousAllocation == "" {
		return nil
	}
	var err error
	if h.here, h.free, err = h.await(ctx, a.PreviousAllocation); err != nil {
		h.release()
		return h.given(ctx, err)
	}
	if disk := diskOf(a); !h.here && disk != nil && disk.Migrate {
		return h.given(ctx, h.awaitRemote(ctx, a.PreviousAllocation))
	}
	return nil
}

// errStopped ends waits of an allocation that must stop. Its tasks then do not start.
var errStopped = errors.New("the allocation must stop")

// untilStopped returns a context that also ends when the allocation must stop.
func untilStopped(ctx context.Context, s Start) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	over := make(chan struct{})
	go func() {
		select {
		case <-s.Stopped():
			cancel(errStopped)
		case <-over:
		}
	}()
	return ctx, func() {
		close(over)
		cancel(nil)
	}
}

// given drops the error of a wait that ended because the allocation must stop.
func (h *previousHook) given(ctx context.Context, err error) error {
	if context.Cause(ctx) == errStopped {
		return nil
	}
	return err
}

// await waits until an allocation of this node has ended. It reports false if the node does not
// have it. Its data cannot be removed until release is called.
func (h *previousHook) await(ctx context.Context, id string) (here bool, release func(), err error) {
	ended, release, err := h.peers.Hold(ctx, id)
	if err != nil || ended == nil {
		return false, release, err
	}
	select {
	case <-ended:
		return true, release, nil
	case <-ctx.Done():
		return false, release, ctx.Err() // it still runs: its data must stay
	}
}

// release ends the hold on the data of the previous allocation.
func (h *previousHook) release() {
	if h.free != nil {
		h.free()
	}
}

// Delays between attempts to ask the servers: the first, and the longest. Each is twice the previous one.
const (
	askAgainMin = time.Second
	askAgainMax = 60 * time.Second
)

// pause waits for up to twice the duration, so that many allocations do not ask at the same time.
func pause(ctx context.Context, d time.Duration) error {
	return backoff.Sleep(ctx, d+rand.N(d))
}

// awaitRemote waits until the servers report that an allocation of another node has ended. An
// allocation that the servers do not have, or do not show, has no data.
func (h *previousHook) awaitRemote(ctx context.Context, id string) error {
	var index uint64
	again := backoff.Backoff{Min: askAgainMin, Max: askAgainMax / 2}
	for {
		req := message.AllocSpecificRequest{AllocID: id}
		req.MinQueryIndex, req.AllowStale = index, index > 0
		var resp message.SingleAllocResponse
		err := h.peers.Call(ctx, "Alloc.GetAlloc", &req, &resp)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case missing(err), err == nil && resp.Alloc == nil:
			return nil
		case err == nil && (resp.Alloc.ClientTerminalStatus() || resp.Alloc.ClientStatus == nomad.AllocClientStatusUnknown):
			h.remote = resp.Alloc
			return nil
		case err == nil:
			index = resp.Index
			again.Reset()
			continue
		}
		h.log.Warn("wait for the previous allocation", "previous", id, "err", err)
		if err := pause(ctx, again.Next()); err != nil {
			return err
		}
	}
}

// missing reports whether the servers do not have an allocation, or do not show it.
func missing(err error) bool {
	if err == nil {
		return false
	}
	status := apierror.HTTPStatus(err)
	return errors.Is(err, apierror.ErrPermissionDenied) || status == http.StatusNotFound || status == http.StatusForbidden
}

// diskOf returns the ephemeral disk of the allocation's group, or nil.
func diskOf(a *nomad.Allocation) *nomad.EphemeralDisk {
	if a.Job == nil {
		return nil
	}
	if group := a.Job.TaskGroup(a.TaskGroup); group != nil {
		return group.EphemeralDisk
	}
	return nil
}

var _ hook.Hook = (*previousHook)(nil)
