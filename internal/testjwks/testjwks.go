// Package testjwks verifies JWTs with the keys of a JWKS URL, for the stand-ins of other programs in tests. It fetches
// the keys at each call, and checks no claim. It starts no goroutine.
package testjwks

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/go-jose/go-jose/v4"
)

// fetchTimeout limits a request for keys.
const fetchTimeout = 10 * time.Second

// Source has the keys that verify tokens.
type Source struct {
	URL        string
	CAPEM      string // default: the CAs of the system
	Algorithms []jose.SignatureAlgorithm
}

// Claims returns the claims of a JWT that a key has signed. Its errors do not contain the JWT.
func (s Source) Claims(raw string) (map[string]any, error) {
	signed, err := jose.ParseSignedCompact(raw, s.Algorithms)
	if err != nil {
		return nil, errors.New("malformed JWT") // the error could contain it
	}
	keys, err := s.fetch()
	if err != nil {
		return nil, fmt.Errorf("error checking jwks URL: %w", err)
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
	return claims, nil
}

// CheckTimes returns an error if claims are expired or not valid yet.
func CheckTimes(claims map[string]any, now time.Time) error {
	exp, hasExp := claims["exp"].(float64)
	nbf, _ := claims["nbf"].(float64)
	switch {
	case hasExp && now.After(time.Unix(int64(exp), 0)):
		return errors.New("JWT is expired")
	case now.Add(time.Minute).Before(time.Unix(int64(nbf), 0)):
		return errors.New("JWT is not valid yet")
	}
	return nil
}

// Audiences returns the audiences of claims.
func Audiences(claims map[string]any) (out []string) {
	switch v := claims["aud"].(type) {
	case string:
		out = append(out, v)
	case []any:
		for _, a := range v {
			out = append(out, fmt.Sprint(a))
		}
	}
	return out
}

// Check returns an error if the keys cannot be read.
func (s Source) Check() error {
	_, err := s.fetch()
	return err
}

func (s Source) fetch() (keys jose.JSONWebKeySet, err error) {
	transport := &http.Transport{DisableKeepAlives: true}
	if s.CAPEM != "" {
		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM([]byte(s.CAPEM)) {
			return keys, errors.New("the CA is not a certificate")
		}
		transport.TLSClientConfig = &tls.Config{RootCAs: pool}
	}
	ctx, cancel := context.WithTimeout(context.Background(), fetchTimeout)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URL, nil)
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
