package api

import (
	"encoding/json"
	"fmt"
	"time"
)

// The types of auth methods, and where the tokens that they give are good.
const (
	ACLAuthMethodTypeOIDC            = "OIDC"
	ACLAuthMethodTypeJWT             = "JWT"
	ACLAuthMethodTokenLocalityLocal  = "local"
	ACLAuthMethodTokenLocalityGlobal = "global"
)

// What a binding rule gives.
const (
	ACLBindingRuleBindTypeRole       = "role"
	ACLBindingRuleBindTypePolicy     = "policy"
	ACLBindingRuleBindTypeManagement = "management"
)

// ACLAuthMethod is a way to log in with what an identity provider signs.
type ACLAuthMethod struct {
	Name            string
	Type            string // "OIDC" or "JWT"
	TokenLocality   string // "local" or "global"
	TokenNameFormat string
	MaxTokenTTL     time.Duration
	Default         bool // of those of its type, the one of who names none
	Config          *ACLAuthMethodConfig
	CreateTime      time.Time
	ModifyTime      time.Time
	CreateIndex     uint64
	ModifyIndex     uint64
}

// MarshalJSON writes the TTL as a text such as "1h0m0s", empty when it is zero.
func (m *ACLAuthMethod) MarshalJSON() ([]byte, error) {
	type plain ACLAuthMethod
	return json.Marshal(&struct {
		MaxTokenTTL string
		*plain
	}{durationText(m.MaxTokenTTL), (*plain)(m)})
}

// UnmarshalJSON reads the TTL as a text or as nanoseconds.
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

// ACLAuthMethodConfig says whose tokens an auth method takes, and what it reads in them.
// Secrets read as "redacted"; written back so, they stay.
type ACLAuthMethodConfig struct {
	// JWTValidationPubKeys, JWKSURL or OIDCDiscoveryURL says which keys sign.
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

// MarshalJSON writes the leeways as texts such as "1m0s", empty when they are zero.
func (c *ACLAuthMethodConfig) MarshalJSON() ([]byte, error) {
	type plain ACLAuthMethodConfig
	return json.Marshal(&struct {
		ExpirationLeeway, NotBeforeLeeway, ClockSkewLeeway string
		*plain
	}{durationText(c.ExpirationLeeway), durationText(c.NotBeforeLeeway), durationText(c.ClockSkewLeeway), (*plain)(c)})
}

// UnmarshalJSON reads the leeways as texts or as nanoseconds.
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

// OIDCClientAssertionKeySource is where the key of a client assertion comes from.
type OIDCClientAssertionKeySource string

// OIDCClientAssertionKeyIDHeader is the header that names the key of an assertion.
type OIDCClientAssertionKeyIDHeader string

// The sources of keys, and the headers that name them.
const (
	OIDCKeySourceNomad               OIDCClientAssertionKeySource   = "nomad"
	OIDCKeySourcePrivateKey          OIDCClientAssertionKeySource   = "private_key"
	OIDCKeySourceClientSecret        OIDCClientAssertionKeySource   = "client_secret"
	OIDCClientAssertionHeaderKid     OIDCClientAssertionKeyIDHeader = "kid"
	OIDCClientAssertionHeaderX5t     OIDCClientAssertionKeyIDHeader = "x5t"
	OIDCClientAssertionHeaderX5tS256 OIDCClientAssertionKeyIDHeader = "x5t#S256"
)

// OIDCClientAssertion says how servers sign who they are, in place of a client secret.
type OIDCClientAssertion struct {
	KeySource    OIDCClientAssertionKeySource
	Audience     []string
	PrivateKey   *OIDCClientAssertionKey
	ExtraHeaders map[string]string
	KeyAlgorithm string
	ClientSecret string
}

// OIDCClientAssertionKey is the key of an assertion, and how the provider finds it.
type OIDCClientAssertionKey struct {
	PemKey      string
	PemKeyFile  string
	KeyIDHeader OIDCClientAssertionKeyIDHeader
	PemCert     string
	PemCertFile string
	KeyID       string
}

// ACLAuthMethodListStub is an auth method in a list.
type ACLAuthMethodListStub struct {
	Name        string
	Type        string
	Default     bool
	CreateIndex uint64
	ModifyIndex uint64
}

// ACLBindingRule says what those get who log in with an auth method and whose claims
// match the selector.
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

// ACLBindingRuleListStub is a binding rule in a list.
type ACLBindingRuleListStub struct {
	ID          string
	Description string
	AuthMethod  string
	CreateIndex uint64
	ModifyIndex uint64
}

// ACLLoginRequest is a login with a token that an auth method of the type JWT takes.
type ACLLoginRequest struct {
	AuthMethodName string
	LoginToken     string
}

// ACLOIDCAuthURLRequest begins a login with a browser. ClientNonce is known to who begins
// it alone.
type ACLOIDCAuthURLRequest struct {
	AuthMethodName string
	RedirectURI    string
	ClientNonce    string
}

// ACLOIDCAuthURLResponse holds the URL that the browser is to open.
type ACLOIDCAuthURLResponse struct {
	AuthURL string
}

// ACLOIDCCompleteAuthRequest ends a login with what the browser came back with.
type ACLOIDCCompleteAuthRequest struct {
	AuthMethodName string
	ClientNonce    string
	State          string
	Code           string
	Iss            string
	RedirectURI    string
}
