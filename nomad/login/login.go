package login

import (
	"context"
	"fmt"
	"time"

	"github.com/open-nomad/open-nomad/nomad/rbac"
)

// Signer signs client assertions with a key of this cluster.
type Signer interface {
	// ClientAssertion signs a client assertion. The token has the headers of the assertion and
	// those that identify the key.
	ClientAssertion(ctx context.Context, a Assertion) (string, error)
}

// Config configures a Service.
type Config struct {
	Now func() time.Time
	// Signer is required for methods with the key source "nomad".
	Signer Signer
}

// Service performs logins. It caches identity providers and their keys, and records which logins
// have ended. It is safe for concurrent use.
type Service struct {
	now       func() time.Time
	signer    Signer
	providers providers
	pending   *pending
}

// New returns a Service.
func New(c Config) *Service {
	return &Service{now: c.Now, signer: c.Signer,
		providers: providers{now: c.Now, byKey: map[string]*provider{}},
		pending:   newPending(c.Now)}
}

// Login verifies a token for a JWT method and returns its claims.
func (d *Service) Login(ctx context.Context, m *rbac.AuthMethod, token string) (*Claims, error) {
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
	said, err := p.verify(ctx, token, want, d.now())
	if err != nil {
		return nil, err
	}
	return mapClaims(said, c.ClaimMappings, c.ListClaimMappings)
}
