package login

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"

	"golang.org/x/oauth2"

	"github.com/open-nomad/open-nomad/nomad/acls"
)

// Bounds of what a login with OIDC is begun and ended with.
const (
	minNonce = 16
	maxNonce = 256
	maxCode  = 16 << 10
)

// Begin returns the URL that a browser is to open. The browser returns to redirect, which
// must be one that the method allows, with the state of the login.
func (d *Desk) Begin(ctx context.Context, m *acls.AuthMethod, redirect, nonce string) (string, error) {
	if len(nonce) < minNonce || len(nonce) > maxNonce {
		return "", fmt.Errorf("%w: the client nonce has %d to %d characters", ErrDenied, minNonce, maxNonce)
	}
	if !slices.Contains(m.Config.AllowedRedirectURIs, redirect) {
		return "", fmt.Errorf("%w: the auth method does not allow this redirect URI", ErrDenied)
	}
	p, err := d.providers.of(m)
	if err != nil {
		return "", err
	}
	found, err := p.discover(ctx)
	if err != nil {
		return "", err
	}
	l := login{method: m.Name, nonce: nonce, redirect: redirect}
	query := url.Values{"response_type": {"code"}, "client_id": {m.Config.OIDCClientID}, "redirect_uri": {redirect},
		"scope": {scopes(m.Config)}, "nonce": {nonce}}
	if m.Config.OIDCEnablePKCE || isPublic(m.Config) { // nothing else protects the code of a public client
		l.verifier = oauth2.GenerateVerifier()
		query.Set("code_challenge", oauth2.S256ChallengeFromVerifier(l.verifier))
		query.Set("code_challenge_method", "S256")
	}
	at := found.oidc.Endpoint().AuthURL
	if _, err := authorize(at, nil); err != nil {
		return "", err
	}
	query.Set("state", d.pending.begin(l))
	return authorize(at, query)
}

// scopes are what is asked for, openid always.
func scopes(c *acls.AuthMethodConfig) string {
	out := "openid"
	for _, s := range c.OIDCScopes {
		if s != "openid" {
			out += " " + s
		}
	}
	return out
}

// Returned is what a browser came back with.
type Returned struct {
	State, Code, Nonce, Redirect string
	// Issuer is who sent it back, if that was said.
	Issuer string
}

// errOther is one answer for all that a login may be wrong in.
var errOther = fmt.Errorf("%w: no such login is under way: it took longer than %s, was ended already, or another server leads now; log in again", ErrDenied, pendingWithin)

// End exchanges the code that a login came back with, and returns the claims of who
// logged in. It does so once.
func (d *Desk) End(ctx context.Context, m *acls.AuthMethod, r Returned) (*Claims, error) {
	switch {
	case r.Code == "" || len(r.Code) > maxCode:
		return nil, fmt.Errorf("%w: the code is missing or too long", ErrDenied)
	case !slices.Contains(m.Config.AllowedRedirectURIs, r.Redirect):
		return nil, fmt.Errorf("%w: the auth method does not allow this redirect URI", ErrDenied)
	}
	l, ok := d.pending.end(r.State, login{method: m.Name, nonce: r.Nonce, redirect: r.Redirect})
	if !ok {
		return nil, errOther
	}
	p, err := d.providers.of(m)
	if err != nil {
		return nil, err
	}
	found, err := p.discover(ctx)
	if err != nil {
		return nil, err
	}
	if r.Issuer != p.issuer && (r.Issuer != "" || found.saysIss) {
		return nil, fmt.Errorf("%w: another identity provider answered", ErrDenied)
	}
	tokens, err := d.exchange(ctx, m, p, found, l, r.Code)
	if err != nil {
		return nil, err
	}
	said, err := d.readTokens(ctx, m, p, found, l, tokens)
	if err != nil {
		return nil, err
	}
	return mapClaims(said, m.Config.ClaimMappings, m.Config.ListClaimMappings)
}

