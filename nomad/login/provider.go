package login

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"
	"golang.org/x/sync/singleflight"

	"github.com/open-nomad/open-nomad/nomad/rbac"
)

// How long a provider's metadata is cached, and the pause after a failed request.
const (
	discoveryFresh = time.Hour
	maxProviders   = 1000
)

// providers caches the identity providers by the name of the method. A changed configuration
// replaces the entry.
type providers struct {
	now func() time.Time

	mu    sync.Mutex
	byKey map[string]*provider
}

// provider is one identity provider.
type provider struct {
	print  [sha256.Size]byte // digest of the configuration
	client *http.Client
	issuer string // "" without discovery
	source keySource
	now    func() time.Time
	flight singleflight.Group

	mu    sync.Mutex
	known *discovered
	read  time.Time
	tried time.Time
	err   error // of the last attempt
}

// discovered is the metadata of a provider.
type discovered struct {
	oidc      *oidc.Provider
	jwks      string
	sendsIss  bool // the redirect has the issuer parameter
	basicAuth bool // the token endpoint accepts client secrets in a header
}

// of returns the provider of a method.
func (p *providers) of(m *rbac.AuthMethod) (*provider, error) {
	if m.Config == nil {
		return nil, fmt.Errorf("auth method %q has no configuration", m.Name)
	}
	text, err := json.Marshal(m.Config)
	if err != nil {
		return nil, fmt.Errorf("auth method %q: %w", m.Name, err)
	}
	print := sha256.Sum256(append(text, m.Type...))
	p.mu.Lock()
	defer p.mu.Unlock()
	if known := p.byKey[m.Name]; known != nil && known.print == print {
		return known, nil
	}
	made, err := p.open(m)
	if err != nil {
		return nil, fmt.Errorf("auth method %q: %w", m.Name, err)
	}
	made.print = print
	if len(p.byKey) >= maxProviders {
		clear(p.byKey) // they will be created again
	}
	p.byKey[m.Name] = made
	return made, nil
}

// open creates the provider of a method.
func (p *providers) open(m *rbac.AuthMethod) (*provider, error) {
	out, c := &provider{now: p.now}, m.Config
	jwt := m.Type == rbac.TypeJWT
	cas := c.DiscoveryCaPem
	if jwt && c.JWKSURL != "" {
		cas = []string{c.JWKSCACert}
	}
	var err error
	if out.client, err = newClient(cas); err != nil {
		return nil, err
	}
	switch {
	case jwt && len(c.JWTValidationPubKeys) > 0:
		out.source, err = parseKeys(c.JWTValidationPubKeys)
	case jwt && c.JWKSURL != "":
		out.source = &remote{now: p.now, fetch: func(ctx context.Context) ([]key, error) {
			return fetchJWKS(ctx, out.client, c.JWKSURL)
		}}
	case c.OIDCDiscoveryURL != "":
		out.issuer = c.OIDCDiscoveryURL
		out.source = &remote{now: p.now, fetch: func(ctx context.Context) ([]key, error) {
			d, err := out.discover(ctx)
			if err != nil {
				return nil, err
			}
			return fetchJWKS(ctx, out.client, d.jwks)
		}}
	default:
		err = errors.New("it has no keys, no URL of keys and no discovery URL")
	}
	return out, err
}

// discover returns the provider's metadata, at most one hour old.
func (p *provider) discover(ctx context.Context) (*discovered, error) {
	p.mu.Lock()
	known, age, failed, pause := p.known, p.now().Sub(p.read), p.err, p.now().Sub(p.tried)
	p.mu.Unlock()
	switch {
	case known != nil && age < discoveryFresh:
		return known, nil
	case failed != nil && pause < failedWait:
		return nil, failed
	}
	done := p.flight.DoChan("", func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), answerWithin)
		defer cancel()
		found, err := p.ask(ctx)
		p.mu.Lock()
		defer p.mu.Unlock()
		p.tried, p.err = p.now(), err
		if err == nil {
			p.known, p.read = found, p.tried
		}
		return found, err
	})
	select {
	case r := <-done:
		if r.Err != nil {
			return nil, r.Err
		}
		return r.Val.(*discovered), nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// ask fetches the discovery document.
func (p *provider) ask(ctx context.Context) (*discovered, error) {
	if p.issuer == "" {
		return nil, fmt.Errorf("%w: it has no discovery URL", ErrProvider)
	}
	found, err := oidc.NewProvider(p.context(ctx), p.issuer)
	if err != nil {
		return nil, fmt.Errorf("%w: read its discovery document: %.200q", ErrProvider, err) // it may contain the complete answer
	}
	var more struct {
		JWKS     string   `json:"jwks_uri"`
		SendsIss bool     `json:"authorization_response_iss_parameter_supported"`
		Methods  []string `json:"token_endpoint_auth_methods_supported"`
	}
	if err := found.Claims(&more); err != nil {
		return nil, fmt.Errorf("%w: its discovery document is invalid", ErrProvider)
	}
	for _, u := range []string{more.JWKS, found.Endpoint().TokenURL, found.Endpoint().AuthURL} {
		if u == "" && u != more.JWKS {
			continue // a provider for tokens only has no such endpoint
		}
		if _, err := parseURL(u); err != nil {
			return nil, fmt.Errorf("%w: a URL of its discovery document: %w", ErrProvider, err)
		}
	}
	basic := len(more.Methods) == 0 || slices.Contains(more.Methods, "client_secret_basic")
	return &discovered{oidc: found, jwks: more.JWKS, sendsIss: more.SendsIss, basicAuth: basic}, nil
}

// context returns a context in which the libraries use the provider's HTTP client.
func (p *provider) context(ctx context.Context) context.Context {
	return context.WithValue(ctx, oauth2.HTTPClient, p.client)
}

// endpoint returns the token endpoint.
func (d *discovered) endpoint() oauth2.Endpoint {
	e := d.oidc.Endpoint()
	e.AuthStyle = oauth2.AuthStyleInParams
	if d.basicAuth {
		e.AuthStyle = oauth2.AuthStyleInHeader
	}
	return e
}

// authorize returns the URL to open in a browser.
func authorize(at string, query url.Values) (string, error) {
	u, err := parseURL(at)
	if err != nil {
		return "", fmt.Errorf("%w: its authorization endpoint: %w", ErrProvider, err)
	}
	all := u.Query()
	for name, values := range query {
		all[name] = values
	}
	u.RawQuery = all.Encode()
	return u.String(), nil
}
