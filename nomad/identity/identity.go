// Package identity builds, signs and verifies identity tokens: those of workloads, of nodes, of
// node introductions and of servers.
//
//	nomad/keyring   selects the key             internal/jwt   encodes and signs
//	        └────────────▶ this package ◀──────────────┘
//	                    builds the claims
//
// Verify accepts a token that a root key signed, that is within its validity period, is meant for
// this cluster and has exactly one kind. Package nomad/authz decides whether the holder still
// exists and what it may do.
//
// Two rules are stricter than upstream's. A node identity or introduction without an expiration
// time is rejected, and so is a token for another audience.
//
// An Issuer caches tokens whose signature it has verified, until a key is removed. MintAll
// distributes signing over the cores and leaves no goroutine behind.
package identity

import (
	"context"
	"encoding/json"
	"fmt"
	"runtime"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/open-nomad/open-nomad/internal/jwt"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/audit"
	"github.com/open-nomad/open-nomad/nomad/idtoken"
	"github.com/open-nomad/open-nomad/nomad/keyring"
	"github.com/open-nomad/open-nomad/nomad/login"
	"github.com/open-nomad/open-nomad/nomad/rootkey"
	"github.com/open-nomad/open-nomad/nomad/ticket"
	"github.com/open-nomad/open-nomad/nomad/vault"
)

// Leeway is the accepted clock difference between servers.
const Leeway = time.Minute

// latest is the last second of the year 9999, the latest expiration time.
const latest = 253_402_300_799

// ServerTTL is the lifetime of a server identity.
const ServerTTL = time.Minute

// ErrExpired means that the token was valid and has expired. Verify returns the claims with it, so
// that a node can register again with an expired token.
var ErrExpired = fmt.Errorf("%w: %w", jwt.ErrInvalid, apierror.ErrIdentityExpired)

// Config configures an Issuer.
type Config struct {
	Ring   *keyring.Ring
	Region string
	// URL is the OIDC issuer, or "" if none is configured.
	URL string
	// AnyAudience accepts workload identities for any audience.
	AnyAudience bool
	// Audit records signed tokens, except server identities; nil disables it. If recording is
	// enforced and fails, the token is not returned.
	Audit *audit.Log
	// Vault has the clusters whose identities get claims of their own.
	Vault vault.Clusters
}

// Issuer signs and verifies tokens with the keys of a ring.
type Issuer struct {
	ring   *keyring.Ring
	region string
	url    string
	anyAud bool
	audit  *audit.Log
	vault  vault.Clusters
	seen   seen
}

// New returns an issuer.
func New(c Config) *Issuer {
	return &Issuer{ring: c.Ring, region: c.Region, url: c.URL, anyAud: c.AnyAudience, audit: c.Audit, vault: c.Vault}
}

// Mint signs claims with the active key, or with a key for the requested algorithm. It waits for a
// key until ctx ends.
func (i *Issuer) Mint(ctx context.Context, claims *idtoken.Claims) (idtoken.Token, error) {
	key, err := i.signer(ctx, claims.Alg)
	if err != nil {
		return idtoken.Token{}, fmt.Errorf("mint %q: %w", claims.Subject, err)
	}
	token, err := i.mint(key, claims)
	if err == nil {
		err = i.record([]*idtoken.Claims{claims}, []idtoken.Token{token})
	}
	if err != nil {
		return idtoken.Token{}, err
	}
	return token, nil
}

// signer returns the key for the requested algorithm.
func (i *Issuer) signer(ctx context.Context, alg string) (jwt.Key, error) {
	if alg == jwt.RS256 {
		return i.ring.RSASigner(ctx)
	}
	return i.ring.ActiveSigner(ctx)
}

