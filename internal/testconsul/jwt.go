package testconsul

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/hashicorp/consul/api"

	"github.com/open-nomad/open-nomad/internal/testjwks"
)

// methodConfig is the configuration of an auth method of type jwt.
type methodConfig struct {
	JWKSURL          string
	JWKSCACert       string
	JWTSupportedAlgs []jose.SignatureAlgorithm
	BoundAudiences   []string
	BoundIssuer      string
	ClaimMappings    map[string]string
}

// readMethod returns the configuration of an auth method, which must have known fields only.
func readMethod(m *api.ACLAuthMethod) (out methodConfig, err error) {
	if m.Type != "jwt" {
		return out, fmt.Errorf("auth method type %q is not supported", m.Type)
	}
	known := []string{"JWKSURL", "JWKSCACert", "JWTSupportedAlgs", "BoundAudiences", "BoundIssuer", "ClaimMappings"}
	for name := range m.Config {
		if !slices.Contains(known, name) {
			return out, fmt.Errorf("auth method %q: unknown key %q in Config", m.Name, name)
		}
	}
	text, err := json.Marshal(m.Config)
	if err != nil {
		return out, err
	}
	if err := json.Unmarshal(text, &out); err != nil {
		return out, err
	}
	if out.JWKSURL == "" {
		return out, fmt.Errorf("auth method %q: JWKSURL is missing", m.Name)
	}
	if len(out.JWTSupportedAlgs) == 0 {
		out.JWTSupportedAlgs = []jose.SignatureAlgorithm{jose.RS256}
	}
	return out, nil
}

// verify checks a JWT for an auth method, and returns the values of its mapped claims.
func verify(m *api.ACLAuthMethod, raw string, now time.Time) (map[string]string, error) {
	cfg, err := readMethod(m)
	if err != nil {
		return nil, err
	}
	claims, err := testjwks.Source{URL: cfg.JWKSURL, CAPEM: cfg.JWKSCACert, Algorithms: cfg.JWTSupportedAlgs}.Claims(raw)
	if err != nil {
		return nil, fmt.Errorf("auth method %q: %w", m.Name, err)
	}
	if err := cfg.admit(claims, now); err != nil {
		return nil, err
	}
	values := map[string]string{}
	for claim, name := range cfg.ClaimMappings {
		if text, ok := claims[claim].(string); ok {
			values[name] = text
		}
	}
	return values, nil
}

// admit checks the audience, the issuer and the times of claims.
func (cfg *methodConfig) admit(claims map[string]any, now time.Time) error {
	audiences := testjwks.Audiences(claims)
	bound := func(a string) bool { return slices.Contains(cfg.BoundAudiences, a) }
	switch {
	case len(cfg.BoundAudiences) > 0 && !slices.ContainsFunc(audiences, bound):
		return fmt.Errorf("aud claim %q does not match the bound audiences", audiences)
	case cfg.BoundIssuer != "" && claims["iss"] != cfg.BoundIssuer:
		return fmt.Errorf("iss claim %v does not match the bound issuer", claims["iss"])
	}
	return testjwks.CheckTimes(claims, now)
}
