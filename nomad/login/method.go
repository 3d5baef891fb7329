package login

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/open-nomad/open-nomad/internal/pattern"
	"github.com/open-nomad/open-nomad/nomad/codec"
	"github.com/open-nomad/open-nomad/nomad/rbac"
)

// Redacted replaces secrets in replies. In a write it means the existing secret.
const Redacted = "redacted"

// The variables, besides claims, in the format of token names.
const (
	methodType = "auth_method_type"
	methodName = "auth_method_name"
)

// maxName limits the length of the name of a mapped claim.
const maxName = 128

// objectName matches the valid names of methods, roles and policies.
var objectName = pattern.Lazy(`^[a-zA-Z0-9-]{1,128}$`)

// Complete sets the defaults of an auth method.
func Complete(m *rbac.AuthMethod) {
	m.TokenNameFormat = cmp.Or(m.TokenNameFormat, rbac.DefaultTokenNameFormat)
	for _, known := range []string{rbac.TypeJWT, rbac.TypeOIDC} {
		if strings.EqualFold(m.Type, known) {
			m.Type = known
		}
	}
}

// CheckMethod validates an auth method. The lifetime of its tokens must be between shortest and
// longest.
func CheckMethod(m *rbac.AuthMethod, shortest, longest time.Duration) error {
	switch {
	case !objectName().MatchString(m.Name):
		return fmt.Errorf("the name of an auth method must match %s", objectName())
	case m.Type != rbac.TypeJWT && m.Type != rbac.TypeOIDC:
		return fmt.Errorf("the type of auth method %q must be %s or %s, not %q", m.Name, rbac.TypeOIDC,
			rbac.TypeJWT, m.Type)
	case m.TokenLocality != rbac.LocalityLocal && m.TokenLocality != rbac.LocalityGlobal:
		return fmt.Errorf("the token locality of auth method %q must be local or global, not %q", m.Name, m.TokenLocality)
	case m.MaxTokenTTL < shortest || m.MaxTokenTTL > longest || m.MaxTokenTTL <= 0:
		return fmt.Errorf("the max token TTL of auth method %q must be between %s and %s, not %s", m.Name, shortest, longest, m.MaxTokenTTL)
	case m.Config == nil:
		return fmt.Errorf("auth method %q has no configuration", m.Name)
	}
	if _, err := parseTemplate(m.TokenNameFormat, methodType, methodName); err != nil {
		return fmt.Errorf("the token name format of auth method %q: %w", m.Name, err)
	}
	check := checkJWT
	if m.Type == rbac.TypeOIDC {
		check = checkOIDC
	}
	for _, check := range []func(*rbac.AuthMethodConfig) error{check, checkCommon} {
		if err := check(m.Config); err != nil {
			return fmt.Errorf("the configuration of auth method %q: %w", m.Name, err)
		}
	}
	return nil
}

// checkCommon validates the settings that both types have.
func checkCommon(c *rbac.AuthMethodConfig) error {
	if _, err := allowed(c.SigningAlgs); err != nil {
		return err
	}
	if _, err := parseCAs(c.DiscoveryCaPem); err != nil {
		return fmt.Errorf("DiscoveryCaPem: %w", err)
	}
	if _, err := parseCAs([]string{c.JWKSCACert}); err != nil {
		return fmt.Errorf("JWKSCACert: %w", err)
	}
	for _, list := range [][]string{c.BoundAudiences, c.BoundIssuer} {
		if slices.Contains(list, "") {
			return errors.New("a bound audience or issuer is empty")
		}
	}
	if err := checkMappings("ClaimMappings", c.ClaimMappings); err != nil {
		return err
	}
	return checkMappings("ListClaimMappings", c.ListClaimMappings)
}

