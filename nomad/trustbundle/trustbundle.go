// Package trustbundle encodes the public keys of a SPIFFE trust domain. The forms are certificates, the
// JWK set of the Workload API, and the document of the bundle endpoint (SPIFFE Trust Domain and
// Bundle).
//
// A Bundle is read once from the authorities that the servers send and is never modified.
package trustbundle

import (
	"crypto"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/open-nomad/open-nomad/nomad/spiffe"
)

// The values of the parameter use in the document of a bundle.
const (
	useX509 = "x509-svid"
	useJWT  = "jwt-svid"
)

// Bundle holds the public keys of a trust domain.
type Bundle struct {
	Domain   string
	X509     []*x509.Certificate
	Sequence uint64

	jwt  []jose.JSONWebKey
	hint time.Duration
}

// Info describes a bundle.
type Info struct {
	Domain   string
	Sequence uint64
	Refresh  time.Duration
}

// New reads the authorities of a trust domain.
func New(info Info, authorities []*spiffe.Authority) (*Bundle, error) {
	b := &Bundle{Domain: info.Domain, Sequence: info.Sequence, hint: info.Refresh}
	for _, a := range authorities {
		if a == nil {
			continue
		}
		ca, err := x509.ParseCertificate(a.Certificate)
		if err != nil {
			return nil, fmt.Errorf("read a CA certificate of trust domain %s: %w", info.Domain, err)
		}
		key, err := x509.ParsePKIXPublicKey(a.JWTKey)
		if err != nil {
			return nil, fmt.Errorf("read a JWT key of trust domain %s: %w", info.Domain, err)
		}
		b.X509 = append(b.X509, ca)
		b.jwt = append(b.jwt, jose.JSONWebKey{Key: key, KeyID: a.JWTKeyID, Use: useJWT})
	}
	if len(b.X509) == 0 {
		return nil, fmt.Errorf("the bundle of trust domain %s has no keys", info.Domain)
	}
	return b, nil
}

// ID returns the SPIFFE ID of the trust domain.
func (b *Bundle) ID() string { return "spiffe://" + b.Domain }

// DER returns the CA certificates, concatenated.
func (b *Bundle) DER() []byte {
	var out []byte
	for _, ca := range b.X509 {
		out = append(out, ca.Raw...)
	}
	return out
}

// Issued reports whether a CA of the bundle signed the certificate.
func (b *Bundle) Issued(leaf *x509.Certificate) bool {
	for _, ca := range b.X509 {
		if leaf.CheckSignatureFrom(ca) == nil {
			return true
		}
	}
	return false
}

// JWTKeys returns the public keys of JWT-SVIDs by their IDs.
func (b *Bundle) JWTKeys() map[string]crypto.PublicKey {
	out := map[string]crypto.PublicKey{}
	for _, k := range b.jwt {
		out[k.KeyID] = k.Key
	}
	return out
}

// JWKS returns the keys of JWT-SVIDs as a JWK set.
func (b *Bundle) JWKS() ([]byte, error) { return json.Marshal(jose.JSONWebKeySet{Keys: b.jwt}) }

// Document returns the bundle in the format of the bundle endpoint.
func (b *Bundle) Document() ([]byte, error) {
	var keys []jose.JSONWebKey
	for _, ca := range b.X509 {
		keys = append(keys, jose.JSONWebKey{Key: ca.PublicKey, Certificates: []*x509.Certificate{ca}, Use: useX509})
	}
	return json.Marshal(struct {
		Keys     []jose.JSONWebKey `json:"keys"`
		Sequence uint64            `json:"spiffe_sequence"`
		Hint     int64             `json:"spiffe_refresh_hint"`
	}{append(keys, b.jwt...), b.Sequence, int64(b.hint / time.Second)})
}

// Equal reports whether two bundles have the same keys.
func (b *Bundle) Equal(o *Bundle) bool {
	if b.Domain != o.Domain || len(b.X509) != len(o.X509) {
		return false
	}
	for i := range b.X509 {
		if !b.X509[i].Equal(o.X509[i]) || b.jwt[i].KeyID != o.jwt[i].KeyID {
			return false
		}
	}
	return true
}
