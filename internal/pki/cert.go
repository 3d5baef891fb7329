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
	CommonName string // defaults to the first DNS name
	// Days is how long the certificate is valid; 0 means 365.
	Days int
	// Client lets the holder open connections, Server lets it accept them. A server of a cluster
	// needs both. One of them is required.
	Client, Server bool
	// At is the start of the validity; the zero time means now.
	At time.Time
}

// Issue returns a new certificate signed by the CA and its new key. It refuses names outside of the
// CA's domains and a validity that exceeds the CA's.
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
		return nil, nil, fmt.Errorf("issue certificate: verify against the CA %q: %w", ca.cert.Subject.CommonName, err)
	}
	if keyPEM, err = encodeKey(key); err != nil {
		return nil, nil, fmt.Errorf("issue certificate: %w", err)
	}
	return certPEM, keyPEM, nil
}

// template returns the certificate before it is signed.
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
		return nil, errors.New("a common name or a DNS name is required")
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
		return nil, errors.New("at least one of Client and Server is required")
	}
	return cert, nil
}

// bound limits the validity of a certificate to that of the CA. It silently cuts less than a day;
// more is an error.
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

// verify checks a certificate as peers do.
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

// CheckDNSName accepts a DNS name of at most 253 characters: dot-separated labels of letters,
// digits, - and _, at most 63 characters each. The first label may be *.
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
