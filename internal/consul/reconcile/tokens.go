package reconcile

import (
	"context"
	"time"

	"github.com/open-nomad/open-nomad/internal/backoff"
)

// tokensEvery is the time between two comparisons of tokens, which make no request.
const tokensEvery = time.Second

// compareTokens makes services registered again whose own token has changed.
func (r *Reconciler) compareTokens(ctx context.Context) {
	for backoff.Sleep(ctx, tokensEvery) == nil {
		for _, s := range r.withTokens() {
			if token := s.Token(); token != "" {
				r.tokenIs(s, token)
			}
		}
	}
}

// withTokens returns the registered services that have their own tokens.
func (r *Reconciler) withTokens() (out []*Service) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, i := range r.items {
		if i.want != nil && i.want.Token != nil && i.need == settled && i.registered {
			out = append(out, i.want)
		}
	}
	return out
}

// tokenIs compares the token of a service with the one of its registration. If an earlier process registered it, the
// first token counts as the one of the registration, since tokens outlive the agent.
func (r *Reconciler) tokenIs(s *Service, token string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	i := r.items[s.Registration.ID]
	switch {
	case i == nil || i.want != s || i.busy || i.need != settled:
	case i.token == "":
		i.token = token
	case i.token != token:
		i.need, i.stale = renew, s.Registration.EnableTagOverride
		if i.stale {
			r.syncSoon()
		}
		r.wake.Send()
	}
}
