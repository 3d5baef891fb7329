package token

import (
	"context"
	"fmt"
	"time"

	"github.com/hashicorp/go-metrics"

	"github.com/open-nomad/open-nomad/client/login"
	"github.com/open-nomad/open-nomad/client/state"
	"github.com/open-nomad/open-nomad/internal/backoff"
	"github.com/open-nomad/open-nomad/internal/vault"
	"github.com/open-nomad/open-nomad/nomad/idtoken"
)

// attempts are the requests of one session, one after the other.
type attempts struct {
	s     *session
	jwt   idtoken.Token
	retry *login.Retry
	// losses are the pauses after tokens that were lost soon after their login, except for the first one.
	losses        *backoff.Backoff
	reportedFixed bool // unrenewable was reported
	// warned are the causes of failed requests with the token that were logged since the last success.
	warned map[string]bool
	ending bool // renewalFails was reported, and no renewal or login has succeeded since
}

// renewalFails is the event of a token of whose life less than a third remains.
const renewalFails = "Renewal of the token of Vault fails: %s. It is tried again until the token ends, at %s"

// unrenewable is the cause for a token that Vault does not renew.
const unrenewable = "Vault does not let the token renew itself: give its role the policy default and a service token"

// noIdentity is the failure of a task without an identity for Vault.
var noIdentity = &login.Failure{Cause: fmt.Sprintf("the task has no identity %q: set default_identity in the vault block of the servers and "+
	"register the job again, or add an identity with this name to the task", Identity)}

// attempt makes a request, and returns how long to wait before next is asked again.
func (a *attempts) attempt(ctx context.Context, what action) time.Duration {
	if wait := a.retry.Remaining(); wait > 0 {
		return wait
	}
	var err *login.Failure
	switch what {
	case check:
		err = a.check(ctx)
	case renew:
		err = a.renew(ctx)
	default:
		if a.jwt.IsZero() {
			a.missing()
			return idle // until the identity arrives
		}
		err = a.login(ctx)
	}
	switch {
	case ctx.Err() != nil:
		return idle
	case err == nil:
		a.retry.Reset()
		a.answered()
		return 0
	}
	a.failed(err)
	return a.retry.Pause(err)
}

// missing reports that the task has no identity for Vault.
func (a *attempts) missing() {
	a.s.m.mu.Lock()
	has := a.s.identity
	a.s.m.mu.Unlock()
	if !has {
		a.failed(noIdentity)
		a.report("Login to Vault is impossible: "+noIdentity.Cause, noIdentity)
	}
}

// failed records a failure for Status.
func (a *attempts) failed(err *login.Failure) {
	a.s.m.mu.Lock()
	defer a.s.m.mu.Unlock()
	a.s.fault, a.s.faultAt = err.Cause, time.Now()
}

// login gets a new token and makes it the current one.
func (a *attempts) login(ctx context.Context) *login.Failure {
	s, m := a.s, a.s.m
	m.mu.Lock()
	block := s.block
	m.mu.Unlock()
	req := loginRequest{alloc: m.cfg.Alloc.ID, task: s.task, jwt: a.jwt, target: m.node.target(block)}
	t, err := m.node.login(ctx, req)
	if err != nil && ctx.Err() != nil {
		return nil
	}
	if err != nil {
		f := failed(err, req.target)
		if a.report(fmt.Sprintf("Login to Vault failed: %s. It is tried again, at least every %s", f.Cause, a.retry.Every(f)), f) {
			m.node.cfg.Log.Warn("login to Vault failed, retrying", "alloc", req.alloc, "task", s.task, "cause", f.Cause, "err", vault.Redact(err))
		}
		return f
	}
	// Without the stored token, a restarted agent logs in again.
	if err := m.node.cfg.Store.PutVaultToken(req.alloc, t); err != nil {
		m.node.cfg.Log.Warn("store a Vault token", "alloc", req.alloc, "task", s.task, "accessor", t.Accessor, "err", err)
	}
	if !s.adopt(t) {
		m.node.end(req.alloc, 0, t)
		return nil
	}
	if a.retry.Recovered() || a.ending {
		m.emit(s.task, "Login to Vault succeeded")
	}
	a.ending = false
	return nil
}

