package httpapi

import (
	"time"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/acls"
)

// aclAuthRoutes returns the routes of auth methods, binding rules and logins. A caller that logs in
// has no token yet.
func aclAuthRoutes() []route {
	theMethod := func(o *acls.AuthMethodUpsertResponse) (any, error) {
		m, err := first(o.AuthMethods)
		return showAuthMethod(m), err
	}
	theRule := func(o *acls.BindingRulesUpsertResponse) (any, error) { return first(o.ACLBindingRules) }
	loggedIn := func(o *acls.LoginResponse) (any, error) { return showToken(o.ACLToken), nil }
	return []route{
		{methods: "GET", path: "/v1/acl/auth-methods", handle: read("ACL.ListAuthMethods", noFields[acls.AuthMethodListRequest],
			func(o *acls.AuthMethodListResponse) (any, error) { return o.AuthMethods, nil })},
		{methods: "PUT POST", path: "/v1/acl/auth-method", call: write("ACL.UpsertAuthMethods", aclAuthMethod, theMethod)},
		{methods: "GET", path: "/v1/acl/auth-method/:name", handle: read("ACL.GetAuthMethod", func(r *request, q *acls.AuthMethodGetRequest) error { q.MethodName = r.param; return nil },
			func(o *acls.AuthMethodGetResponse) (any, error) {
				return found(showAuthMethod(o.AuthMethod), nomad.ErrACLAuthMethodNotFound.Error())
			})},
		{methods: "PUT POST", path: "/v1/acl/auth-method/:name", call: write("ACL.UpsertAuthMethods", aclAuthMethod, theMethod)},
		{methods: "DELETE", path: "/v1/acl/auth-method/:name", call: write("ACL.DeleteAuthMethods", func(r *request, q *acls.AuthMethodDeleteRequest) error { q.Names = []string{r.param}; return nil },
			nothing[acls.AuthMethodDeleteResponse])},
		{methods: "GET", path: "/v1/acl/binding-rules", handle: read("ACL.ListBindingRules", noFields[acls.BindingRulesListRequest],
			func(o *acls.BindingRulesListResponse) (any, error) { return o.ACLBindingRules, nil })},
		{methods: "PUT POST", path: "/v1/acl/binding-rule", call: write("ACL.UpsertBindingRules", aclBindingRule, theRule)},
		{methods: "GET", path: "/v1/acl/binding-rule/:id", handle: read("ACL.GetBindingRule", func(r *request, q *acls.BindingRuleRequest) error { q.ACLBindingRuleID = r.param; return nil },
			func(o *acls.BindingRuleResponse) (any, error) {
				return found(o.ACLBindingRule, nomad.ErrACLBindingRuleNotFound.Error())
			})},
		{methods: "PUT POST", path: "/v1/acl/binding-rule/:id", call: write("ACL.UpsertBindingRules", aclBindingRule, theRule)},
		{methods: "DELETE", path: "/v1/acl/binding-rule/:id", call: write("ACL.DeleteBindingRules", func(r *request, q *acls.BindingRulesDeleteRequest) error {
			q.ACLBindingRuleIDs = []string{r.param}
			return nil
		}, nothing[acls.BindingRulesDeleteResponse])},
		{methods: "PUT POST", path: "/v1/acl/oidc/auth-url", call: write("ACL.OIDCAuthURL", body[acls.OIDCAuthURLRequest](), whole[acls.OIDCAuthURLResponse])},
		{methods: "PUT POST", path: "/v1/acl/oidc/complete-auth", call: write("ACL.OIDCCompleteAuth", body[acls.OIDCCompleteAuthRequest](), loggedIn)},
		{methods: "PUT POST", path: "/v1/acl/login", call: write("ACL.Login", body[acls.LoginRequest](), loggedIn)},
	}
}

func aclAuthMethod(r *request, q *acls.AuthMethodUpsertRequest) error {
	var m acls.AuthMethod
	if err := r.decode(&m); err != nil {
		return err
	}
	q.AuthMethods = []*acls.AuthMethod{&m}
	if r.param == "" {
		return nil
	}
	return sameID("ACL auth-method", &m.Name, r.param)
}

func aclBindingRule(r *request, q *acls.BindingRulesUpsertRequest) error {
	var rule acls.BindingRule
	if err := r.decode(&rule); err != nil {
		return err
	}
	q.ACLBindingRules = []*acls.BindingRule{&rule}
	if r.param == "" {
		return nil
	}
	return sameID("ACL binding rule", &rule.ID, r.param)
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
	OIDCClientAssertion  *acls.OIDCClientAssertion
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

func showAuthMethod(m *acls.AuthMethod) *authMethodView {
	if m == nil {
		return nil
	}
	return &authMethodView{Name: m.Name, Type: m.Type, TokenLocality: m.TokenLocality, TokenNameFormat: m.TokenNameFormat, MaxTokenTTL: orNothing(m.MaxTokenTTL),
		Default: m.Default, Config: showAuthConfig(m.Config), Hash: m.Hash, CreateTime: m.CreateTime, ModifyTime: m.ModifyTime,
		CreateIndex: m.CreateIndex, ModifyIndex: m.ModifyIndex}
}

func showAuthConfig(c *acls.AuthMethodConfig) *authConfigView {
	if c == nil {
		return nil
	}
	return &authConfigView{JWTValidationPubKeys: c.JWTValidationPubKeys, JWKSURL: c.JWKSURL, OIDCDiscoveryURL: c.OIDCDiscoveryURL, OIDCClientID: c.OIDCClientID,
		OIDCClientSecret: c.OIDCClientSecret, OIDCClientAssertion: c.OIDCClientAssertion, OIDCEnablePKCE: c.OIDCEnablePKCE, OIDCDisableUserInfo: c.OIDCDisableUserInfo,
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
