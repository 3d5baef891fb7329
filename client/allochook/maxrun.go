package allochook

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/open-nomad/open-nomad/client/hook"
	"github.com/open-nomad/open-nomad/nomad"
)

// maxRunHook ends the allocation when max_run_duration of its group has passed since its creation.
// The deadline depends only on the allocation, so that a restart of the agent does not move it.
// A deadline that passed while no agent ran ends the allocation before any task starts.
type maxRunHook struct {
	tasks   Tasks
	log     *slog.Logger
	updates newest

	mu        sync.Mutex
	following bool // a limit was seen
}

func newMaxRunHook(c Config) hook.Hook {
	return &maxRunHook{tasks: c.Tasks, log: c.Log, updates: newNewest()}
}

func (*maxRunHook) Name() string { return "max_run_duration" }

func (h *maxRunHook) Prerun(_ context.Context, req *PrerunRequest, resp *PrerunResponse) error {
	if h.expired(req.Alloc) {
		return nil
	}
	resp.Background = h.begin(req.Alloc)
	return nil
}

// begin returns the function that waits for the deadline, from the first version that has one; nil for others.
func (h *maxRunHook) begin(alloc *nomad.Allocation) func(context.Context) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if _, limited := alloc.RunDeadline(); !limited || h.following {
		return nil
	}
	h.following = true
	return func(ctx context.Context) { h.follow(ctx, alloc) }
}

// Update passes the newest version of the allocation, whose job may have another limit.
func (h *maxRunHook) Update(_ context.Context, req *UpdateRequest, resp *UpdateResponse) error {
	if resp.Background = h.begin(req.Alloc); resp.Background != nil {
		return nil
	}
	h.updates.put(req.Alloc)
	return nil
}

// follow waits for the deadline of the newest version of the allocation.
func (h *maxRunHook) follow(ctx context.Context, alloc *nomad.Allocation) {
	for !h.expired(alloc) {
		var due <-chan time.Time
		if at, limited := alloc.RunDeadline(); limited {
			due = time.After(time.Until(at))
		}
		select {
		case <-ctx.Done():
			return
		case <-due:
		case alloc = <-h.updates:
		}
	}
}

// expired ends the allocation if its deadline has passed, and reports whether it has.
func (h *maxRunHook) expired(alloc *nomad.Allocation) bool {
	at, limited := alloc.RunDeadline()
	if !limited || time.Now().Before(at) {
		return false
	}
	h.log.Info("end allocation that exceeded max_run_duration", "alloc", alloc.ID, "deadline", at)
	h.tasks.Expire()
	return true
}
