package reconcile

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/hashicorp/consul/api"
	"github.com/hashicorp/go-metrics"

	"github.com/open-nomad/open-nomad/internal/consul"
	"github.com/open-nomad/open-nomad/internal/pattern"
)

// checkPrefix begins the IDs of the checks that may be removed.
const checkPrefix = "_nomad-check-"

// taskService matches the ID of the service of a task, and its allocation.
var taskService = pattern.Lazy(`^_nomad-task-([0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})-.`)

// list is what Consul has.
type list struct {
	began    uint64 // sequence
	services map[string]*api.AgentService
	checks   map[string][]string // IDs by service
}

// sync asks for the services and checks of Consul, and decides what differs.
func (r *Reconciler) sync(ctx context.Context) {
	l, err := r.list(ctx)
	var leftovers []string
	if err == nil {
		leftovers = r.leftovers(l)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.syncing = false
	if ctx.Err() != nil {
		return
	}
	r.wake.Send()
	defer r.refreshed()
	if err != nil {
		r.listFailed(fmt.Errorf("list services of consul with the token of the agent: %w", consul.Redact(err)))
		return
	}
	if r.failures > 0 {
		n := r.failures
		r.later(func() { r.cfg.Log.Info("services of consul can be listed again", "failures", n) })
	}
	r.listErr, r.listed, r.failures, r.syncAt = nil, true, 0, time.Now().Add(syncEvery)
	r.others = map[string]bool{}
	for id := range l.services {
		if r.items[id] == nil && strings.HasPrefix(id, "_nomad-") {
			r.others[id] = true
		}
	}
	services, checks, unlisted := 0, 0, 0
	for _, i := range r.items {
		r.compare(i, l)
		if i.unlisted > 1 {
			unlisted++
		}
		if i.want != nil {
			services++
			checks += len(i.want.Registration.Checks)
		}
	}
	r.reportUnlisted(unlisted)
	for _, id := range leftovers {
		if r.items[id] == nil {
			r.later(func() { r.cfg.Log.Info("service of consul is a leftover", "service", id) })
			r.items[id] = &item{id: id, presence: present, sidecar: l.services[SidecarID(id)] != nil}
		}
	}
	r.later(func() {
		metrics.SetGauge([]string{"client", "consul", "services"}, float32(services))
		metrics.SetGauge([]string{"client", "consul", "checks"}, float32(checks))
	})
}

// refreshed makes the next list due if Refresh was called during the last one. The caller holds mu.
func (r *Reconciler) refreshed() {
	if r.refresh {
		r.refresh, r.syncAt = false, time.Now()
	}
}

// list asks Consul, at first whether it answers at all.
func (r *Reconciler) list(ctx context.Context) (*list, error) {
	r.mu.Lock()
	r.syncedAt = time.Now()
	answered, l := r.answered, &list{began: r.seq, services: map[string]*api.AgentService{}, checks: map[string][]string{}}
	r.mu.Unlock()
	if !answered {
		var self struct{}
		err := r.get(ctx, "/v1/agent/self", &self)
		if err != nil && status(err) != http.StatusForbidden { // a token without this right may have the others
			return nil, err
		}
		r.mu.Lock()
		r.answered = true
		l.began = r.seq
		r.mu.Unlock()
	}
	err := each(ctx, r, "/v1/agent/services", func() func(string, *api.AgentService) {
		clear(l.services)
		return func(id string, s *api.AgentService) {
			switch {
			case r.hasItem(id):
				l.services[id] = s
			case strings.HasPrefix(id, "_nomad-"):
				l.services[id] = unwanted
			}
		}
	})
	if err != nil {
		return nil, err
	}
	err = each(ctx, r, "/v1/agent/checks", func() func(string, *serviceCheck) {
		clear(l.checks)
		return func(_ string, c *serviceCheck) {
			if r.tracks(c.ServiceID) {
				l.checks[c.ServiceID] = append(l.checks[c.ServiceID], c.CheckID)
			}
		}
	})
	return l, err
}

// serviceCheck is the part of a check that a list needs.
type serviceCheck struct{ CheckID, ServiceID string }

// tracks reports whether a service can be one of this agent, or the sidecar of one. What others register is not kept.
func (r *Reconciler) tracks(id string) bool {
	return strings.HasPrefix(id, "_nomad-") || r.hasItem(id)
}

// unwanted is a service of which only the ID matters.
var unwanted = &api.AgentService{}

// hasItem reports whether a service is wanted or has to be removed, or is the sidecar of one.
func (r *Reconciler) hasItem(id string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.items[id] != nil || r.items[strings.TrimSuffix(id, sidecarSuffix)] != nil
}

// each requests a list with the token of the agent. begin is called before the first value, also when the request is repeated.
func each[T any](ctx context.Context, r *Reconciler, path string, begin func() func(string, *T)) error {
	return r.do(ctx, func(ctx context.Context, _ *api.Client) error {
		return consul.Each(ctx, consul.List{Agent: r.cfg.Agent, Path: path}, begin())
	})
}

// get requests a path with the token of the agent.
func (r *Reconciler) get(ctx context.Context, path string, into any) error {
	return r.do(ctx, func(ctx context.Context, c *api.Client) error {
		_, err := c.Raw().Query(path, into, options(ctx, ""))
		return err
	})
}

// listFailed records that Consul did not answer. The services that wait for it failed too. The caller holds mu.
func (r *Reconciler) listFailed(err error) {
	count("sync_failure", 1)
	r.listErr = err
	r.failures++
	now := time.Now()
	r.syncAt = now.Add(retryDelay(r.failures))
	if !r.answered {
		r.syncAt = now.Add(r.asking.Next())
	}
	r.logFailure(r.failures, "services of consul cannot be listed, will retry", "err", err)
	for _, i := range r.items {
		if i.want != nil && !i.registered && !i.busy {
			r.failed(i, err, now)
			i.retryAt = time.Time{} // with the next list
		}
	}
}

// reportUnlisted logs that two lists in a row had not a number of services which Consul has registered before each. Consul
// leaves out what a token may not read, without an error. The caller holds mu.
func (r *Reconciler) reportUnlisted(n int) {
	switch before := r.unlisted; {
	case n > 0 && !before:
		r.later(func() {
			r.cfg.Log.Error("consul does not list services that it has registered, so their checks are unknown: give the token of the "+
				"consul block service:read for them", "services", n)
		})
	case n == 0 && before:
		r.later(func() { r.cfg.Log.Info("consul lists all registered services") })
	}
	r.unlisted = n > 0
}

// compare decides what a service needs, unless it has changed since the list began. The caller holds mu.
func (r *Reconciler) compare(i *item, l *list) {
	if i.busy || i.touched > l.began {
		if i.need == compare {
			r.syncSoon()
		}
		return
	}
	got, sidecar := l.services[i.id], l.services[SidecarID(i.id)]
	if i.want == nil {
		r.compareRemoved(i, got, sidecar)
		return
	}
	i.sidecar = sidecar != nil || hasSidecar(i.want)
	i.missing, i.surplus = nil, nil
	if got == nil {
		if i.presence = absent; i.registered {
			i.unlisted++
		}
		if i.need != change {
			i.need, i.override, i.registered = drift, nil, false
		}
		return
	}
	i.presence, i.override, i.stale, i.unlisted = present, nil, false, 0
	if i.want.Registration.EnableTagOverride {
		i.override = &override{service: got.Tags}
		if sidecar != nil {
			i.override.sidecar = sidecar.Tags
		}
	}
	switch {
	case i.need == change:
	case difference(i.want.Registration, got, sidecar):
		i.need, i.registered = drift, false
	default:
		r.compareChecks(i, l.checks[i.id])
	}
}

// compareRemoved decides whether a removal is complete. The caller holds mu.
func (r *Reconciler) compareRemoved(i *item, got, sidecar *api.AgentService) {
	switch {
	case got != nil:
		i.presence, i.gone, i.sidecar = present, time.Time{}, sidecar != nil
	case i.gone.IsZero() || r.syncedAt.Sub(i.gone) >= confirmAfter:
		i.attempted()
		delete(r.items, i.id)
	}
}

// compareChecks decides which checks a service lacks and has too many. The caller holds mu.
func (r *Reconciler) compareChecks(i *item, have []string) {
	has := map[string]bool{}
	for _, id := range have {
		has[id] = true
	}
	for _, c := range i.want.Registration.Checks {
		if !has[c.CheckID] {
			i.missing = append(i.missing, c)
		}
		delete(has, c.CheckID)
	}
	for id := range has {
		if strings.HasPrefix(id, checkPrefix) && isSegment(id) {
			i.surplus = append(i.surplus, id)
		}
	}
	if len(i.missing)+len(i.surplus) > 0 {
		i.need, i.registered = settled, i.registered && len(i.missing) == 0
		return
	}
	i.fresh = false
	if !i.registered {
		r.recovered(i)
		i.settle(time.Now())
	}
}

// leftovers returns the services of this node's tasks that nobody wants.
func (r *Reconciler) leftovers(l *list) (out []string) {
	r.mu.Lock()
	var ids []string
	if r.cfg.Reap && r.cfg.Owns != nil && time.Since(r.started) >= probation {
		for id := range l.services {
			if r.items[id] == nil && !strings.HasSuffix(id, sidecarSuffix) && isSegment(id) {
				ids = append(ids, id)
			}
		}
	}
	r.mu.Unlock()
	for _, id := range ids {
		if m := taskService().FindStringSubmatch(id); m != nil && r.cfg.Owns(m[1]) {
			out = append(out, id)
		}
	}
	return out
}

// isSegment reports whether an ID that others may have chosen is one segment of a path. A proxy before Consul could make
// another path of a different one, such as that of another service, in a removal with the token of the agent.
func isSegment(id string) bool { return !strings.Contains(id, "/") }
