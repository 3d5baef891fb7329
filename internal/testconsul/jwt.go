package testconsul

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/hashicorp/consul/api"
)

// fetchTimeout limits a request for keys.
const fetchTimeout = 10 * time.Second

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
	signed, err := jose.ParseSignedCompact(raw, cfg.JWTSupportedAlgs)
	if err != nil {
		return nil, errors.New("malformed JWT") // the error could contain it
	}
	keys, err := fetchKeys(cfg)
	if err != nil {
		return nil, fmt.Errorf("fetch the keys of auth method %q: %w", m.Name, err)
	}
	var payload []byte
	for _, key := range keys.Keys {
		if text, err := signed.Verify(key.Key); err == nil {
			payload = text
		}
	}
	if payload == nil {
		return nil, errors.New("no known key verifies the signature of the JWT")
	}
	claims := map[string]any{}
	if err := json.Unmarshal(payload, &claims); err != nil {
		return nil, errors.New("malformed claims")
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
	var audiences []string
	switch v := claims["aud"].(type) {
	case string:
		audiences = []string{v}
	case []any:
		for _, a := range v {
			audiences = append(audiences, fmt.Sprint(a))
		}
	}
	bound := func(a string) bool { return slices.Contains(cfg.BoundAudiences, a) }
	exp, hasExp := claims["exp"].(float64)
	nbf, _ := claims["nbf"].(float64)
	switch {
	case len(cfg.BoundAudiences) > 0 && !slices.ContainsFunc(audiences, bound):
		return fmt.Errorf("aud claim %q does not match the bound audiences", audiences)
	case cfg.BoundIssuer != "" && claims["iss"] != cfg.BoundIssuer:
		return fmt.Errorf("iss claim %v does not match the bound issuer", claims["iss"])
	case hasExp && now.After(time.Unix(int64(exp), 0)):
		return errors.New("JWT is expired")
	case now.Add(time.Minute).Before(time.Unix(int64(nbf), 0)):
		return errors.New("JWT is not valid yet")
	}
	return nil
}

// fetchKeys returns the keys of an auth method.
func fetchKeys(cfg methodConfig) (keys jose.JSONWebKeySet, err error) {
	transport := &http.Transport{DisableKeepAlives: true}
	if cfg.JWKSCACert != "" {
		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM([]byte(cfg.JWKSCACert)) {
			return keys, errors.New("JWKSCACert is not a certificate")
		}
		transport.TLSClientConfig = &tls.Config{RootCAs: pool}
	}
	ctx, cancel := context.WithTimeout(context.Background(), fetchTimeout)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, cfg.JWKSURL, nil)
	if err != nil {
		return keys, err
	}
	resp, err := (&http.Client{Transport: transport}).Do(r)
	if err != nil {
		return keys, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return keys, fmt.Errorf("status %s", resp.Status)
	}
	return keys, json.NewDecoder(resp.Body).Decode(&keys)
}
