package service

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/open-nomad/open-nomad/internal/backoff"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/catalog"
	"github.com/open-nomad/open-nomad/nomad/message"
)

// Delays between two requests of Leftovers.
const (
	leftoversMin = time.Second
	leftoversMax = time.Minute
)

// Leftovers removes the registrations of a node that no owner has set. An agent that is killed before the servers
// acknowledge a removal leaves them. complete reports whether an allocation has set all of its services (Complete).
// Leftovers returns when the servers have no other registrations of the node than those of an owner. Run sends the
// removals.
func (r *Registrar) Leftovers(ctx context.Context, node string, complete func(alloc string) bool) error {
	delay := backoff.Backoff{Min: leftoversMin, Max: leftoversMax}
	for {
		undecided, err := r.findLeftovers(ctx, node, complete)
		switch {
		case errors.Is(err, apierror.ErrNoMethod), errors.Is(err, apierror.ErrUnknownMethod):
			return nil // servers of Nomad cannot list them
		case err == nil && !undecided:
			return nil
		case err != nil && ctx.Err() == nil:
			r.log.Warn("list the service registrations of the node", "node", node, "err", err)
		}
		if err := delay.WaitJitter(ctx); err != nil {
			return err
		}
	}
}

// findLeftovers queues the removal of registrations that no owner has set. undecided reports whether the owner of one may
// still set it.
func (r *Registrar) findLeftovers(ctx context.Context, node string, complete func(alloc string) bool) (undecided bool, err error) {
	req, resp := &message.ServiceInstancesRequest{NodeID: node}, &message.ServiceInstancesResponse{}
	req.Namespace = nomad.AllNamespacesSentinel
	if err := r.call(ctx, "ServiceRegistration.Instances", req, resp); err != nil {
		return false, err
	}
	for _, i := range resp.Instances {
		decided := complete(i.AllocID) // before the entries are read: what it sets is in them
		if !r.leaveUnset(&i.Registration, decided) {
			undecided = true
		}
	}
	return undecided, nil
}

// leaveUnset queues the removal of a registration without an entry, if it is a leftover. It returns false if an owner may
// still set it.
func (r *Registrar) leaveUnset(reg *catalog.Registration, leftover bool) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.entries[reg.ID] != nil {
		return true
	}
	if leftover {
		r.log.Info("remove a service registration of the previous agent", "alloc", reg.AllocID, "service", reg.ServiceName)
		r.entries[reg.ID] = &entry{reg: reg, leaving: true, gone: make(chan struct{})}
		r.changed(reg.ID)
		r.nudge()
	}
	return leftover
}

// Has reports whether an owner has registrations.
func (r *Registrar) Has(owner string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.owners[owner]) > 0
}

// Complete reports whether all services of an allocation with a provider that are to be registered now have been set, so
// that any other registration of it is a leftover. A restarted agent sets the services of a running task after its hooks,
// which may take long. has reports whether an owner has services. tasks are the states of the tasks.
func Complete(provider string, has func(owner string) bool, a *nomad.Allocation, tasks map[string]*nomad.TaskState) bool {
	group := a.Job.TaskGroup(a.TaskGroup)
	if group == nil {
		return true
	}
	missing := func(workload string, services []*nomad.Service) bool {
		declared := func(s *nomad.Service) bool { return cmp.Or(s.Provider, nomad.ServiceProviderConsul) == provider }
		return slices.ContainsFunc(services, declared) && !has(Owner(a.ID, workload))
	}
	if missing(catalog.GroupWorkload(a.TaskGroup), group.Services) {
		return false
	}
	return !slices.ContainsFunc(group.Tasks, func(t *nomad.Task) bool {
		return mayRun(t, tasks[t.Name]) && missing(t.Name, t.Services)
	})
}

// mayRun reports whether a task can have services: it is not dead, not paused without a process, and not a poststop task that
// has never started. The latter waits for the end of the main tasks.
func mayRun(t *nomad.Task, s *nomad.TaskState) bool {
	switch {
	case s == nil:
		return true
	case s.State == nomad.TaskStatePending:
		waits := t.Lifecycle != nil && t.Lifecycle.Hook == nomad.TaskLifecycleHookPoststop && s.StartedAt.IsZero()
		return !waits && !s.Paused.Pauses()
	}
	return s.State != nomad.TaskStateDead
}
