// Package pki issues the certificates of a cluster: a certificate authority (CA) and the
// certificates of servers, clients and the command line that it signs.
//
//	ca, err := pki.NewCA(pki.CAOptions{CommonName: "CA", Domains: []string{"nomad"}})
//	cert, key, err := ca.Issue(pki.CertOptions{DNSNames: []string{"server.global.nomad"}, Client: true, Server: true})
//
// Keys are ECDSA P-256. A CA signs leaf certificates only (path length 0). With Domains, it signs
// only names in them. Every issued certificate is verified against the CA. Everything is PEM,
// CERTIFICATE and EC PRIVATE KEY, as `nomad tls` writes it. A CA of another tool can be loaded if
// its key is ECDSA, Ed25519 or RSA.
//
// The package reads and writes no files and starts no goroutine. Its errors never contain a key.
package pki

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"time"
)

const (
	day = 24 * time.Hour
	// backdate tolerates peers whose clock is slightly behind.
	backdate = 5 * time.Minute
	// maxDays keeps the end of the validity within a four-digit year.
	maxDays = 36500

	defaultCADays   = 1825
	defaultCertDays = 365
)

// CA is a certificate authority with its key. It is immutable and safe for concurrent use.
type CA struct {
	CertPEM []byte
	KeyPEM  []byte
	cert    *x509.Certificate
	key     crypto.Signer
}

// CAOptions describe a new CA.
type CAOptions struct {
	CommonName         string // required
	Country            string
	PostalCode         string
	Province           string
	Locality           string
	StreetAddress      string
	Organization       string
	OrganizationalUnit string
	// Days is how long the CA is valid; 0 means 1825.
	Days int
	// Domains are the DNS domains, including subdomains, that the CA may sign for. Empty means
	// every name.
	Domains []string
	// At is the start of the validity; the zero time means now.
	At time.Time
}

// NewCA returns a new self-signed CA.
func NewCA(o CAOptions) (*CA, error) {
	if o.CommonName == "" {
		return nil, errors.New("create CA: common name is required")
	}
	from, to, err := validity(o.At, o.Days, defaultCADays)
	if err != nil {
		return nil, fmt.Errorf("create CA: %w", err)
	}
	for _, d := range o.Domains {
		if err := CheckDNSName(d); err != nil {
			return nil, fmt.Errorf("create CA: domain %w", err)
		}
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("create CA: generate key: %w", err)
	}
	template := &x509.Certificate{
		Subject: o.subject(), NotBefore: from, NotAfter: to,
		BasicConstraintsValid: true, IsCA: true, MaxPathLenZero: true,
		KeyUsage:                    x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
		PermittedDNSDomainsCritical: len(o.Domains) > 0, PermittedDNSDomains: slices.Compact(slices.Sorted(slices.Values(o.Domains))),
	}
	certPEM, err := sign(template, template, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("create CA: %w", err)
	}
	keyPEM, err := encodeKey(key)
	if err != nil {
		return nil, fmt.Errorf("create CA: %w", err)
	}
	return LoadCA(certPEM, keyPEM)
}

func (o CAOptions) subject() pkix.Name {
	one := func(v string) []string {
		if v == "" {
			return nil
		}
		return []string{v}
	}
	return pkix.Name{CommonName: o.CommonName, Country: one(o.Country), PostalCode: one(o.PostalCode), Province: one(o.Province),
		Locality:      one(o.Locality),
		StreetAddress: one(o.StreetAddress), Organization: one(o.Organization), OrganizationalUnit: one(o.OrganizationalUnit)}
}

// LoadCA returns the CA of a certificate and its key, both PEM. The key must belong to the
// certificate, and the certificate must be a CA's.
func LoadCA(certPEM, keyPEM []byte) (*CA, error) {
	certs, err := ParseCertificates(certPEM)
	if err != nil {
		return nil, fmt.Errorf("load CA certificate: %w", err)
	}
	cert := certs[0]
	if !cert.BasicConstraintsValid || !cert.IsCA {
		return nil, fmt.Errorf("load CA certificate: %q is not the certificate of a CA", cert.Subject)
	}
	if cert.KeyUsage != 0 && cert.KeyUsage&x509.KeyUsageCertSign == 0 {
		return nil, fmt.Errorf("load CA certificate: the key usage of %q does not let it sign certificates", cert.Subject)
	}
	key, err := parseKey(keyPEM)
	if err != nil {
		return nil, fmt.Errorf("load CA key: %w", err)
	}
	public, ok := key.Public().(interface{ Equal(crypto.PublicKey) bool })
	if !ok || !public.Equal(cert.PublicKey) {
		return nil, fmt.Errorf("load CA key: it is not the key of the certificate %q", cert.Subject)
	}
	return &CA{CertPEM: bytes.Clone(certPEM), KeyPEM: bytes.Clone(keyPEM), cert: cert, key: key}, nil
}

// validity returns the start and the end of a validity.
func validity(at time.Time, days, otherwise int) (from, to time.Time, err error) {
	if days == 0 {
		days = otherwise
	}
	if days < 0 || days > maxDays {
		return from, to, fmt.Errorf("a validity of %d days is not between 1 and %d", days, maxDays)
	}
	if at.IsZero() {
		at = time.Now()
	}
	at = at.UTC().Truncate(time.Second)
	return at.Add(-backdate), at.Add(time.Duration(days) * day), nil
}

// sign signs template as the parent with its key and returns it as PEM.
func sign(template, parent *x509.Certificate, public crypto.PublicKey, key crypto.Signer) ([]byte, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 128))
	if err != nil {
		return nil, fmt.Errorf("draw serial number: %w", err)
	}
	template.SerialNumber = serial.Add(serial, big.NewInt(1)) // never 0
	der, err := x509.CreateCertificate(rand.Reader, template, parent, public, key)
	if err != nil {
		return nil, fmt.Errorf("sign certificate: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: certBlock, Bytes: der}), nil
}
