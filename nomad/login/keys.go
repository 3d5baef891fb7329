package login

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"

	"github.com/go-jose/go-jose/v4"
)

// Limits for keys: the number of keys in a set, and the bits of an RSA modulus.
const (
	maxKeys    = 100
	minRSABits = 2048
	maxRSABits = 8192
)

// algorithms lists the algorithms that a method may allow. All are asymmetric.
var algorithms = []jose.SignatureAlgorithm{jose.RS256, jose.RS384, jose.RS512, jose.ES256, jose.ES384, jose.ES512,
	jose.PS256, jose.PS384, jose.PS512, jose.EdDSA}

// key is a public key. Empty id or alg means unknown.
type key struct {
	id, alg string
	public  crypto.PublicKey
}

// keySource returns the keys that may have signed a token with the key ID.
type keySource interface {
	keys(ctx context.Context, kid string) ([]key, error)
}

// fits reports whether the key can be used with the algorithm.
func (k key) fits(alg string) bool {
	if k.alg != "" && k.alg != alg {
		return false
	}
	switch public := k.public.(type) {
	case *rsa.PublicKey:
		return strings.HasPrefix(alg, "RS") || strings.HasPrefix(alg, "PS")
	case *ecdsa.PublicKey:
		return alg == map[elliptic.Curve]string{elliptic.P256(): "ES256", elliptic.P384(): "ES384", elliptic.P521(): "ES512"}[public.Curve]
	case ed25519.PublicKey:
		return alg == string(jose.EdDSA)
	}
	return false
}

// checkKey refuses weak and unsupported keys.
func checkKey(public crypto.PublicKey) error {
	switch k := public.(type) {
	case *rsa.PublicKey:
		if n := k.N.BitLen(); n < minRSABits || n > maxRSABits {
			return fmt.Errorf("an RSA key must have %d to %d bits, not %d", minRSABits, maxRSABits, n)
		}
		return nil
	case ed25519.PublicKey:
		return nil
	case *ecdsa.PublicKey:
		switch k.Curve {
		case elliptic.P256(), elliptic.P384(), elliptic.P521():
			return nil
		}
	}
	return errors.New("not an RSA, ECDSA (P-256, P-384, P-521) or Ed25519 key")
}

// static holds the keys in the configuration of a method. They have no IDs.
type static []key

func (s static) keys(context.Context, string) ([]key, error) { return s, nil }

// parseKeys parses public keys in PEM.
func parseKeys(texts []string) (static, error) {
	var out static
	if len(texts) > maxKeys {
		return nil, fmt.Errorf("more than %d public keys", maxKeys)
	}
	for i, text := range texts {
		public, err := parseKey(text)
		if err != nil {
			return nil, fmt.Errorf("public key %d: %w", i+1, err)
		}
		out = append(out, key{public: public})
	}
	return out, nil
}

func parseKey(text string) (crypto.PublicKey, error) {
	block, rest := pem.Decode([]byte(text))
	switch {
	case block == nil:
		return nil, errors.New("not in PEM")
	case strings.TrimSpace(string(rest)) != "":
		return nil, errors.New("data follows its PEM block: use one list element per key")
	case strings.Contains(block.Type, "PRIVATE"):
		return nil, errors.New("it is a private key, which only the issuer should have")
	}
	var public any
	var err error
	switch block.Type {
	case "RSA PUBLIC KEY":
		public, err = x509.ParsePKCS1PublicKey(block.Bytes)
	case "CERTIFICATE":
		var cert *x509.Certificate
		if cert, err = x509.ParseCertificate(block.Bytes); err == nil {
			public = cert.PublicKey
		}
	default:
		public, err = x509.ParsePKIXPublicKey(block.Bytes)
	}
	if err != nil {
		return nil, err
	}
	return public, checkKey(public)
}

// parseJWKS parses a key set (RFC 7517). It skips keys that cannot be used.
func parseJWKS(text []byte) ([]key, error) {
	var set struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := json.Unmarshal(text, &set); err != nil {
		return nil, errors.New("its key set is not JSON")
	}
	if len(set.Keys) > maxKeys {
		return nil, fmt.Errorf("its key set has more than %d keys", maxKeys)
	}
	var out []key
	for _, raw := range set.Keys {
		var k jose.JSONWebKey
		if err := k.UnmarshalJSON(raw); err != nil || !k.IsPublic() || k.Use != "" && k.Use != "sig" {
			continue
		}
		if checkKey(k.Key) != nil {
			continue
		}
		out = append(out, key{id: k.KeyID, alg: k.Algorithm, public: k.Key})
	}
	return out, nil
}
