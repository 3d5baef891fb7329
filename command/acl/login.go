package acl

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/command/term"
)

// callbackPath is the path of the redirect URI.
const callbackPath = "/oidc/callback"

// loginFlags are the flags of login.
type loginFlags struct {
	method, ofType, token, callback string
	noBrowser                       bool
}

func (o *loginFlags) declare(f *term.Flags) {
	f.StringVar(&o.method, "method", "", "The `name` of the auth method. Default: the default auth method, of -type if given.")
	f.StringVar(&o.ofType, "type", "", "The type of the auth method: JWT or OIDC.")
	f.StringVar(&o.token, "login-token", "",
		"The `token` of the identity provider, for the type JWT, or - to read it from standard\n"+
			"input. Other users of the machine can see command lines.")
	f.StringVar(&o.callback, "oidc-callback-addr", "localhost:4649",
		"The local `address` of the redirect URI. The auth method must allow\nhttp://<address>"+callbackPath+" as a redirect URI.")
	f.BoolVar(&o.noBrowser, "no-browser", false,
		"Do not open a browser or listen on a port. Print the URL, to open on any machine, and\n"+
			"read the redirect URL or its code from standard input.")
}

func loginCommand() term.Command {
	return term.Query(term.Command{
		Name: "login", Short: "Log in with an identity provider and get a token",
		Long: "The token is printed and not stored. Set NOMAD_TOKEN to its secret ID.\n\n" +
			"    nomad login\n    nomad login -method ci -login-token - < token.jwt\n    export NOMAD_TOKEN=$(nomad login -t '{{ .SecretID }}')",
	}, func(f *term.Flags) term.Ask[*api.ACLToken] {
		o := &loginFlags{}
		o.declare(f)
		return func(ctx context.Context, e *term.Env, c *api.Client) (*api.ACLToken, error) {
			m, err := o.choose(ctx, c)
			if err != nil {
				return nil, err
			}
			login := o.byToken
			if m.Type == api.ACLAuthMethodTypeOIDC {
				login = o.byBrowser
			}
			t, err := login(ctx, e, c, m.Name)
			if err != nil {
				return nil, fmt.Errorf("Error logging in with auth method %q: %w", m.Name, err)
			}
			return t, nil
		}
	}, showToken)
}

// choose finds the auth method for the flags.
func (o *loginFlags) choose(ctx context.Context, c *api.Client) (*api.ACLAuthMethodListStub, error) {
	all, _, err := c.ACLAuthMethods().List(reading(ctx))
	if err != nil {
		return nil, fmt.Errorf("Error listing ACL auth methods: %w", err)
	}
	var names []string
	for _, m := range all {
		names = append(names, m.Name)
		if m.Name == o.method && (o.ofType == "" || strings.EqualFold(o.ofType, m.Type)) {
			return m, nil
		}
	}
	found := slices.DeleteFunc(slices.Clone(all), func(m *api.ACLAuthMethodListStub) bool {
		return !m.Default || o.ofType != "" && !strings.EqualFold(o.ofType, m.Type)
	})
	switch {
	case len(all) == 0:
		return nil, errors.New("Error logging in: no ACL auth methods found")
	case o.method != "":
		return nil, fmt.Errorf("Error logging in: ACL auth method %q of this type not found; existing methods: %s", o.method,
			strings.Join(names, ", "))
	case len(found) == 0:
		return nil, fmt.Errorf("Error logging in: no default ACL auth method of this type: set -method to one of %s", strings.Join(names, ", "))
	case len(found) > 1:
		return nil, errors.New("Error logging in: each type has a default ACL auth method: set -type to JWT or OIDC")
	}
	return found[0], nil
}

// byToken logs in with a JWT.
func (o *loginFlags) byToken(ctx context.Context, e *term.Env, c *api.Client, method string) (*api.ACLToken, error) {
	token := o.token
	switch token {
	case "":
		return nil, errors.New("a token is required: set -login-token, or -login-token=- to read it from standard input")
	case "-":
		var err error
		if token, err = e.Secret("Login token: "); err != nil {
			return nil, err
		}
	}
	t, _, err := c.ACLAuth().Login(&api.ACLLoginRequest{AuthMethodName: method, LoginToken: token}, writing(ctx))
	return t, err
}

// byBrowser logs in with a browser, on this machine or another.
func (o *loginFlags) byBrowser(ctx context.Context, e *term.Env, c *api.Client, method string) (*api.ACLToken, error) {
	b := make([]byte, 32)
	rand.Read(b) // never fails
	end := &api.ACLOIDCCompleteAuthRequest{AuthMethodName: method, ClientNonce: base64.RawURLEncoding.EncodeToString(b)}
	wait := o.pasted
	if !o.noBrowser {
		l, err := listen(o.callback)
		if err != nil {
			return nil, err
		}
		defer l.close()
		o.callback, wait = l.addr, l.returned
	}
	end.RedirectURI = "http://" + o.callback + callbackPath
	begun, _, err := c.ACLAuth().GetAuthURL(&api.ACLOIDCAuthURLRequest{AuthMethodName: method, RedirectURI: end.RedirectURI,
		ClientNonce: end.ClientNonce}, writing(ctx))
	if err != nil {
		return nil, err
	}
	at, err := url.Parse(begun.AuthURL)
	if err != nil || at.Scheme != "https" && at.Scheme != "http" || at.Host == "" {
		return nil, errors.New("the servers returned an invalid login URL")
	}
	state := at.Query().Get("state")
	return wait(ctx, e, at, func(q url.Values) (*api.ACLToken, error) {
		if err := takeOver(end, q, state); err != nil {
			return nil, err
		}
		t, _, err := c.ACLAuth().CompleteAuth(end, writing(ctx))
		return t, err
	})
}

// finish completes a login with the query of the redirect URI.
type finish func(url.Values) (*api.ACLToken, error)

// errOther means that a response belongs to another login.
var errOther = errors.New("the response belongs to another login")

// takeOver copies the query of the redirect URI into the request.
func takeOver(req *api.ACLOIDCCompleteAuthRequest, q url.Values, state string) error {
	req.State, req.Code, req.Iss = q.Get("state"), q.Get("code"), q.Get("iss")
	switch {
	case subtle.ConstantTimeCompare([]byte(req.State), []byte(state)) != 1:
		return errOther
	case q.Get("error") != "":
		return fmt.Errorf("the identity provider returned %.200q: %.500q", q.Get("error"), q.Get("error_description"))
	case req.Code == "":
		return errors.New("the response has no code")
	}
	return nil
}

// pasted reads the redirect URL, or the code alone, that the user copies from a browser
// on another machine.
func (o *loginFlags) pasted(ctx context.Context, e *term.Env, at *url.URL, end finish) (*api.ACLToken, error) {
	e.Warnf("Open this URL in a browser, on any machine, and log in:\n\n    %s\n\n"+
		"The browser is then redirected to http://%s%s, which may fail to load. Paste the complete URL here:", at, o.callback, callbackPath)
	line, err := e.Line(ctx)
	if err != nil {
		return nil, err
	}
	back, err := url.Parse(line)
	if err != nil {
		return nil, errors.New("the input is neither a URL nor a code")
	}
	q := back.Query()
	if back.RawQuery == "" {
		q = url.Values{"code": {line}, "state": {at.Query().Get("state")}}
	}
	return end(q)
}