func checkMappings(field string, m map[string]string) error {
	seen := map[string]bool{}
	for claim, name := range m {
		switch {
		case claim == "" || name == "" || len(name) > maxName || strings.ContainsAny(name, "${} \t\r\n"):
			return fmt.Errorf("%s: claim %q is mapped to %q: a name must have 1 to %d characters, without spaces and ${}", field, claim,
				name, maxName)
		case seen[name]:
			return fmt.Errorf("%s: two claims are mapped to %q", field, name)
		}
		seen[name] = true
	}
	return nil
}

// checkJWT validates the configuration of a JWT method.
func checkJWT(c *rbac.AuthMethodConfig) error {
	n := min(len(c.JWTValidationPubKeys), 1) + set(c.JWKSURL) + set(c.OIDCDiscoveryURL)
	if n != 1 {
		return errors.New("exactly one of JWTValidationPubKeys, JWKSURL and OIDCDiscoveryURL is required")
	}
	if _, err := parseKeys(c.JWTValidationPubKeys); err != nil {
		return fmt.Errorf("JWTValidationPubKeys: %w", err)
	}
	for field, u := range map[string]string{"JWKSURL": c.JWKSURL, "OIDCDiscoveryURL": c.OIDCDiscoveryURL} {
		if u == "" {
			continue
		}
		if _, err := parseURL(u); err != nil {
			return fmt.Errorf("%s: %w", field, err)
		}
	}
	return nil
}

// checkOIDC validates the configuration of an OIDC method.
func checkOIDC(c *rbac.AuthMethodConfig) error {
	switch {
	case len(c.JWTValidationPubKeys) > 0 || c.JWKSURL != "":
		return errors.New("JWTValidationPubKeys and JWKSURL require the type JWT: use OIDCDiscoveryURL")
	case c.OIDCClientID == "":
		return errors.New("OIDCClientID is missing")
	}
	if _, err := parseURL(c.OIDCDiscoveryURL); err != nil {
		return fmt.Errorf("OIDCDiscoveryURL: %w", err)
	}
	for _, text := range c.AllowedRedirectURIs {
		u, err := url.Parse(text)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.Fragment != "" || u.User != nil {
			return fmt.Errorf("the redirect URI %q must be an http or https URL without a fragment", text)
		}
	}
	if c.OIDCClientAssertion == nil {
		return nil
	}
	if err := checkAssertion(c.OIDCClientAssertion, c.OIDCClientSecret); err != nil {
		return fmt.Errorf("OIDCClientAssertion: %w", err)
	}
	return nil
}

// Warnings lists the questionable settings of an auth method that CheckMethod accepts.
func Warnings(m *rbac.AuthMethod) []string {
	if m.Type != rbac.TypeOIDC {
		return nil
	}
	var out []string
	if len(m.Config.AllowedRedirectURIs) == 0 {
		out = append(out, "AllowedRedirectURIs is empty: every login is refused")
	}
	if isPublic(m.Config) && !m.Config.OIDCEnablePKCE {
		out = append(out, "no client secret, client assertion or PKCE is configured: logins use PKCE")
	}
	return out
}

// isPublic reports whether the client has no credential for the identity provider.
func isPublic(c *rbac.AuthMethodConfig) bool {
	return c.OIDCClientSecret == "" && c.OIDCClientAssertion == nil
}

// secrets returns pointers to the secrets in a configuration.
func secrets(c *rbac.AuthMethodConfig) []*string {
	out := []*string{&c.OIDCClientSecret}
	if a := c.OIDCClientAssertion; a != nil {
		out = append(out, &a.ClientSecret)
		if a.PrivateKey != nil {
			out = append(out, &a.PrivateKey.PemKey)
		}
	}
	return out
}

// Redact returns a copy of the method with its secrets replaced by Redacted.
func Redact(m *rbac.AuthMethod) *rbac.AuthMethod {
	out := codec.Copy(m)
	if out == nil || out.Config == nil {
		return out
	}
	for _, s := range secrets(out.Config) {
		if *s != "" {
			*s = Redacted
		}
	}
	return out
}

