package acl

import (
	"context"
	"errors"
	"slices"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/login"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rbac"
	"github.com/open-nomad/open-nomad/nomad/rpc"
	"github.com/open-nomad/open-nomad/nomad/rules"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// CreatesGlobalToken reports whether the auth method of a login creates global tokens.
func (s *Service) CreatesGlobalToken(r rpc.Request) bool {
	name := ""
	switch req := r.(type) {
	case *message.ACLLoginRequest:
		name = req.AuthMethodName
	case *message.OIDCAuthURLRequest:
		name = req.AuthMethodName
	case *message.OIDCCompleteAuthRequest:
		name = req.AuthMethodName
	}
	if name == "" || !s.cfg.Control.Enabled {
		return false
	}
	m := s.Snapshot().ACLAuthMethod(nil, name)
	return m != nil && m.TokenLocality == rbac.LocalityGlobal
}

// Login exchanges a JWT of an identity provider for an ACL token.
func (s *Service) Login(ctx context.Context, _ *rpc.Call, req *message.ACLLoginRequest) (*message.ACLLoginResponse, error) {
	m, err := s.loginMethod(req.AuthMethodName, rbac.TypeJWT)
	if err != nil {
		return nil, err
	}
	if req.LoginToken == "" {
		return nil, apierror.Errorf(400, "missing login token")
	}
	claims, err := s.desk.Login(ctx, m, req.LoginToken)
	if err != nil {
		return nil, s.loginFailed(ctx, m, err)
	}
	return s.logIn(ctx, m, claims)
}

// OIDCAuthURL starts an OIDC login and returns the URL to open in a browser.
func (s *Service) OIDCAuthURL(ctx context.Context, _ *rpc.Call, req *message.OIDCAuthURLRequest) (*message.OIDCAuthURLResponse, error) {
	m, err := s.loginMethod(req.AuthMethodName, rbac.TypeOIDC)
	if err != nil {
		return nil, err
	}
	if req.RedirectURI == "" || req.ClientNonce == "" {
		return nil, apierror.Errorf(400, "missing redirect URI or client nonce")
	}
	at, err := s.desk.Begin(ctx, m, req.RedirectURI, req.ClientNonce)
	if err != nil {
		return nil, s.loginFailed(ctx, m, err)
	}
	return &message.OIDCAuthURLResponse{AuthURL: at}, nil
}

// OIDCCompleteAuth completes an OIDC login and returns an ACL token.
func (s *Service) OIDCCompleteAuth(
	ctx context.Context, _ *rpc.Call, req *message.OIDCCompleteAuthRequest,
) (*message.ACLLoginResponse, error) {
	m, err := s.loginMethod(req.AuthMethodName, rbac.TypeOIDC)
	if err != nil {
		return nil, err
	}
	if req.State == "" || req.Code == "" || req.ClientNonce == "" || req.RedirectURI == "" {
		return nil, apierror.Errorf(400, "missing state, code, client nonce or redirect URI")
	}
	claims, err := s.desk.End(ctx, m, login.Callback{
		State: req.State, Code: req.Code, Nonce: req.ClientNonce, Redirect: req.RedirectURI, Issuer: req.Iss,
	})
	if err != nil {
		return nil, s.loginFailed(ctx, m, err)
	}
	return s.logIn(ctx, m, claims)
}

// loginMethod returns the auth method with the name, which must have the type kind.
func (s *Service) loginMethod(name, kind string) (*rbac.AuthMethod, error) {
	if name == "" {
		return nil, apierror.Errorf(400, "missing auth method name")
	}
	m := s.Snapshot().ACLAuthMethod(nil, name)
	switch {
	case m == nil:
		return nil, apierror.Errorf(404, "%s: %s", apierror.ErrACLAuthMethodNotFound, name)
	case m.Type != kind:
		return nil, apierror.Errorf(400, "auth method %q has type %s, not %s", name, m.Type, kind)
	case m.Config == nil:
		return nil, apierror.Errorf(500, "auth method %q has no configuration", name)
	}
	return m, nil
}

// loginFailed returns the error for a failed login. A denied login is logged only with
// VerboseLogging, since anyone can cause one. A failing identity provider is always logged.
func (s *Service) loginFailed(ctx context.Context, m *rbac.AuthMethod, err error) error {
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, login.ErrDenied):
		if m.Config.VerboseLogging {
			s.Log.Info("login denied", "method", m.Name, "err", err)
		}
		return apierror.Errorf(403, "auth method %q: %s: %v", m.Name, err, apierror.ErrPermissionDenied)
	}
	s.Log.Warn("login failed", "method", m.Name, "err", err)
	return apierror.Errorf(500, "auth method %q: the identity provider cannot be reached: see the log of the leader", m.Name)
}