// exchange gives the code away for tokens.
func (d *Desk) exchange(ctx context.Context, m *acls.AuthMethod, p *provider, found *discovered, l *login, code string) (*oauth2.Token, error) {
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	conf := oauth2.Config{ClientID: m.Config.OIDCClientID, ClientSecret: m.Config.OIDCClientSecret, Endpoint: found.endpoint(), RedirectURL: l.redirect}
	var opts []oauth2.AuthCodeOption
	if l.verifier != "" {
		opts = append(opts, oauth2.VerifierOption(l.verifier))
	}
	switch assertion := m.Config.OIDCClientAssertion; {
	case assertion != nil:
		signed, err := d.assert(ctx, m.Config, assertion)
		if err != nil {
			return nil, err
		}
		conf.ClientSecret, conf.Endpoint.AuthStyle = "", oauth2.AuthStyleInParams
		opts = append(opts, oauth2.SetAuthURLParam("client_assertion_type", "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"),
			oauth2.SetAuthURLParam("client_assertion", signed))
	case conf.ClientSecret == "":
		conf.Endpoint.AuthStyle = oauth2.AuthStyleInParams // a public client
	}
	tokens, err := conf.Exchange(p.context(ctx), code, opts...)
	var refused *oauth2.RetrieveError
	switch {
	case errors.As(err, &refused) && refused.ErrorCode != "":
		return nil, fmt.Errorf("%w: the identity provider does not take the code: %.64q", ErrDenied, refused.ErrorCode)
	case errors.As(err, &refused): // its text would hold what was answered
		return nil, fmt.Errorf("%w: exchange the code: it answers with the status %d", ErrProvider, refused.Response.StatusCode)
	case err != nil:
		return nil, fmt.Errorf("%w: exchange the code: %w", ErrProvider, withoutQuery(err))
	}
	return tokens, nil
}

// withoutQuery is an error of a request without what its URL held.
func withoutQuery(err error) error {
	var failed *url.Error
	if errors.As(err, &failed) {
		return failed.Err
	}
	return errors.New("its answer is none")
}

// readTokens verifies the ID token, and adds what the provider knows of the user.
func (d *Desk) readTokens(ctx context.Context, m *acls.AuthMethod, p *provider, found *discovered, l *login, tokens *oauth2.Token) (map[string]any, error) {
	raw, ok := tokens.Extra("id_token").(string)
	if !ok || raw == "" {
		return nil, fmt.Errorf("%w: it gave no ID token", ErrProvider)
	}
	c := m.Config
	want := expected{issuers: []string{p.issuer}, audiences: c.BoundAudiences, client: c.OIDCClientID, nonce: l.nonce, config: c}
	var err error
	if want.algs, err = allowed(c.SigningAlgs); err != nil {
		return nil, fmt.Errorf("auth method %q: %w", m.Name, err)
	}
	said, err := verify(ctx, raw, p.source, want, d.now())
	if err != nil {
		return nil, err
	}
	if c.OIDCDisableUserInfo || found.oidc.UserInfoEndpoint() == "" {
		return said, nil
	}
	return p.addUserInfo(ctx, found, tokens, said)
}

// addUserInfo adds claims that the ID token does not have. Those that it has stay: they
// were signed.
func (p *provider) addUserInfo(ctx context.Context, found *discovered, tokens *oauth2.Token, said map[string]any) (map[string]any, error) {
	if _, err := parseURL(found.oidc.UserInfoEndpoint()); err != nil {
		return nil, fmt.Errorf("%w: the URL of its user info: %w", ErrProvider, err)
	}
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	info, err := found.oidc.UserInfo(p.context(ctx), oauth2.StaticTokenSource(tokens))
	if err != nil {
		return nil, fmt.Errorf("%w: ask for user info: %w", ErrProvider, withoutQuery(err))
	}
	if info.Subject != said["sub"] {
		return nil, fmt.Errorf("%w: the user info is of another user", ErrDenied)
	}
	var more numbers
	if err := info.Claims(&more); err != nil {
		return nil, fmt.Errorf("%w: its user info is none", ErrProvider)
	}
	out := maps.Clone(map[string]any(more))
	maps.Copy(out, said)
	return out, nil
}

// numbers is an object whose numbers stay as they were written.
type numbers map[string]any

// UnmarshalJSON reads the object.
func (n *numbers) UnmarshalJSON(text []byte) error {
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	return dec.Decode((*map[string]any)(n))
}