// Merge fills the unset fields of a method from old, which it replaces. An empty list or map
// that is not nil clears the field. The secrets of old are kept only for the same identity
// provider.
func Merge(m, old *rbac.AuthMethod) error {
	if old == nil {
		old = &rbac.AuthMethod{}
	}
	same := m.Type == "" || strings.EqualFold(m.Type, old.Type)
	m.Type = cmp.Or(m.Type, old.Type)
	m.TokenLocality = cmp.Or(m.TokenLocality, old.TokenLocality)
	m.TokenNameFormat = cmp.Or(m.TokenNameFormat, old.TokenNameFormat)
	m.MaxTokenTTL = cmp.Or(m.MaxTokenTTL, old.MaxTokenTTL)
	if same && old.Config != nil {
		before := codec.Copy(old).Config
		if m.Config == nil {
			m.Config = before
		} else {
			mergeConfig(m.Config, before)
		}
	}
	if m.Config == nil {
		return nil
	}
	for _, s := range secrets(m.Config) {
		if *s == Redacted {
			return fmt.Errorf("auth method %q: a secret is %q, but no secret is stored for this identity provider: send the secret itself",
				m.Name, Redacted)
		}
	}
	return nil
}

// mergeConfig fills the unset fields of c.
func mergeConfig(c, old *rbac.AuthMethodConfig) {
	if len(c.JWTValidationPubKeys) == 0 && c.JWKSURL == "" && c.OIDCDiscoveryURL == "" {
		c.JWTValidationPubKeys, c.JWKSURL, c.OIDCDiscoveryURL = old.JWTValidationPubKeys, old.JWKSURL, old.OIDCDiscoveryURL
	}
	if c.OIDCDiscoveryURL == old.OIDCDiscoveryURL {
		mergeSecrets(c, old)
	}
	for to, from := range map[*string]string{&c.OIDCClientID: old.OIDCClientID, &c.JWKSCACert: old.JWKSCACert} {
		*to = cmp.Or(*to, from)
	}
	for to, from := range map[*[]string][]string{&c.OIDCScopes: old.OIDCScopes, &c.BoundAudiences: old.BoundAudiences,
		&c.BoundIssuer: old.BoundIssuer, &c.AllowedRedirectURIs: old.AllowedRedirectURIs, &c.DiscoveryCaPem: old.DiscoveryCaPem,
		&c.SigningAlgs: old.SigningAlgs} {
		if *to == nil {
			*to = from
		}
	}
	for to, from := range map[*map[string]string]map[string]string{&c.ClaimMappings: old.ClaimMappings,
		&c.ListClaimMappings: old.ListClaimMappings} {
		if *to == nil {
			*to = from
		}
	}
	for to, from := range map[*time.Duration]time.Duration{&c.ExpirationLeeway: old.ExpirationLeeway,
		&c.NotBeforeLeeway: old.NotBeforeLeeway, &c.ClockSkewLeeway: old.ClockSkewLeeway} {
		*to = cmp.Or(*to, from)
	}
}

// mergeSecrets keeps the secrets of old that c does not replace.
func mergeSecrets(c, old *rbac.AuthMethodConfig) {
	if c.OIDCClientAssertion == nil {
		c.OIDCClientAssertion = old.OIDCClientAssertion
	}
	kept := func(to *string, from string) {
		if *to == Redacted && from != "" {
			*to = from
		}
	}
	kept(&c.OIDCClientSecret, old.OIDCClientSecret)
	c.OIDCClientSecret = cmp.Or(c.OIDCClientSecret, old.OIDCClientSecret)
	a, before := c.OIDCClientAssertion, old.OIDCClientAssertion
	if a == nil || before == nil {
		return
	}
	kept(&a.ClientSecret, before.ClientSecret)
	if a.PrivateKey != nil && before.PrivateKey != nil {
		kept(&a.PrivateKey.PemKey, before.PrivateKey.PemKey)
	}
}