// logIn creates an ACL token for a login. Its rights are those that the binding rules of the
// method give to the claims.
func (s *Service) logIn(ctx context.Context, m *rbac.AuthMethod, claims *login.Claims) (*message.ACLLoginResponse, error) {
	snap := s.Snapshot()
	grant := login.Bind(slices.Collect(snap.ACLBindingRulesByMethod(nil, m.Name)), claims, existing{snap})
	s.logOutcomes(m, claims, grant)
	if grant.Empty() {
		return nil, apierror.Errorf(403, "auth method %q: no binding rule matches these claims: %v", m.Name, apierror.ErrPermissionDenied)
	}
	name, err := login.TokenName(m, claims)
	if err != nil {
		return nil, s.loginFailed(ctx, m, err)
	}
	t := &rbac.Token{Name: name, Type: rbac.ClientToken, Policies: grant.Policies, Roles: grant.Roles,
		Global: m.TokenLocality == rbac.LocalityGlobal, ExpirationTTL: s.boundTTL(m)}
	if grant.Management {
		t.Type = rbac.ManagementToken
	}
	t.Canonicalize(s.Now())
	if err := rules.ACLToken(t, nil, s.cfg.Control.TokenMinTTL, s.cfg.Control.TokenMaxTTL); err != nil {
		return nil, apierror.Errorf(500, "auth method %q: %s", m.Name, err)
	}
	t.SetHash()
	entry := &message.ACLTokenUpsertRequest{Tokens: []*rbac.Token{t}}
	written, err := s.writeTokens(ctx, message.ACLTokenUpsertRequestType, entry, entry.Tokens)
	if err != nil {
		return nil, err
	}
	s.Log.Info("logged in", "method", m.Name, "accessor", t.AccessorID, "management", grant.Management)
	return &message.ACLLoginResponse{ACLToken: written.Tokens[0], WriteMeta: written.WriteMeta}, nil
}

// logOutcomes logs the claims of a login and the result of each binding rule, if the method has
// VerboseLogging.
func (s *Service) logOutcomes(m *rbac.AuthMethod, claims *login.Claims, grant *login.Grant) {
	if !m.Config.VerboseLogging {
		return
	}
	s.Log.Info("claims of a login", "method", m.Name, "claims", claims)
	for _, o := range grant.Outcomes {
		s.Log.Info("binding rule of a login", "method", m.Name, "rule", o.Rule, "bound", o.Bound, "reason", o.Reason)
	}
}

// existing looks up roles and policies in a snapshot.
type existing struct{ snap *state.Snapshot }

// Role implements login.Existing.
func (e existing) Role(name string) string {
	if r := e.snap.ACLRoleByName(nil, name); r != nil {
		return r.ID
	}
	return ""
}

// Policy implements login.Existing.
func (e existing) Policy(name string) bool { return e.snap.ACLPolicy(nil, name) != nil }

// assertions signs the client assertions for identity providers with the keyring.
type assertions struct{ s *Service }

// ClientAssertion signs the claims. For RS256 it creates the RSA key first if there is none.
func (a assertions) ClientAssertion(ctx context.Context, claims login.Assertion) (string, error) {
	if claims.Alg == nomad.IdentityAlgRS256 {
		if err := a.s.keys.EnsureRSA(ctx); err != nil {
			return "", err
		}
	}
	ctx, cancel := a.s.Signing(ctx)
	defer cancel()
	return a.s.Issuer.ClientAssertion(ctx, claims)
}
