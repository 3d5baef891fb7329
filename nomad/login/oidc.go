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

	"github.com/open-nomad/open-nomad/nomad/rbac"
)

// Limits for the parameters of an OIDC login.
const (
	minNonce = 16
	maxNonce = 256
	maxCode  = 16 << 10
)

// Begin returns the URL to open in a browser. The provider sends the browser to redirect, which
// the method must allow, with the state of the login.
func (d *Service) Begin(ctx context.Context, m *rbac.AuthMethod, redirect, nonce string) (string, error) {
	if len(nonce) < minNonce || len(nonce) > maxNonce {
		return "", fmt.Errorf("%w: the client nonce must have %d to %d characters", ErrDenied, minNonce, maxNonce)
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
	if m.Config.OIDCEnablePKCE || isPublic(m.Config) { // a public client has no other protection for its code
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

// scopes returns the requested scopes, which always include openid.
func scopes(c *rbac.AuthMethodConfig) string {
	out := "openid"
	for _, s := range c.OIDCScopes {
		if s != "openid" {
			out += " " + s
		}
	}
	return out
}

// Callback holds the parameters of the redirect from the provider.
type Callback struct {
	State, Code, Nonce, Redirect string
	// Issuer is the issuer parameter (RFC 9207), if present.
	Issuer string
}

// errOther is the single error for an unknown, expired or mismatching login.
var errOther = fmt.Errorf("%w: unknown login: it took longer than %s, has already ended, or another server has "+
	"become the leader; log in again", ErrDenied, pendingWithin)

// End exchanges the code of a login for tokens and returns the user's claims. A login can end
// only once.
func (d *Service) End(ctx context.Context, m *rbac.AuthMethod, r Callback) (*Claims, error) {
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
	if r.Issuer != p.issuer && (r.Issuer != "" || found.sendsIss) {
		return nil, fmt.Errorf("%w: another identity provider answered", ErrDenied)
	}
	x := &exchange{method: m, provider: p, found: found, login: l}
	tokens, err := d.tokens(ctx, x, r.Code)
	if err != nil {
		return nil, err
	}
	said, err := d.readTokens(ctx, x, tokens)
	if err != nil {
		return nil, err
	}
	return mapClaims(said, m.Config.ClaimMappings, m.Config.ListClaimMappings)
}

// exchange is the end of one login.
type exchange struct {
	method   *rbac.AuthMethod
	provider *provider
	found    *discovered
	login    *login
}

// tokens exchanges the code for tokens.
func (d *Service) tokens(ctx context.Context, x *exchange, code string) (*oauth2.Token, error) {
	c, l := x.method.Config, x.login
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	conf := oauth2.Config{ClientID: c.OIDCClientID, ClientSecret: c.OIDCClientSecret, Endpoint: x.found.endpoint(), RedirectURL: l.redirect}
	var opts []oauth2.AuthCodeOption
	if l.verifier != "" {
		opts = append(opts, oauth2.VerifierOption(l.verifier))
	}
	switch assertion := c.OIDCClientAssertion; {
	case assertion != nil:
		signed, err := d.assert(ctx, c, assertion)
		if err != nil {
			return nil, err
		}
		conf.ClientSecret, conf.Endpoint.AuthStyle = "", oauth2.AuthStyleInParams
		opts = append(opts, oauth2.SetAuthURLParam("client_assertion_type", "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"),
			oauth2.SetAuthURLParam("client_assertion", signed))
	case conf.ClientSecret == "":
		conf.Endpoint.AuthStyle = oauth2.AuthStyleInParams // a public client
	}
	tokens, err := conf.Exchange(x.provider.context(ctx), code, opts...)
	var refused *oauth2.RetrieveError
	switch {
	case errors.As(err, &refused) && refused.ErrorCode != "":
		return nil, fmt.Errorf("%w: the identity provider rejected the code: %.64q", ErrDenied, refused.ErrorCode)
	case errors.As(err, &refused): // its text would contain the answer
		return nil, fmt.Errorf("%w: exchange the code: it returned status %d", ErrProvider, refused.Response.StatusCode)
	case err != nil:
		return nil, fmt.Errorf("%w: exchange the code: %w", ErrProvider, withoutQuery(err))
	}
	return tokens, nil
}

// withoutQuery removes the query of the URL from an error.
func withoutQuery(err error) error {
	var failed *url.Error
	if errors.As(err, &failed) {
		return failed.Err
	}
	return errors.New("invalid answer")
}

// readTokens verifies the ID token and adds the user info.
func (d *Service) readTokens(ctx context.Context, x *exchange, tokens *oauth2.Token) (map[string]any, error) {
	raw, ok := tokens.Extra("id_token").(string)
	if !ok || raw == "" {
		return nil, fmt.Errorf("%w: it returned no ID token", ErrProvider)
	}
	c, p := x.method.Config, x.provider
	want := expected{issuers: []string{p.issuer}, audiences: c.BoundAudiences, client: c.OIDCClientID, nonce: x.login.nonce, config: c}
	var err error
	if want.algs, err = allowed(c.SigningAlgs); err != nil {
		return nil, fmt.Errorf("auth method %q: %w", x.method.Name, err)
	}
	said, err := p.verify(ctx, raw, want, d.now())
	if err != nil {
		return nil, err
	}
	if c.OIDCDisableUserInfo || x.found.oidc.UserInfoEndpoint() == "" {
		return said, nil
	}
	return p.addUserInfo(ctx, x.found, tokens, said)
}

// addUserInfo adds the claims of the user info that the ID token does not have. Claims in the
// ID token take precedence, because they are signed.
func (p *provider) addUserInfo(ctx context.Context, found *discovered, tokens *oauth2.Token, said map[string]any) (map[string]any, error) {
	if _, err := parseURL(found.oidc.UserInfoEndpoint()); err != nil {
		return nil, fmt.Errorf("%w: the URL of its user info: %w", ErrProvider, err)
	}
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	info, err := found.oidc.UserInfo(p.context(ctx), oauth2.StaticTokenSource(tokens))
	if err != nil {
		return nil, fmt.Errorf("%w: request user info: %w", ErrProvider, withoutQuery(err))
	}
	if info.Subject != said["sub"] {
		return nil, fmt.Errorf("%w: the user info is of another user", ErrDenied)
	}
	var more numbers
	if err := info.Claims(&more); err != nil {
		return nil, fmt.Errorf("%w: its user info is invalid", ErrProvider)
	}
	out := maps.Clone(map[string]any(more))
	maps.Copy(out, said)
	return out, nil
}

// numbers is a JSON object whose numbers keep their notation.
type numbers map[string]any

// UnmarshalJSON implements json.Unmarshaler.
func (n *numbers) UnmarshalJSON(text []byte) error {
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	return dec.Decode((*map[string]any)(n))
}
