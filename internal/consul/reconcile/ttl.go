package reconcile

import (
	"context"
	"strings"
	"time"

	"github.com/hashicorp/consul/api"
)

// maxOutput is how much of the output of a check Consul keeps by default, in bytes.
const maxOutput = 4096

// update is the last status of a TTL check. Reconciler.mu guards it.
type update struct {
	Status
	item    *item
	def     *api.AgentServiceCheck
	at      time.Time // of Update, zero before
	version uint64    // of the status
	pending bool
	busy    bool
	retryAt time.Time
}

// Update sets the status of a TTL check of a registered service. It does not wait. A failed update is repeated. Only the
// last status of a check is sent. The status of a check that no service has is ignored.
func (r *Reconciler) Update(s Status) {
	if len(s.Output) > maxOutput {
		s.Output = strings.ToValidUTF8(s.Output[:maxOutput], "")
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if u := r.ttls[s.CheckID]; u != nil {
		u.Status, u.at, u.pending, u.retryAt = s, time.Now(), true, time.Time{}
		u.version++
		r.wake.Send()
	}
}

// wantUpdates accepts updates of the TTL checks of a service, and of no others. The caller holds mu.
func (r *Reconciler) wantUpdates(i *item, last, now *Service) {
	before := r.dropUpdates(i, last)
	for _, def := range now.Registration.Checks {
		if def.TTL == "" {
			continue
		}
		u := before[def.CheckID]
		if u == nil {
			u = &update{}
		}
		u.item, u.def = i, def
		r.ttls[def.CheckID] = u
	}
}

// dropUpdates ends the updates of a service and returns them by check ID. The caller holds mu.
func (r *Reconciler) dropUpdates(i *item, last *Service) map[string]*update {
	out := map[string]*update{}
	if last == nil {
		return out
	}
	for _, def := range last.Registration.Checks {
		if u := r.ttls[def.CheckID]; u != nil && u.item == i {
			out[def.CheckID] = u
			delete(r.ttls, def.CheckID)
		}
	}
	return out
}

// repeatUpdates sends the last statuses of a service again, after its registration. Those that Consul would have let
// expire are not sent. The caller holds mu.
func (r *Reconciler) repeatUpdates(i *item, now time.Time) {
	for _, def := range i.want.Registration.Checks {
		u := r.ttls[def.CheckID]
		if u == nil || u.at.IsZero() {
			continue
		}
		if ttl, err := time.ParseDuration(def.TTL); err == nil && now.Sub(u.at) < ttl {
			u.pending, u.retryAt = true, time.Time{}
			u.version++
		}
	}
}

// nextUpdate returns the status that has to be sent, or nil and when the next one is due, zero for never. The caller
// holds mu.
func (r *Reconciler) nextUpdate(now time.Time) (best *update, at time.Time) {
	if r.listErr != nil || r.inUse[updating] >= slots[updating] {
		return nil, at
	}
	for _, u := range r.ttls {
		i := u.item
		switch {
		case !u.pending || u.busy || i.presence != present || i.busy || len(i.missing) > 0:
		case u.retryAt.After(now):
			if at.IsZero() || u.retryAt.Before(at) {
				at = u.retryAt
			}
		case best == nil || u.at.Before(best.at):
			best = u
		}
	}
	return best, at
}

// send sends the status of a copy of an update to Consul.
func (r *Reconciler) send(ctx context.Context, u, copied *update) {
	i := copied.item
	r.mu.Lock()
	service := i.want
	r.mu.Unlock()
	var err error
	if service != nil {
		err = r.sendWith(ctx, service, copied.Status)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.inUse[updating]--
	u.busy = false
	r.wake.Send()
	switch {
	case ctx.Err() != nil:
	case err == nil:
		u.pending = u.version != copied.version
	default:
		u.retryAt = time.Now().Add(retryUnit)
		if notFound(err) && i.want != nil && i.need == settled && !i.busy && r.ttls[copied.CheckID] == u {
			i.missing = append(i.missing, copied.def)
			i.registered = false
		}
		if status(err) == 0 {
			r.syncSoon()
		}
	}
}

func (r *Reconciler) sendWith(ctx context.Context, service *Service, s Status) error {
	token, err := ownToken(service)
	if err != nil {
		return err
	}
	err = r.do(ctx, func(ctx context.Context, c *api.Client) error {
		return c.Agent().UpdateTTLOpts(s.CheckID, s.Output, s.Status, options(ctx, token))
	})
	reportUnknown(service, token, err)
	return err
}