// mint signs claims with key.
func (i *Issuer) mint(key jwt.Key, claims *idtoken.Claims) (idtoken.Token, error) {
	issued := *claims
	issued.Issuer = i.url
	if mustEnd(&issued) && issued.Expiry == 0 {
		return idtoken.Token{}, fmt.Errorf("mint %q: a node token needs an expiration time", claims.Subject)
	}
	raw, err := key.Sign(&issued)
	if err != nil {
		return idtoken.Token{}, fmt.Errorf("mint %q: %w", claims.Subject, err)
	}
	return idtoken.New(raw, key.ID), nil
}

// ClientAssertion signs a client assertion for an identity provider. No content makes it a valid
// token of this cluster.
func (i *Issuer) ClientAssertion(ctx context.Context, a login.Assertion) (string, error) {
	key, err := i.signer(ctx, a.Alg)
	if err != nil {
		return "", fmt.Errorf("sign client assertion for an identity provider: %w", err)
	}
	if key.Alg != a.Alg {
		return "", fmt.Errorf("sign client assertion for an identity provider: the active root key signs %s, not %s", key.Alg, a.Alg)
	}
	return key.SignWith(a.Claims(), a.Headers)
}

// Ticket signs a ticket, which represents a caller's token in a call to a node. It is not audited,
// but the call is.
func (i *Issuer) Ticket(ctx context.Context, t ticket.Ticket, now time.Time) (string, error) {
	key, err := i.ring.ActiveSigner(ctx)
	if err != nil {
		return "", fmt.Errorf("sign a ticket for %s: %w", t.Method, err)
	}
	return ticket.Sign(key, t, now)
}

// MintAll signs many claims in parallel, with one key for each algorithm. The tokens are in the
// order of the claims; on an error there are none.
func (i *Issuer) MintAll(ctx context.Context, claims []*idtoken.Claims) ([]idtoken.Token, error) {
	if len(claims) == 0 {
		return nil, nil
	}
	keys := map[string]jwt.Key{}
	for _, c := range claims {
		if _, known := keys[c.Alg]; known {
			continue
		}
		var err error
		if keys[c.Alg], err = i.signer(ctx, c.Alg); err != nil {
			return nil, fmt.Errorf("mint %d tokens: %w", len(claims), err)
		}
	}
	tokens, err := i.mintWith(ctx, keys, claims)
	if err != nil {
		return nil, err
	}
	if err := i.record(claims, tokens); err != nil {
		return nil, err
	}
	return tokens, nil
}

// mintWith signs claims with the keys of their algorithms. The caller's goroutine signs first: most
// plans need one token, and no other goroutine starts for it.
func (i *Issuer) mintWith(ctx context.Context, keys map[string]jwt.Key, claims []*idtoken.Claims) ([]idtoken.Token, error) {
	tokens := make([]idtoken.Token, len(claims))
	workers := min(runtime.GOMAXPROCS(0), len(claims))
	group, ctx := errgroup.WithContext(ctx)
	mint := func(first int) error {
		for n := first; n < len(claims) && ctx.Err() == nil; n += workers {
			var err error
			if tokens[n], err = i.mint(keys[claims[n].Alg], claims[n]); err != nil {
				return err
			}
		}
		return ctx.Err()
	}
	for w := 1; w < workers; w++ {
		group.Go(func() error { return mint(w) })
	}
	own := mint(0)
	if err := group.Wait(); err != nil {
		return nil, err
	}
	return tokens, own
}

// record writes the signed claims to the audit log.
func (i *Issuer) record(claims []*idtoken.Claims, tokens []idtoken.Token) error {
	if !i.audit.Enabled() {
		return nil
	}
	var events []*audit.Event
	for n, c := range claims {
		if c.ServerIdentityClaims == nil {
			events = append(events, audit.Signed(c, tokens[n].KeyID()))
		}
	}
	if err := i.audit.Record(events...); err != nil {
		return fmt.Errorf("mint %d tokens: %w", len(claims), err)
	}
	return nil
}

