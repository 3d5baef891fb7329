package api

import (
	"encoding/json"
	"fmt"
	"time"
)

// Types of auth methods, and localities of the tokens that they create.
const (
	ACLAuthMethodTypeOIDC            = "OIDC"
	ACLAuthMethodTypeJWT             = "JWT"
	ACLAuthMethodTokenLocalityLocal  = "local"
	ACLAuthMethodTokenLocalityGlobal = "global"
)

// Bind types of binding rules.
const (
	ACLBindingRuleBindTypeRole       = "role"
	ACLBindingRuleBindTypePolicy     = "policy"
	ACLBindingRuleBindTypeManagement = "management"
)

// ACLAuthMethod configures logins with tokens of an identity provider.
type ACLAuthMethod struct {
	Name            string
	Type            string // "OIDC" or "JWT"
	TokenLocality   string // "local" or "global"
	TokenNameFormat string
	MaxTokenTTL     time.Duration
	Default         bool // used for logins of its type that name no method
	Config          *ACLAuthMethodConfig
	CreateTime      time.Time
	ModifyTime      time.Time
	CreateIndex     uint64
	ModifyIndex     uint64
}

// MarshalJSON encodes the TTL as a string such as "1h0m0s", or "" if it is zero.
func (m *ACLAuthMethod) MarshalJSON() ([]byte, error) {
	type plain ACLAuthMethod
	return json.Marshal(&struct {
		MaxTokenTTL string
		*plain
	}{durationText(m.MaxTokenTTL), (*plain)(m)})
}

// UnmarshalJSON decodes the TTL from a string or from nanoseconds.
func (m *ACLAuthMethod) UnmarshalJSON(b []byte) error {
	type plain ACLAuthMethod
	aux := &struct {
		MaxTokenTTL any
		*plain
	}{plain: (*plain)(m)}
	if err := json.Unmarshal(b, aux); err != nil {
		return err
	}
	ttl, err := durationOf(aux.MaxTokenTTL)
	if err != nil {
		return fmt.Errorf("MaxTokenTTL: %w", err)
	}
	m.MaxTokenTTL = ttl
	return nil
}

// ACLAuthMethodConfig configures the accepted tokens of an auth method and the claims that
// it uses. Secrets are returned as "redacted". An update with this value keeps them.
type ACLAuthMethodConfig struct {
	// The signing keys are from JWTValidationPubKeys, JWKSURL or OIDCDiscoveryURL.
	JWTValidationPubKeys []string
	JWKSURL              string
	OIDCDiscoveryURL     string
	OIDCClientID         string
	OIDCClientSecret     string
	OIDCClientAssertion  *OIDCClientAssertion
	OIDCEnablePKCE       bool
	OIDCDisableUserInfo  bool
	OIDCScopes           []string
	BoundAudiences       []string
	BoundIssuer          []string
	AllowedRedirectURIs  []string
	DiscoveryCaPem       []string
	JWKSCACert           string
	SigningAlgs          []string
	ExpirationLeeway     time.Duration
	NotBeforeLeeway      time.Duration
	ClockSkewLeeway      time.Duration
	ClaimMappings        map[string]string
	ListClaimMappings    map[string]string
	VerboseLogging       bool
}

// MarshalJSON encodes the leeways as strings such as "1m0s", or "" if they are zero.
func (c *ACLAuthMethodConfig) MarshalJSON() ([]byte, error) {
	type plain ACLAuthMethodConfig
	return json.Marshal(&struct {
		ExpirationLeeway, NotBeforeLeeway, ClockSkewLeeway string
		*plain
	}{durationText(c.ExpirationLeeway), durationText(c.NotBeforeLeeway), durationText(c.ClockSkewLeeway), (*plain)(c)})
}

