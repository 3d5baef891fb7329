package svid

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"fmt"
	"math/big"
	"net/url"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/open-nomad/open-nomad/nomad/keyring"
	"github.com/open-nomad/open-nomad/nomad/spiffe"
)

// The purposes of the derived keys. A change of one changes the keys of every trust domain.
const (
	caPurpose  = "open-nomad spiffe x509 ca p256 v1"
	jwtPurpose = "open-nomad spiffe jwt es256 v1"
)

// caLife is the validity of a CA certificate. Root keys are rotated long before it ends.
const caLife = 10 * 365 * 24 * time.Hour

// backdate begins certificates and tokens earlier, for verifiers whose clock is behind.
const backdate = time.Minute

// authority is the pair of signing keys that belongs to a root key.
type authority struct {
	ca     *x509.Certificate
	caKey  *ecdsa.PrivateKey
	jwtID  string
	jwt    jose.Signer
	public spiffe.Authority
}

// newAuthority derives the authority of a root key.
func newAuthority(ring *keyring.Ring, k keyring.OpenKey, domain string) (*authority, error) {
	caKey, err := derivedKey(ring, k.ID, caPurpose+" "+domain)
	if err != nil {
		return nil, err
	}
	jwtKey, err := derivedKey(ring, k.ID, jwtPurpose+" "+domain)
	if err != nil {
		return nil, err
	}
	a := &authority{caKey: caKey}
	if a.ca, err = caCertificate(caKey, k, domain); err != nil {
		return nil, err
	}
	pkixKey, err := x509.MarshalPKIXPublicKey(jwtKey.Public())
	if err != nil {
		return nil, fmt.Errorf("encode the key of JWT-SVIDs: %w", err)
	}
	sum := sha256.Sum256(pkixKey)
	a.jwtID = base64.RawURLEncoding.EncodeToString(sum[:16])
	opts := (&jose.SignerOptions{}).WithType("JWT").WithHeader(jose.HeaderKey("kid"), a.jwtID)
	if a.jwt, err = jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: jwtKey}, opts); err != nil {
		return nil, fmt.Errorf("open the key of JWT-SVIDs: %w", err)
	}
	a.public = spiffe.Authority{Certificate: a.ca.Raw, JWTKeyID: a.jwtID, JWTKey: pkixKey}
	return a, nil
}

// derivedKey returns the P-256 key of a purpose. Bytes that are no valid key occur once in 2^32 root
// keys; the next purpose is used then.
func derivedKey(ring *keyring.Ring, kid, purpose string) (*ecdsa.PrivateKey, error) {
	for n := range 8 {
		seed, err := ring.Derive(kid, fmt.Sprintf("%s/%d", purpose, n))
		if err != nil {
			return nil, err
		}
		if key, err := ecdsa.ParseRawPrivateKey(elliptic.P256(), seed); err == nil {
			return key, nil
		}
	}
	return nil, fmt.Errorf("derive a P-256 key of root key %s: no valid one found", kid)
}

// caCertificate returns the self-signed certificate of a CA. It depends on its arguments only: the
// signature is deterministic (RFC 6979), so all servers have the same bytes.
func caCertificate(key *ecdsa.PrivateKey, k keyring.OpenKey, domain string) (*x509.Certificate, error) {
	serial := sha256.Sum256([]byte("ca " + k.ID))
	template := &x509.Certificate{
		SerialNumber:          new(big.Int).SetBytes(serial[:16]),
		Subject:               pkix.Name{Organization: []string{"open-nomad"}, CommonName: domain, SerialNumber: k.ID},
		NotBefore:             k.Created.Add(-backdate).UTC(),
		NotAfter:              k.Created.Add(caLife).UTC(),
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
		BasicConstraintsValid: true,
		IsCA:                  true,
		MaxPathLenZero:        true,
		URIs:                  []*url.URL{{Scheme: "spiffe", Host: domain}},
	}
	der, err := x509.CreateCertificate(nil, template, template, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("create the CA certificate of root key %s: %w", k.ID, err)
	}
	ca, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("read the CA certificate of root key %s: %w", k.ID, err)
	}
	return ca, nil
}