// Verify returns the claims of a valid token. Every error wraps jwt.ErrInvalid, with one exception.
// If the key of the token is closed and its public key is unknown, the error wraps
// keyring.ErrClosed. With ErrExpired the claims are returned too.
//
// Callers may share the claims and must not modify them.
func (i *Issuer) Verify(raw string, now time.Time) (*idtoken.Claims, error) {
	c, err := i.read(raw)
	if err != nil {
		return nil, err
	}
	if err := i.check(c, now); err != nil {
		return nil, err
	}
	if c.Expiry != 0 && now.Add(-Leeway).Unix() >= c.Expiry {
		return c, ErrExpired
	}
	return c, nil
}

// read returns the claims of a token with a valid signature, whatever its validity period.
func (i *Issuer) read(raw string) (*idtoken.Claims, error) {
	removals := i.ring.Removals()
	if c := i.seen.claims(raw, removals); c != nil {
		return c, nil
	}
	closed := false
	payload, _, err := jwt.Parse(raw, func(kid string) (jwt.PublicKey, bool) {
		key, ok := i.ring.PublicKey(kid)
		closed = !ok && i.ring.Has(kid)
		return key, ok
	})
	if closed {
		return nil, fmt.Errorf("read a token: %w", keyring.ErrClosed)
	}
	if err != nil {
		return nil, err
	}
	c := new(idtoken.Claims)
	if err := json.Unmarshal(payload, c); err != nil {
		return nil, fmt.Errorf("%w: %w", jwt.ErrInvalid, err)
	}
	i.seen.put(raw, c, removals)
	return c, nil
}

// check rejects invalid claims, independent of the key.
func (i *Issuer) check(c *idtoken.Claims, now time.Time) error {
	soon := now.Add(Leeway).Unix()
	switch {
	case c.Expiry < 0, mustEnd(c) && c.Expiry == 0:
		return fmt.Errorf("%w: token has no expiration time", jwt.ErrInvalid)
	case c.ServerIdentityClaims != nil && (c.Expiry-c.IssuedAt > int64(ServerTTL/time.Second) || len(c.Audience) == 0):
		return fmt.Errorf("%w: token is not a node, workload, introduction or server identity", jwt.ErrInvalid)
	case c.NotBefore <= 0, c.IssuedAt <= 0, c.Expiry > latest:
		return fmt.Errorf("%w: token has invalid times", jwt.ErrInvalid)
	case c.NotBefore > soon, c.IssuedAt > soon:
		return fmt.Errorf("%w: token is not valid yet", jwt.ErrInvalid)
	case c.Issuer != "" && i.url != "" && c.Issuer != i.url:
		return fmt.Errorf("%w: token has another issuer", jwt.ErrInvalid)
	case !i.ours(c):
		return fmt.Errorf("%w: token is for another audience", jwt.ErrInvalid)
	}
	return nil
}

// ours reports whether this cluster is the audience of a token.
func (i *Issuer) ours(c *idtoken.Claims) bool {
	return len(c.Audience) == 0 || slices.Contains(c.Audience, nomad.IdentityDefaultAud) ||
		i.anyAud && c.WorkloadIdentityClaims != nil
}

// mustEnd reports whether claims are of a kind that needs an expiration time.
func mustEnd(c *idtoken.Claims) bool { return c.WorkloadIdentityClaims == nil }

// JWKS returns the public keys for external verifiers.
func (i *Issuer) JWKS() jwt.JWKS {
	var keys []jwt.PublicKey
	for _, k := range i.ring.PublicKeys() {
		if key, ok := i.ring.PublicKey(k.KeyID); ok {
			keys = append(keys, key)
		}
	}
	return jwt.NewJWKS(keys)
}

// Discovery returns the OIDC discovery document, or nil if no issuer is configured.
func (i *Issuer) Discovery() *idtoken.DiscoveryConfig {
	if i.url == "" {
		return nil
	}
	return &idtoken.DiscoveryConfig{
		Issuer:        i.url,
		JWKS:          i.url + rootkey.JWKSPath,
		IDTokenAlgs:   []string{jwt.RS256, jwt.EdDSA},
		ResponseTypes: []string{"code"},
		Subjects:      []string{"public"},
		Claims:        idtoken.ClaimNames(),
	}
}
