package token

import (
	"context"
	"fmt"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/open-nomad/open-nomad/client/login"
	"github.com/open-nomad/open-nomad/client/state"
	"github.com/open-nomad/open-nomad/internal/backoff"
	"github.com/open-nomad/open-nomad/nomad/idtoken"
)

// Preflight: how long a new token may be unknown to the agent of Consul, and the first pause. The meta of the node can change
// them.
const (
	preflightWithin = 10 * time.Second
	preflightPause  = 500 * time.Millisecond
)

// attempts are the logins of one workload, one after the other.
type attempts struct {
	w     *workload
	jwt   idtoken.Token
	retry *login.Retry
}

// attempt makes a login or a check, and returns how long to wait before next is asked again.
func (a *attempts) attempt(ctx context.Context, what action) time.Duration {
	if wait := a.retry.Remaining(); wait > 0 {
		return wait
	}
	if what == logIn && a.jwt.IsZero() {
		return idle // until the identity arrives
	}
	var err *login.Failure
	if what == check {
		err = a.check(ctx)
	} else {
		err = a.login(ctx)
	}
	switch {
	case ctx.Err() != nil:
		return idle
	case err == nil:
		a.retry.Reset()
		if what == logIn {
			a.succeeded()
		}
		return 0
	}
	if what == logIn {
		a.report(err)
	}
	return a.retry.Pause(err)
}

// check asks Consul whether it has the current token. If not, the token is discarded.
func (a *attempts) check(ctx context.Context) *login.Failure {
	t := a.w.current()
	if t == nil {
		return nil
	}
	err := a.w.m.node.check(ctx, t.Secret)
	switch {
	case err == nil:
		ready := *t
		ready.Ready = true
		if !t.Ready {
			a.store(&ready)
		}
		a.w.confirmed(&ready)
	case unknown(err):
		a.w.discard(t)
	default:
		return failed(err, a.w.method)
	}
	return nil
}

// login gets a new token and makes it the current one, once Consul's agent accepts it.
func (a *attempts) login(ctx context.Context) *login.Failure {
	w, m := a.w, a.w.m
	got, err := m.node.login(ctx, &api.ACLLoginParams{AuthMethod: w.method, BearerToken: a.jwt.Reveal(),
		Meta: map[string]string{"requested_by": w.requester, "node_id": m.cfg.Node.ID}})
	if err != nil {
		return failed(err, w.method)
	}
	t := &state.ConsulToken{Identity: w.key.identity, Workload: w.key.workload, Service: w.service, Accessor: got.AccessorID,
		Secret: got.SecretID, Created: time.Now()}
	if d := life(got); d > 0 {
		t.Expires = t.Created.Add(d)
	}
	a.store(t)
	fault := a.preflight(ctx, t.Secret)
	if fault == nil {
		ready := *t
		ready.Ready = true
		a.store(&ready)
		if w.adopt(&ready) {
			return nil
		}
	}
	if fault == nil || ctx.Err() == nil { // else a restarted agent may use it
		m.node.end(m.cfg.Alloc.ID, []*state.ConsulToken{t}, 0)
	}
	return fault
}

// preflight waits until the agent of Consul accepts a new token: it may follow the servers that made it with a delay.
func (a *attempts) preflight(ctx context.Context, secret string) *login.Failure {
	meta := a.w.m.cfg.Node.Meta
	ctx, cancel := context.WithTimeout(ctx, duration(meta["consul.token_preflight_check.timeout"], preflightWithin))
	defer cancel()
	pause := duration(meta["consul.token_preflight_check.base"], preflightPause)
	again := backoff.Backoff{Min: pause, Max: 2 * pause}
	for {
		err := a.w.m.node.check(ctx, secret)
		if err == nil {
			return nil
		}
		if again.Wait(ctx) == nil {
			continue
		}
		if unknown(err) {
			return &login.Failure{Cause: "the agent of Consul does not accept the new token yet", Answered: true}
		}
		return failed(err, a.w.method)
	}
}

// duration parses a value of the node's metadata.
func duration(text string, or time.Duration) time.Duration {
	if d, err := time.ParseDuration(text); err == nil && d > 0 {
		return d
	}
	return or
}

// store stores a token. Without it, a restarted agent logs in again.
func (a *attempts) store(t *state.ConsulToken) {
	m := a.w.m
	if err := m.node.cfg.Store.PutConsulToken(m.cfg.Alloc.ID, t); err != nil {
		m.node.cfg.Log.Warn("store a Consul token", "alloc", m.cfg.Alloc.ID, "accessor", t.Accessor, "err", err)
	}
}

// report emits an event for a cause, once until the next success.
func (a *attempts) report(err *login.Failure) {
	if !a.retry.Report(err) {
		return
	}
	m := a.w.m
	m.node.cfg.Log.Warn("login to Consul failed, retrying", "alloc", m.cfg.Alloc.ID, "workload", a.w.name, "err", err)
	m.emit(a.w, fmt.Sprintf("Login to Consul for %s failed: %s. It is tried again, at least every %s", a.w.name, err.Cause, a.retry.Every(err)))
}

// succeeded emits an event if a failure was reported.
func (a *attempts) succeeded() {
	if a.retry.Recovered() {
		a.w.m.emit(a.w, fmt.Sprintf("Login to Consul for %s succeeded", a.w.name))
	}
}