// UnmarshalJSON decodes the leeways from strings or from nanoseconds.
func (c *ACLAuthMethodConfig) UnmarshalJSON(b []byte) error {
	type plain ACLAuthMethodConfig
	aux := &struct {
		ExpirationLeeway, NotBeforeLeeway, ClockSkewLeeway any
		*plain
	}{plain: (*plain)(c)}
	if err := json.Unmarshal(b, aux); err != nil {
		return err
	}
	for _, f := range []struct {
		name string
		from any
		to   *time.Duration
	}{
		{"ExpirationLeeway", aux.ExpirationLeeway, &c.ExpirationLeeway},
		{"NotBeforeLeeway", aux.NotBeforeLeeway, &c.NotBeforeLeeway},
		{"ClockSkewLeeway", aux.ClockSkewLeeway, &c.ClockSkewLeeway},
	} {
		d, err := durationOf(f.from)
		if err != nil {
			return fmt.Errorf("%s: %w", f.name, err)
		}
		*f.to = d
	}
	return nil
}

// OIDCClientAssertionKeySource is the source of the key of a client assertion.
type OIDCClientAssertionKeySource string

// OIDCClientAssertionKeyIDHeader is the JWT header with the key ID of an assertion.
type OIDCClientAssertionKeyIDHeader string

// Key sources and key ID headers of client assertions.
const (
	OIDCKeySourceNomad               OIDCClientAssertionKeySource   = "nomad"
	OIDCKeySourcePrivateKey          OIDCClientAssertionKeySource   = "private_key"
	OIDCKeySourceClientSecret        OIDCClientAssertionKeySource   = "client_secret"
	OIDCClientAssertionHeaderKid     OIDCClientAssertionKeyIDHeader = "kid"
	OIDCClientAssertionHeaderX5t     OIDCClientAssertionKeyIDHeader = "x5t"
	OIDCClientAssertionHeaderX5tS256 OIDCClientAssertionKeyIDHeader = "x5t#S256"
)

// OIDCClientAssertion configures a signed client assertion in place of a client secret.
type OIDCClientAssertion struct {
	KeySource    OIDCClientAssertionKeySource
	Audience     []string
	PrivateKey   *OIDCClientAssertionKey
	ExtraHeaders map[string]string
	KeyAlgorithm string
	ClientSecret string
}

// OIDCClientAssertionKey is the signing key of a client assertion, and its key ID.
type OIDCClientAssertionKey struct {
	PemKey      string
	PemKeyFile  string
	KeyIDHeader OIDCClientAssertionKeyIDHeader
	PemCert     string
	PemCertFile string
	KeyID       string
}

// ACLAuthMethodListStub is the list entry of an auth method.
type ACLAuthMethodListStub struct {
	Name        string
	Type        string
	Default     bool
	CreateIndex uint64
	ModifyIndex uint64
}

// ACLBindingRule grants a role, a policy or management to logins with an auth method
// whose claims match the selector.
type ACLBindingRule struct {
	ID          string
	Description string
	AuthMethod  string
	Selector    string
	BindType    string // "role", "policy" or "management"
	BindName    string
	CreateTime  time.Time
	ModifyTime  time.Time
	CreateIndex uint64
	ModifyIndex uint64
}

// ACLBindingRuleListStub is the list entry of a binding rule.
type ACLBindingRuleListStub struct {
	ID          string
	Description string
	AuthMethod  string
	CreateIndex uint64
	ModifyIndex uint64
}

// ACLLoginRequest is a login with a token for an auth method of type JWT.
type ACLLoginRequest struct {
	AuthMethodName string
	LoginToken     string
}

// ACLOIDCAuthURLRequest starts an OIDC login. ClientNonce is a secret of the caller.
type ACLOIDCAuthURLRequest struct {
	AuthMethodName string
	RedirectURI    string
	ClientNonce    string
}

// ACLOIDCAuthURLResponse contains the URL to open in a browser.
type ACLOIDCAuthURLResponse struct {
	AuthURL string
}

// ACLOIDCCompleteAuthRequest completes an OIDC login with the parameters of the callback.
type ACLOIDCCompleteAuthRequest struct {
	AuthMethodName string
	ClientNonce    string
	State          string
	Code           string
	Iss            string
	RedirectURI    string
}
