package jwt

import (
	"crypto/ed25519"
	"crypto/rsa"
	"encoding/base64"
	"math/big"
)

// JWKS is a published set of public keys.
type JWKS struct {
	Keys []JWK `json:"keys"`
}

// JWK is one public key (RFC 7517, RFC 8037).
type JWK struct {
	Use string `json:"use"`
	Kty string `json:"kty"`
	Crv string `json:"crv,omitempty"`
	Kid string `json:"kid"`
	Alg string `json:"alg"`
	X   string `json:"x,omitempty"`
	N   string `json:"n,omitempty"`
	E   string `json:"e,omitempty"`
}

// NewJWKS returns the set of keys, in order.
func NewJWKS(keys []PublicKey) JWKS {
	set := JWKS{Keys: make([]JWK, 0, len(keys))} // an empty set is [], not null
	for _, k := range keys {
		set.Keys = append(set.Keys, k.JWK())
	}
	return set
}

// JWK returns the key in its published form.
func (k PublicKey) JWK() JWK {
	j := JWK{Use: "sig", Kid: k.ID, Alg: k.Alg}
	encode := base64.RawURLEncoding.EncodeToString
	switch key := k.key.(type) {
	case ed25519.PublicKey:
		j.Kty, j.Crv, j.X = "OKP", "Ed25519", encode(key)
	case *rsa.PublicKey:
		j.Kty, j.N, j.E = "RSA", encode(key.N.Bytes()), encode(big.NewInt(int64(key.E)).Bytes())
	}
	return j
}
