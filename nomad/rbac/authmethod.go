package rbac

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/open-nomad/open-nomad/nomad"
)

// The types of auth methods, the localities of the tokens that they create, and the default format of token names.
const (
	TypeOIDC               = "OIDC"
	TypeJWT                = "JWT"
	LocalityLocal          = "local"
	LocalityGlobal         = "global"
	DefaultTokenNameFormat = "${auth_method_type}-${auth_method_name}"
)

// The options for client assertions, which authenticate a server to an identity provider.
const (
	OIDCKeySourceNomad               OIDCClientAssertionKeySource   = "nomad"
	OIDCKeySourceClientSecret        OIDCClientAssertionKeySource   = "client_secret"
	OIDCKeySourcePrivateKey          OIDCClientAssertionKeySource   = "private_key"
	OIDCClientAssertionHeaderKid     OIDCClientAssertionKeyIDHeader = "kid"
	OIDCClientAssertionHeaderX5t     OIDCClientAssertionKeyIDHeader = "x5t"
	OIDCClientAssertionHeaderX5tS256 OIDCClientAssertionKeyIDHeader = "x5t#S256"
)

// AuthMethod configures a login with tokens of an identity provider.
type AuthMethod struct {
	Name            string
	Type            string
	TokenLocality   string
	TokenNameFormat string
	MaxTokenTTL     time.Duration
	Default         bool
	Config          *AuthMethodConfig
	Hash            []byte
	CreateTime      time.Time
	ModifyTime      time.Time
	CreateIndex     uint64
	ModifyIndex     uint64
}

