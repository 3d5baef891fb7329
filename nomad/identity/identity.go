// Package identity says what tokens claim, signs them and verifies them: those
// of workloads, of nodes and of nodes that are to be introduced (compat/identity.md).
//
//	nomad/keyring   which key, and when          internal/jwt   how it is written
//	        └────────────▶ this package ◀──────────────┘
//	                    what may be said
//
// A token that Verify lets through was signed by one of our keys, is within its
// time, is meant for us and is of exactly one kind. Whether its holder still
// lives, and what it may do, is for nomad/authz to say.
//
// Rules that are stricter than upstream's: a node identity or introduction
// without an end is refused; so is a token that was made for another audience.
//
// An Issuer remembers tokens whose signature it has checked, as long as their keys
// are ours. MintAll spreads signing over the cores; it leaves no goroutine behind.
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
	"github.com/open-nomad/open-nomad/nomad/audit"
	"github.com/open-nomad/open-nomad/nomad/keyring"
	"github.com/open-nomad/open-nomad/nomad/login"
	"github.com/open-nomad/open-nomad/nomad/rpc"
	"github.com/open-nomad/open-nomad/nomad/ticket"
)

// Leeway is how far the clocks of two servers may be apart.
const Leeway = time.Minute

// latest is the last second of the year 9999: no token ends later.
const latest = 253_402_300_799

// ServerTTL is how long the identity of a server is good.
const ServerTTL = time.Minute

// ErrExpired means that the token was good once. What Verify returns with it are
// the claims, for those who let a node come back with an old token.
var ErrExpired = fmt.Errorf("%w: %w", jwt.ErrInvalid, rpc.ErrExpired)

// Config is what an Issuer is made of.
type Config struct {
	Ring   *keyring.Ring
	Region string
	// URL is the OIDC issuer, "" when none is configured.
	URL string
	// AnyAudience accepts workload identities whatever their audience.
	AnyAudience bool
	// Audit has what is signed on record, but for what servers show each other; nil is
	// none. A token that can't be recorded, when that is enforced, is not given out.
	Audit *audit.Log
}

// Issuer signs and verifies tokens with the keys of a ring.
type Issuer struct {
	ring   *keyring.Ring
	region string
	url    string
	anyAud bool
	audit  *audit.Log
	seen   seen
}

// New returns an issuer.
func New(c Config) *Issuer {
	return &Issuer{ring: c.Ring, region: c.Region, url: c.URL, anyAud: c.AnyAudience, audit: c.Audit}
}

// Mint signs claims with the active key, or with the one for the algorithm that is
// asked for; it waits for one within ctx.
func (i *Issuer) Mint(ctx context.Context, claims *nomad.IdentityClaims) (nomad.Token, error) {
	key, err := i.signer(ctx, claims.Alg)
	if err != nil {
		return nomad.Token{}, fmt.Errorf("mint %q: %w", claims.Subject, err)
	}
	token, err := i.mint(key, claims)
	if err == nil {
		err = i.record([]*nomad.IdentityClaims{claims}, []nomad.Token{token})
	}
	if err != nil {
		return nomad.Token{}, err
	}
	return token, nil
}

// signer returns the key that signs what asks for the algorithm.
func (i *Issuer) signer(ctx context.Context, alg string) (jwt.Key, error) {
	if alg == jwt.RS256 {
		return i.ring.RSASigner(ctx)
	}
	return i.ring.ActiveSigner(ctx)
}

// mint signs claims with key.
func (i *Issuer) mint(key jwt.Key, claims *nomad.IdentityClaims) (nomad.Token, error) {
	said := *claims
	said.Issuer = i.url
	if mustEnd(&said) && said.Expiry == 0 {
		return nomad.Token{}, fmt.Errorf("mint %q: no end, a token of a node must have one", claims.Subject)
	}
	raw, err := key.Sign(&said)
	if err != nil {
		return nomad.Token{}, fmt.Errorf("mint %q: %w", claims.Subject, err)
	}
	return nomad.NewToken(raw, key.ID), nil
}

// ClientAssertion signs that this cluster is a client of an identity provider. Nothing that
// it says makes it a token of ours.
func (i *Issuer) ClientAssertion(ctx context.Context, a login.Assertion) (string, error) {
	key, err := i.signer(ctx, a.Alg)
	if err != nil {
		return "", fmt.Errorf("sign as the client of an identity provider: %w", err)
	}
	if key.Alg != a.Alg {
		return "", fmt.Errorf("sign as the client of an identity provider: the active root key signs %s, not %s", key.Alg, a.Alg)
	}
	return key.SignWith(a.Claims(), a.Headers)
}

// Ticket signs what stands for a caller's token in a call of a node. It is not on record: the
// call is.
func (i *Issuer) Ticket(ctx context.Context, t ticket.Ticket, now time.Time) (string, error) {
	key, err := i.ring.ActiveSigner(ctx)
	if err != nil {
		return "", fmt.Errorf("sign a ticket for %s: %w", t.Method, err)
	}
	return ticket.Sign(key, t, now)
}

