package aclapi

import (
	"time"

	"github.com/open-nomad/open-nomad/command/agent/httpapi/web"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rbac"
)

// authRoutes returns the routes of auth methods, binding rules and logins. A caller that logs in
// has no token yet.
func authRoutes() []web.Route {
	theMethod := func(o *message.ACLAuthMethodUpsertResponse) (any, error) {
		m, err := first(o.AuthMethods)
		return showAuthMethod(m), err
	}
	theRule := func(o *message.ACLBindingRulesUpsertResponse) (any, error) { return first(o.ACLBindingRules) }
	loggedIn := func(o *message.ACLLoginResponse) (any, error) { return showToken(o.ACLToken), nil }
	return []web.Route{
		{Methods: "GET", Path: "/v1/acl/auth-methods", Handle: web.Read("ACL.ListAuthMethods", web.NoFields[message.ACLAuthMethodListRequest],
			func(o *message.ACLAuthMethodListResponse) (any, error) { return o.AuthMethods, nil })},
		{Methods: "PUT POST", Path: "/v1/acl/auth-method", Call: web.Write("ACL.UpsertAuthMethods", fillAuthMethod, theMethod)},
		{Methods: "GET", Path: "/v1/acl/auth-method/:name", Handle: web.Read("ACL.GetAuthMethod",
			func(r *web.Request, q *message.ACLAuthMethodGetRequest) error {
				q.MethodName = r.Param
				return nil
			},
			func(o *message.ACLAuthMethodGetResponse) (any, error) {
				return web.Found(showAuthMethod(o.AuthMethod), apierror.ErrACLAuthMethodNotFound.Error())
			})},
		{Methods: "PUT POST", Path: "/v1/acl/auth-method/:name", Call: web.Write("ACL.UpsertAuthMethods", fillAuthMethod, theMethod)},
		{Methods: "DELETE", Path: "/v1/acl/auth-method/:name", Call: web.Write("ACL.DeleteAuthMethods",
			func(r *web.Request, q *message.ACLAuthMethodDeleteRequest) error {
				q.Names = []string{r.Param}
				return nil
			}, web.Nothing[message.GenericResponse])},
		{Methods: "GET", Path: "/v1/acl/binding-rules", Handle: web.Read("ACL.ListBindingRules", web.NoFields[message.ACLBindingRulesListRequest],
			func(o *message.ACLBindingRulesListResponse) (any, error) { return o.ACLBindingRules, nil })},
		{Methods: "PUT POST", Path: "/v1/acl/binding-rule", Call: web.Write("ACL.UpsertBindingRules", fillBindingRule, theRule)},
		{Methods: "GET", Path: "/v1/acl/binding-rule/:id", Handle: web.Read("ACL.GetBindingRule",
			func(r *web.Request, q *message.ACLBindingRuleRequest) error {
				q.ACLBindingRuleID = r.Param
				return nil
			},
			func(o *message.ACLBindingRuleResponse) (any, error) {
				return web.Found(o.ACLBindingRule, apierror.ErrACLBindingRuleNotFound.Error())
			})},
		{Methods: "PUT POST", Path: "/v1/acl/binding-rule/:id", Call: web.Write("ACL.UpsertBindingRules", fillBindingRule, theRule)},
		{Methods: "DELETE", Path: "/v1/acl/binding-rule/:id", Call: web.Write("ACL.DeleteBindingRules",
			func(r *web.Request, q *message.ACLBindingRulesDeleteRequest) error {
				q.ACLBindingRuleIDs = []string{r.Param}
				return nil
			}, web.Nothing[message.GenericResponse])},
		{Methods: "PUT POST", Path: "/v1/acl/oidc/auth-url", Call: web.Write("ACL.OIDCAuthURL",
			web.Body[message.OIDCAuthURLRequest](), web.Full[message.OIDCAuthURLResponse])},
		{Methods: "PUT POST", Path: "/v1/acl/oidc/complete-auth", Call: web.Write("ACL.OIDCCompleteAuth",
			web.Body[message.OIDCCompleteAuthRequest](), loggedIn)},
		{Methods: "PUT POST", Path: "/v1/acl/login", Call: web.Write("ACL.Login", web.Body[message.ACLLoginRequest](), loggedIn)},
	}
}

