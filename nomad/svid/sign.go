package svid

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"math/big"
	"net/url"
	"time"

	"github.com/open-nomad/open-nomad/nomad"
)

// maxCSR limits the bytes of a certificate request.
const maxCSR = 8 << 10

// Subject is what an SVID names.
type Subject struct {
	ID  string // the SPIFFE ID
	DNS []string
	TTL time.Duration
}

// ReadCSR returns the public key of a PKCS #10 request, which the requester has signed with the private
// key. The key must be on the curve P-256 or P-384.
func ReadCSR(der []byte) (*ecdsa.PublicKey, error) {
	if len(der) > maxCSR {
		return nil, fmt.Errorf("certificate request has %d bytes: the limit is %d", len(der), maxCSR)
	}
	csr, err := x509.ParseCertificateRequest(der)
	if err != nil {
		return nil, fmt.Errorf("read certificate request: %w", err)
	}
	key, ok := csr.PublicKey.(*ecdsa.PublicKey)
	if !ok || key.Curve != elliptic.P256() && key.Curve != elliptic.P384() {
		return nil, fmt.Errorf("certificate request has a key of another kind: use ECDSA with P-256 or P-384")
	}
	if err := csr.CheckSignature(); err != nil {
		return nil, fmt.Errorf("certificate request is not signed with its key: %w", err)
	}
	return key, nil
}

// SignX509 returns the DER certificate of an X.509-SVID for a public key.
func (i *Issuer) SignX509(key *ecdsa.PublicKey, s Subject, now time.Time) ([]byte, error) {
	a, err := i.signer(now)
	if err != nil {
		return nil, err
	}
	id, err := url.Parse(s.ID)
	if err != nil {
		return nil, fmt.Errorf("sign X.509-SVID: %w", err)
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, fmt.Errorf("sign X.509-SVID: %w", err)
	}
	end := now.Add(s.TTL)
	if end.After(a.ca.NotAfter) {
		end = a.ca.NotAfter
	}
	template := &x509.Certificate{
		SerialNumber:          serial.Add(serial, big.NewInt(1)),
		NotBefore:             now.Add(-backdate),
		NotAfter:              end,
		KeyUsage:              x509.KeyUsageDigitalSignature,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		BasicConstraintsValid: true,
		URIs:                  []*url.URL{id},
		DNSNames:              s.DNS,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.ca, key, a.caKey)
	if err != nil {
		return nil, fmt.Errorf("sign X.509-SVID of %s: %w", s.ID, err)
	}
	return der, nil
}

// claims are the claims of a JWT-SVID.
type claims struct {
	Subject   string   `json:"sub"`
	Audience  []string `json:"aud"`
	Expiry    int64    `json:"exp"`
	NotBefore int64    `json:"nbf"`
	IssuedAt  int64    `json:"iat"`
	ID        string   `json:"jti"`
}

// SignJWT returns a JWT-SVID for the audiences and the time at which it expires.
func (i *Issuer) SignJWT(s Subject, audience []string, now time.Time) (string, time.Time, error) {
	a, err := i.signer(now)
	if err != nil {
		return "", time.Time{}, err
	}
	end := now.Add(s.TTL).Truncate(time.Second)
	payload, err := json.Marshal(claims{Subject: s.ID, Audience: audience, Expiry: end.Unix(),
		NotBefore: now.Add(-backdate).Unix(), IssuedAt: now.Unix(), ID: nomad.NewID()})
	if err != nil {
		return "", time.Time{}, fmt.Errorf("sign JWT-SVID of %s: %w", s.ID, err)
	}
	signed, err := a.jwt.Sign(payload)
	if err != nil {
		return "", time.Time{}, fmt.Errorf("sign JWT-SVID of %s: %w", s.ID, err)
	}
	raw, err := signed.CompactSerialize()
	if err != nil {
		return "", time.Time{}, fmt.Errorf("sign JWT-SVID of %s: %w", s.ID, err)
	}
	return raw, end, nil
}