// MintAll signs many claims, those of an algorithm with one key, on all cores.
// Tokens are in the order of the claims; on an error there are none.
func (i *Issuer) MintAll(ctx context.Context, claims []*nomad.IdentityClaims) ([]nomad.Token, error) {
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

// mintWith signs claims with the keys of their algorithms. The caller's goroutine is the
// first that does: most plans need one token, and nobody is woken for it.
func (i *Issuer) mintWith(ctx context.Context, keys map[string]jwt.Key, claims []*nomad.IdentityClaims) ([]nomad.Token, error) {
	tokens := make([]nomad.Token, len(claims))
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

// record puts on record what was signed.
func (i *Issuer) record(claims []*nomad.IdentityClaims, tokens []nomad.Token) error {
	if !i.audit.On() {
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

// Verify returns what a token says when it is ours and in time. Every error
// wraps jwt.ErrInvalid; with ErrExpired the claims are returned too. Only when
// the key of a token is known and closed, its public half not known, nobody can tell:
// then it wraps keyring.ErrClosed.
//
// The claims may be shared with other callers: they are read, never written to.
func (i *Issuer) Verify(raw string, now time.Time) (*nomad.IdentityClaims, error) {
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

// read returns what a token says that one of our keys signed, whenever that was.
func (i *Issuer) read(raw string) (*nomad.IdentityClaims, error) {
	removals := i.ring.Removals()
	if c := i.seen.claims(raw, removals); c != nil {
		return c, nil
	}
	closed := false
	payload, _, err := jwt.Parse(raw, func(kid string) (jwt.PublicKey, bool) {
		key, ok := i.ring.PublicKey(kid)
		closed = !ok && i.ring.Knows(kid)
		return key, ok
	})
	if closed {
		return nil, fmt.Errorf("read a token: %w", keyring.ErrClosed)
	}
	if err != nil {
		return nil, err
	}
	c := new(nomad.IdentityClaims)
	if err := json.Unmarshal(payload, c); err != nil {
		return nil, fmt.Errorf("%w: %w", jwt.ErrInvalid, err)
	}
	i.seen.put(raw, c, removals)
	return c, nil
}

// check refuses what is wrong with claims whatever the key that signed them.
func (i *Issuer) check(c *nomad.IdentityClaims, now time.Time) error {
	soon := now.Add(Leeway).Unix()
	switch {
	case c.Expiry < 0, mustEnd(c) && c.Expiry == 0:
		return fmt.Errorf("%w: it has no end", jwt.ErrInvalid)
	case c.ServerIdentityClaims != nil && (c.Expiry-c.IssuedAt > int64(ServerTTL/time.Second) || len(c.Audience) == 0):
		return fmt.Errorf("%w: it is no identity that servers make", jwt.ErrInvalid)
	case c.NotBefore <= 0, c.IssuedAt <= 0, c.Expiry > latest:
		return fmt.Errorf("%w: its times are none that we write", jwt.ErrInvalid)
	case c.NotBefore > soon, c.IssuedAt > soon:
		return fmt.Errorf("%w: it is not valid yet", jwt.ErrInvalid)
	case c.Issuer != "" && i.url != "" && c.Issuer != i.url:
		return fmt.Errorf("%w: it is of another issuer", jwt.ErrInvalid)
	case !i.ours(c):
		return fmt.Errorf("%w: it is for another audience", jwt.ErrInvalid)
	}
	return nil
}

// ours says whether a token was made for us, not for somebody else who then had it.
func (i *Issuer) ours(c *nomad.IdentityClaims) bool {
	return len(c.Audience) == 0 || slices.Contains(c.Audience, nomad.IdentityDefaultAud) ||
		i.anyAud && c.WorkloadIdentityClaims != nil
}

// mustEnd says whether claims are of a kind that must have an end.
func mustEnd(c *nomad.IdentityClaims) bool { return c.WorkloadIdentityClaims == nil }

// JWKS returns the public keys as outside verifiers fetch them.
func (i *Issuer) JWKS() jwt.JWKS {
	var keys []jwt.PublicKey
	for _, k := range i.ring.PublicKeys() {
		if key, ok := i.ring.PublicKey(k.KeyID); ok {
			keys = append(keys, key)
		}
	}
	return jwt.NewJWKS(keys)
}

// Discovery returns the OIDC discovery document, nil when no issuer is configured.
func (i *Issuer) Discovery() *nomad.OIDCDiscoveryConfig {
	if i.url == "" {
		return nil
	}
	return &nomad.OIDCDiscoveryConfig{
		Issuer:        i.url,
		JWKS:          i.url + nomad.JWKSPath,
		IDTokenAlgs:   []string{jwt.RS256, jwt.EdDSA},
		ResponseTypes: []string{"code"},
		Subjects:      []string{"public"},
		Claims:        nomad.ClaimNames(),
	}
}
