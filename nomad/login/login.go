package login

import (
	"context"
	"fmt"
	"time"

	"github.com/open-nomad/open-nomad/nomad/acls"
)

// Signer signs, with a key of this cluster, who an OIDC client is.
type Signer interface {
	// ClientAssertion signs that the caller is the client, for an audience, with an
	// algorithm; headers are put beside its own.
	ClientAssertion(ctx context.Context, a Assertion) (string, error)
}

// Config is what a Desk is made of.
type Config struct {
	Now func() time.Time
	// Signer is needed by methods whose key source is "nomad".
	Signer Signer
}

// Desk is where people and machines log in: it keeps identity providers, their keys, and
// which logins ended. It is safe for many goroutines.
type Desk struct {
	now       func() time.Time
	signer    Signer
	providers providers
	pending   *pending
}

// NewDesk makes a desk.
func NewDesk(c Config) *Desk {
	return &Desk{now: c.Now, signer: c.Signer,
		providers: providers{now: c.Now, byKey: map[string]*provider{}},
		pending:   newPending(c.Now)}
}

// Login returns the claims of a token that a JWT method takes.
func (d *Desk) Login(ctx context.Context, m *acls.AuthMethod, token string) (*Claims, error) {
	p, err := d.providers.of(m)
	if err != nil {
		return nil, err
	}
	c := m.Config
	want := expected{issuers: c.BoundIssuer, audiences: c.BoundAudiences, config: c}
	if want.algs, err = allowed(c.SigningAlgs); err != nil {
		return nil, fmt.Errorf("auth method %q: %w", m.Name, err)
	}
	if p.issuer != "" && len(want.issuers) == 0 {
		want.issuers = []string{p.issuer}
	}
	said, err := verify(ctx, token, p.source, want, d.now())
	if err != nil {
		return nil, err
	}
	return mapClaims(said, c.ClaimMappings, c.ListClaimMappings)
}
