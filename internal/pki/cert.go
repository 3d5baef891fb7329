package pki

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"
)

// CertOptions describe a certificate that a CA issues.
type CertOptions struct {
	DNSNames   []string
	IPs        []net.IP
	CommonName string // the first DNS name when empty
	// Days is how long the certificate is valid; 0 means 365.
	Days int
	// Client lets the holder open connections, Server lets it accept them. A
	// server of a cluster does both. One of them is required.
	Client, Server bool
	// At is when the validity begins; the zero time means now.
	At time.Time
}

// Issue returns a new certificate signed by the CA and its new key. It fails for
// what nobody would accept: names outside of the CA's domains, a validity beyond
// the CA's own.
func (ca *CA) Issue(o CertOptions) (certPEM, keyPEM []byte, err error) {
	template, err := o.template()
	if err != nil {
		return nil, nil, fmt.Errorf("issue certificate: %w", err)
	}
	if err := ca.bound(template); err != nil {
		return nil, nil, fmt.Errorf("issue certificate: %w", err)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("issue certificate: generate key: %w", err)
	}
	if certPEM, err = sign(template, ca.cert, key.Public(), ca.key); err != nil {
		return nil, nil, fmt.Errorf("issue certificate: %w", err)
	}
	if err := ca.verify(certPEM, template.NotBefore); err != nil {
		return nil, nil, fmt.Errorf("issue certificate: the CA %q would not be believed: %w", ca.cert.Subject.CommonName, err)
	}
	if keyPEM, err = encodeKey(key); err != nil {
		return nil, nil, fmt.Errorf("issue certificate: %w", err)
	}
	return certPEM, keyPEM, nil
}

// template is the certificate before it is signed.
func (o CertOptions) template() (*x509.Certificate, error) {
	from, to, err := validity(o.At, o.Days, defaultCertDays)
	if err != nil {
		return nil, err
	}
	for _, n := range o.DNSNames {
		if err := CheckDNSName(n); err != nil {
			return nil, fmt.Errorf("DNS name %w", err)
		}
	}
	for _, ip := range o.IPs {
		if len(ip) != net.IPv4len && len(ip) != net.IPv6len {
			return nil, fmt.Errorf("IP address of %d bytes", len(ip))
		}
	}
	name := o.CommonName
	if name == "" && len(o.DNSNames) > 0 {
		name = o.DNSNames[0]
	}
	if name == "" {
		return nil, errors.New("it needs a common name or a DNS name")
	}
	cert := &x509.Certificate{Subject: pkix.Name{CommonName: name}, DNSNames: o.DNSNames, IPAddresses: o.IPs, NotBefore: from, NotAfter: to,
		BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature}
	if o.Client {
		cert.ExtKeyUsage = append(cert.ExtKeyUsage, x509.ExtKeyUsageClientAuth)
	}
	if o.Server {
		cert.ExtKeyUsage = append(cert.ExtKeyUsage, x509.ExtKeyUsageServerAuth)
	}
	if len(cert.ExtKeyUsage) == 0 {
		return nil, errors.New("it must be for a client, for a server, or for both")
	}
	return cert, nil
}

// bound keeps the validity of a certificate within that of the CA. Less than a
// day is taken off; who asked for more is told.
func (ca *CA) bound(cert *x509.Certificate) error {
	name, end := ca.cert.Subject.CommonName, ca.cert.NotAfter
	switch left := end.Sub(cert.NotBefore.Add(backdate)); {
	case left <= 0:
		return fmt.Errorf("the CA %q ended on %s: create another CA", name, end.Format(time.RFC3339))
	case cert.NotAfter.Sub(end) >= day:
		return fmt.Errorf("it would outlive the CA %q, which ends on %s: ask for %d days at most", name, end.Format(time.RFC3339), left/day+1)
	}
	if cert.NotAfter.After(end) {
		cert.NotAfter = end
	}
	if cert.NotBefore.Before(ca.cert.NotBefore) {
		cert.NotBefore = ca.cert.NotBefore
	}
	return nil
}

// verify checks a certificate as its peers will.
func (ca *CA) verify(certPEM []byte, at time.Time) error {
	certs, err := ParseCertificates(certPEM)
	if err != nil {
		return err
	}
	roots := x509.NewCertPool()
	roots.AddCert(ca.cert)
	_, err = certs[0].Verify(x509.VerifyOptions{Roots: roots, CurrentTime: at, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}})
	return err
}

// CheckDNSName accepts names of labels with dots between them: letters, digits,
// - and _, up to 63 characters each, 253 together. The first may be a *.
func CheckDNSName(name string) error {
	if len(name) > 253 {
		return fmt.Errorf("%q is longer than 253 characters", name)
	}
	for i, label := range strings.Split(name, ".") {
		if label == "*" && i == 0 && len(name) > 2 {
			continue
		}
		if label == "" || len(label) > 63 || strings.Trim(label, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_") != "" ||
			label[0] == '-' || label[len(label)-1] == '-' {
			return fmt.Errorf("%q is not valid: labels of letters, digits and hyphens, with dots between them, are expected", name)
		}
	}
	return nil
}