func fillAuthMethod(r *web.Request, q *message.ACLAuthMethodUpsertRequest) (err error) {
	q.AuthMethods, err = object(r, "ACL auth-method", func(o *rbac.AuthMethod) *string { return &o.Name })
	return err
}

func fillBindingRule(r *web.Request, q *message.ACLBindingRulesUpsertRequest) (err error) {
	q.ACLBindingRules, err = object(r, "ACL binding rule", func(o *rbac.BindingRule) *string { return &o.ID })
	return err
}

// authMethodView is the JSON form of an auth method. Durations are strings, "" for none.
type authMethodView struct {
	Name            string
	Type            string
	TokenLocality   string
	TokenNameFormat string
	MaxTokenTTL     string
	Default         bool
	Config          *authConfigView
	Hash            []byte
	CreateTime      time.Time
	ModifyTime      time.Time
	CreateIndex     uint64
	ModifyIndex     uint64
}

// authConfigView is the JSON form of the configuration of an auth method.
type authConfigView struct {
	JWTValidationPubKeys []string
	JWKSURL              string
	OIDCDiscoveryURL     string
	OIDCClientID         string
	OIDCClientSecret     string
	OIDCClientAssertion  *rbac.OIDCClientAssertion
	OIDCEnablePKCE       bool
	OIDCDisableUserInfo  bool
	OIDCScopes           []string
	BoundAudiences       []string
	BoundIssuer          []string
	AllowedRedirectURIs  []string
	DiscoveryCaPem       []string
	JWKSCACert           string
	SigningAlgs          []string
	ExpirationLeeway     string
	NotBeforeLeeway      string
	ClockSkewLeeway      string
	ClaimMappings        map[string]string
	ListClaimMappings    map[string]string
	VerboseLogging       bool
}

func showAuthMethod(m *rbac.AuthMethod) *authMethodView {
	if m == nil {
		return nil
	}
	return &authMethodView{Name: m.Name, Type: m.Type, TokenLocality: m.TokenLocality, TokenNameFormat: m.TokenNameFormat,
		MaxTokenTTL: orNothing(m.MaxTokenTTL),
		Default:     m.Default, Config: showAuthConfig(m.Config), Hash: m.Hash, CreateTime: m.CreateTime, ModifyTime: m.ModifyTime,
		CreateIndex: m.CreateIndex, ModifyIndex: m.ModifyIndex}
}

func showAuthConfig(c *rbac.AuthMethodConfig) *authConfigView {
	if c == nil {
		return nil
	}
	return &authConfigView{JWTValidationPubKeys: c.JWTValidationPubKeys, JWKSURL: c.JWKSURL, OIDCDiscoveryURL: c.OIDCDiscoveryURL,
		OIDCClientID: c.OIDCClientID, OIDCClientSecret: c.OIDCClientSecret, OIDCClientAssertion: c.OIDCClientAssertion,
		OIDCEnablePKCE: c.OIDCEnablePKCE, OIDCDisableUserInfo: c.OIDCDisableUserInfo,
		OIDCScopes: c.OIDCScopes, BoundAudiences: c.BoundAudiences, BoundIssuer: c.BoundIssuer, AllowedRedirectURIs: c.AllowedRedirectURIs,
		DiscoveryCaPem: c.DiscoveryCaPem, JWKSCACert: c.JWKSCACert, SigningAlgs: c.SigningAlgs, ExpirationLeeway: orNothing(c.ExpirationLeeway),
		NotBeforeLeeway: orNothing(c.NotBeforeLeeway), ClockSkewLeeway: orNothing(c.ClockSkewLeeway), ClaimMappings: c.ClaimMappings,
		ListClaimMappings: c.ListClaimMappings, VerboseLogging: c.VerboseLogging}
}

// orNothing formats a duration, "" for zero.
func orNothing(d time.Duration) string {
	if d == 0 {
		return ""
	}
	return d.String()
}