// AuthMethodConfig specifies which identity tokens an auth method accepts and which claims it uses.
type AuthMethodConfig struct {
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

// OIDCClientAssertion configures the signed client assertion, which replaces a client secret.
type OIDCClientAssertion struct {
	KeySource    OIDCClientAssertionKeySource
	Audience     []string
	PrivateKey   *OIDCClientAssertionKey
	ExtraHeaders map[string]string
	KeyAlgorithm string
	ClientSecret string
}

// OIDCClientAssertionKey is the key of a client assertion, and the header that identifies it to the provider.
type OIDCClientAssertionKey struct {
	PemKey      string
	PemKeyFile  string
	KeyIDHeader OIDCClientAssertionKeyIDHeader
	PemCert     string
	PemCertFile string
	KeyID       string
}

// OIDCClientAssertionKeyIDHeader is the JWT header that identifies the key of a client assertion.
type OIDCClientAssertionKeyIDHeader string

// OIDCClientAssertionKeySource is the source of the key of a client assertion.
type OIDCClientAssertionKeySource string

// SetHash computes the digest of the fields that an operator can set. It stores the digest and returns it.
func (m *AuthMethod) SetHash() []byte {
	d := newDigest("auth method").text(m.Name, m.Type, m.TokenLocality, m.TokenNameFormat).number(int64(m.MaxTokenTTL)).flag(m.Default)
	if c := m.Config; c != nil {
		c.digest(d)
	}
	m.Hash = d.sum()
	return m.Hash
}

func (c *AuthMethodConfig) digest(d digest) {
	d.text(c.JWKSURL, c.OIDCDiscoveryURL, c.OIDCClientID, c.OIDCClientSecret, c.JWKSCACert)
	d.flag(c.OIDCEnablePKCE).flag(c.OIDCDisableUserInfo).flag(c.VerboseLogging)
	for _, l := range [][]string{c.JWTValidationPubKeys, c.OIDCScopes, c.BoundAudiences, c.BoundIssuer, c.AllowedRedirectURIs,
		c.DiscoveryCaPem, c.SigningAlgs} {
		d.list(l)
	}
	d.number(int64(c.ExpirationLeeway)).number(int64(c.NotBeforeLeeway)).number(int64(c.ClockSkewLeeway))
	d.pairs(c.ClaimMappings).pairs(c.ListClaimMappings)
	a := c.OIDCClientAssertion
	if a == nil {
		return
	}
	d.text(string(a.KeySource), a.KeyAlgorithm, a.ClientSecret).list(a.Audience).pairs(a.ExtraHeaders)
	if k := a.PrivateKey; k != nil {
		d.text(k.PemKey, k.PemKeyFile, string(k.KeyIDHeader), k.PemCert, k.PemCertFile, k.KeyID)
	}
}

// WantsRSA reports whether the servers sign their client assertions with RS256.
func (m *AuthMethod) WantsRSA() bool {
	if m.Config == nil || m.Config.OIDCClientAssertion == nil {
		return false
	}
	a := m.Config.OIDCClientAssertion
	return a.KeySource == OIDCKeySourceNomad && (a.KeyAlgorithm == "" || a.KeyAlgorithm == nomad.IdentityAlgRS256)
}

// Stub returns the short form of the method for lists.
func (m *AuthMethod) Stub() *AuthMethodStub {
	return &AuthMethodStub{Name: m.Name, Type: m.Type, Default: m.Default, Hash: m.Hash,
		CreateIndex: m.CreateIndex, ModifyIndex: m.ModifyIndex}
}

// WithoutSecrets returns a copy of the method without the secrets for the identity provider.
func (m *AuthMethod) WithoutSecrets() *AuthMethod {
	if m == nil || m.Config == nil {
		return m
	}
	out, conf := *m, *m.Config
	conf.OIDCClientSecret = ""
	if conf.OIDCClientAssertion != nil {
		assertion := *conf.OIDCClientAssertion
		assertion.ClientSecret = ""
		if assertion.PrivateKey != nil {
			key := *assertion.PrivateKey
			key.PemKey = ""
			assertion.PrivateKey = &key
		}
		conf.OIDCClientAssertion = &assertion
	}
	out.Config = &conf
	return &out
}

// String returns the name only.
func (m *AuthMethod) String() string {
	if m == nil {
		return "auth method(none)"
	}
	return "auth method(" + m.Name + ")"
}

// Format implements fmt.Formatter. Every verb prints the result of String.
func (m *AuthMethod) Format(f fmt.State, _ rune) { io.WriteString(f, m.String()) }

// LogValue implements slog.LogValuer with the result of String.
func (m *AuthMethod) LogValue() slog.Value { return slog.StringValue(m.String()) }

// String returns a constant text without the configuration.
func (*AuthMethodConfig) String() string { return "configuration of an auth method" }

// Format implements fmt.Formatter. Every verb prints the result of String.
func (c *AuthMethodConfig) Format(f fmt.State, _ rune) { io.WriteString(f, c.String()) }

// LogValue implements slog.LogValuer with the result of String.
func (c *AuthMethodConfig) LogValue() slog.Value { return slog.StringValue(c.String()) }

// MarshalJSON writes the TTL as a duration string such as "1h0m0s", or "" for zero.
func (m *AuthMethod) MarshalJSON() ([]byte, error) {
	type plain AuthMethod
	return json.Marshal(&struct {
		MaxTokenTTL string
		*plain
	}{durationText(m.MaxTokenTTL), (*plain)(m)})
}

// UnmarshalJSON accepts the TTL as a duration string such as "1h" or as a number of nanoseconds.
func (m *AuthMethod) UnmarshalJSON(b []byte) error {
	type plain AuthMethod
	in := &struct {
		MaxTokenTTL json.RawMessage
		*plain
	}{plain: (*plain)(m)}
	if err := json.Unmarshal(b, in); err != nil {
		return err
	}
	return readDuration("MaxTokenTTL", in.MaxTokenTTL, &m.MaxTokenTTL)
}

// MarshalJSON writes the leeways as a duration string such as "1m0s", or "" for zero.
func (c *AuthMethodConfig) MarshalJSON() ([]byte, error) {
	type plain AuthMethodConfig
	return json.Marshal(&struct {
		ExpirationLeeway, NotBeforeLeeway, ClockSkewLeeway string
		*plain
	}{durationText(c.ExpirationLeeway), durationText(c.NotBeforeLeeway), durationText(c.ClockSkewLeeway), (*plain)(c)})
}

// UnmarshalJSON accepts the leeways as a duration string such as "1m" or as a number of nanoseconds.
func (c *AuthMethodConfig) UnmarshalJSON(b []byte) error {
	type plain AuthMethodConfig
	in := &struct {
		ExpirationLeeway, NotBeforeLeeway, ClockSkewLeeway json.RawMessage
		*plain
	}{plain: (*plain)(c)}
	if err := json.Unmarshal(b, in); err != nil {
		return err
	}
	for name, f := range map[string]struct {
		raw json.RawMessage
		to  *time.Duration
	}{
		"ExpirationLeeway": {in.ExpirationLeeway, &c.ExpirationLeeway},
		"NotBeforeLeeway":  {in.NotBeforeLeeway, &c.NotBeforeLeeway},
		"ClockSkewLeeway":  {in.ClockSkewLeeway, &c.ClockSkewLeeway},
	} {
		if err := readDuration(name, f.raw, f.to); err != nil {
			return err
		}
	}
	return nil
}

// AuthMethodStub is an auth method without its configuration.
type AuthMethodStub struct {
	Name        string
	Type        string
	Default     bool
	Hash        []byte
	CreateIndex uint64
	ModifyIndex uint64
}