// check looks the token up.
func (a *attempts) check(ctx context.Context) *login.Failure {
	t, _ := a.s.newest()
	l, err := a.s.m.node.lookup(ctx, t)
	if err == nil {
		a.s.accepted(t, &l)
		return nil
	}
	if ctx.Err() != nil {
		return nil
	}
	switch judge(err) {
	case gone:
		a.lose(t)
	case denied: // by its policies
		a.s.accepted(t, nil)
	default:
		a.s.update(t, func() { a.s.mute = true })
		return a.unanswered(err, t)
	}
	return nil
}

// renew extends the life of the token.
func (a *attempts) renew(ctx context.Context) *login.Failure {
	t, old := a.s.newest()
	l, err := a.s.m.node.renew(ctx, t, old.lease)
	if err == nil {
		l.fixed = l.fixed || !l.extends(old)
		a.s.accepted(t, &l)
		if a.ending {
			a.s.m.emit(a.s.task, "Renewal of the token of Vault succeeded")
		}
		a.ending = false
		return nil
	}
	if ctx.Err() != nil {
		return nil
	}
	metrics.IncrCounter([]string{"client", "vault", "renew_token_error"}, 1)
	why := judge(err)
	if why == unknown {
		return a.unanswered(err, t)
	}
	metrics.IncrCounter([]string{"client", "vault", "renew_token_failure"}, 1)
	if why == gone {
		a.lose(t)
		return nil
	}
	if !a.reportedFixed {
		a.s.m.emit(a.s.task, unrenewable+". A new login replaces it before it ends")
	}
	a.reportedFixed = true
	a.s.update(t, func() {
		a.s.fixed, a.s.life.fixed, a.s.doubt = true, true, true
		a.s.fault, a.s.faultAt = unrenewable, time.Now()
	})
	return nil
}

// unanswered returns the failure of a request with a token. It logs each cause once, and reports to the task when the token
// is about to end.
func (a *attempts) unanswered(err error, t *state.VaultToken) *login.Failure {
	f := failed(err, target{})
	if !a.warned[f.Cause] {
		if a.warned == nil {
			a.warned = map[string]bool{}
		}
		a.warned[f.Cause] = true
		a.s.m.node.cfg.Log.Warn("renewal or lookup of a Vault token failed, retrying", "alloc", a.s.m.cfg.Alloc.ID, "task", t.Task,
			"accessor", t.Accessor, "cause", f.Cause, "err", vault.Redact(err))
	}
	if end := a.s.ending(); !end.IsZero() && !a.ending {
		a.ending = true
		a.s.m.emit(a.s.task, fmt.Sprintf(renewalFails, f.Cause, end.UTC().Format(time.RFC3339)))
	}
	return f
}

// answered logs that Vault has answered after the failures that were logged.
func (a *attempts) answered() {
	if len(a.warned) > 0 {
		a.s.m.node.cfg.Log.Info("Vault answers again", "alloc", a.s.m.cfg.Alloc.ID, "task", a.s.task)
	}
	clear(a.warned)
}

// lose records that Vault does not have the token. A new login follows at once, unless tokens are lost again and again.
func (a *attempts) lose(t *state.VaultToken) {
	a.s.m.node.cfg.Log.Warn("Vault token is lost, logging in again", "alloc", a.s.m.cfg.Alloc.ID, "task", t.Task, "accessor", t.Accessor)
	switch {
	case time.Since(t.Created) >= minAge:
		a.losses = nil
	case a.losses == nil:
		a.losses = &backoff.Backoff{Min: time.Second, Max: minAge}
	default:
		a.retry.Hold(a.losses.Next())
	}
	a.s.update(t, func() { a.s.lost, a.s.doubt = true, false })
}

// report emits an event for a cause, once until the next success of a login. It reports whether it has.
func (a *attempts) report(text string, f *login.Failure) bool {
	first := a.retry.Report(f)
	if first {
		a.s.m.emit(a.s.task, text)
	}
	return first
}
