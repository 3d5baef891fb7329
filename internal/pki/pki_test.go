package pki_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"io"
	"math/big"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/internal/pki"
)

func newCA(t *testing.T, o pki.CAOptions) *pki.CA {
	t.Helper()
	if o.CommonName == "" {
		o.CommonName = "test CA"
	}
	ca, err := pki.NewCA(o)
	if err != nil {
		t.Fatal(err)
	}
	return ca
}

func parse(t *testing.T, certPEM []byte) *x509.Certificate {
	t.Helper()
	certs, err := pki.ParseCertificates(certPEM)
	if err != nil {
		t.Fatal(err)
	}
	return certs[0]
}

func pair(t *testing.T, ca *pki.CA, o pki.CertOptions) tls.Certificate {
	t.Helper()
	cert, key, err := ca.Issue(o)
	if err != nil {
		t.Fatal(err)
	}
	p, err := tls.X509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// handshake connects a client and a server with these certificates.
func handshake(ca *pki.CA, server, client tls.Certificate, name string) error {
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca.CertPEM)
	a, b := net.Pipe()
	defer a.Close()
	defer b.Close()
	failed := make(chan error, 1)
	go func() {
		s := tls.Server(a, &tls.Config{Certificates: []tls.Certificate{server}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: roots})
		err := s.Handshake()
		if err == nil {
			_, err = s.Write([]byte("x"))
		}
		a.Close()
		failed <- err
	}()
	c := tls.Client(b, &tls.Config{Certificates: []tls.Certificate{client}, RootCAs: roots, ServerName: name})
	_, err := io.ReadFull(c, make([]byte, 1))
	b.Close()
	return errors.Join(<-failed, err)
}

func TestCertificatesMakeConnections(t *testing.T) {
	ca := newCA(t, pki.CAOptions{Domains: []string{"nomad", "localhost"}})
	server := pair(t, ca, pki.CertOptions{DNSNames: []string{"server.global.nomad", "localhost"}, IPs: []net.IP{net.IPv4(127, 0, 0, 1)},
		Client: true, Server: true})
	client := pair(t, ca, pki.CertOptions{CommonName: "cli.global.nomad", DNSNames: []string{"cli.global.nomad"}, Client: true})
	onlyServer := pair(t, ca, pki.CertOptions{DNSNames: []string{"server.global.nomad"}, Server: true})
	untrusted := pair(t, newCA(t, pki.CAOptions{}), pki.CertOptions{DNSNames: []string{"server.global.nomad"}, Client: true, Server: true})
	old := newCA(t, pki.CAOptions{At: time.Now().AddDate(0, 0, -30)})
	past := pair(t, old, pki.CertOptions{DNSNames: []string{"server.global.nomad"}, Client: true, Server: true, Days: 10,
		At: time.Now().AddDate(0, 0, -20)})
	for _, c := range []struct {
		name           string
		ca             *pki.CA
		server, client tls.Certificate
		host, fails    string
	}{
		{"name", ca, server, client, "server.global.nomad", ""},
		{"localhost", ca, server, client, "localhost", ""},
		{"address", ca, server, client, "127.0.0.1", ""},
		{"servers among themselves", ca, server, server, "server.global.nomad", ""},
		{"another name", ca, server, client, "server.far.nomad", "not server.far.nomad"},
		{"client as server", ca, client, client, "cli.global.nomad", "incompatible key usage"},
		{"server as client", ca, server, onlyServer, "server.global.nomad", "incompatible key usage"},
		{"another CA", ca, untrusted, client, "server.global.nomad", "unknown authority"},
		{"client of another CA", ca, server, untrusted, "server.global.nomad", "unknown authority"},
		{"after its days", old, past, past, "server.global.nomad", "has expired"},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := handshake(c.ca, c.server, c.client, c.host)
			if c.fails == "" && err != nil || c.fails != "" && (err == nil || !strings.Contains(err.Error(), c.fails)) {
				t.Errorf("handshake: %v, want %q", err, c.fails)
			}
		})
	}
}

func TestWhatCertificatesSay(t *testing.T) {
	before := time.Now()
	ca := newCA(t, pki.CAOptions{CommonName: "the CA", Country: "CH", Organization: "Example",
		Domains: []string{"nomad", "example.org", "nomad"}})
	root := parse(t, ca.CertPEM)
	switch {
	case !root.IsCA || root.MaxPathLen != 0 || !root.MaxPathLenZero:
		t.Error("the CA may sign other CAs, or nothing")
	case root.KeyUsage != x509.KeyUsageCertSign|x509.KeyUsageCRLSign:
		t.Errorf("key usage %b", root.KeyUsage)
	case !root.PermittedDNSDomainsCritical || strings.Join(root.PermittedDNSDomains, " ") != "example.org nomad":
		t.Errorf("permitted %v", root.PermittedDNSDomains)
	case root.Subject.String() != "CN=the CA,O=Example,C=CH":
		t.Errorf("subject %s", root.Subject)
	case root.NotAfter.Sub(before).Round(time.Minute) != 1825*24*time.Hour:
		t.Errorf("valid until %s", root.NotAfter)
	}
	certPEM, _, err := ca.Issue(pki.CertOptions{DNSNames: []string{"client.global.nomad"}, Client: true})
	if err != nil {
		t.Fatal(err)
	}
	cert := parse(t, certPEM)
	key, ok := cert.PublicKey.(*ecdsa.PublicKey)
	switch {
	case !ok || key.Curve != elliptic.P256():
		t.Errorf("key %T", cert.PublicKey)
	case cert.IsCA || cert.KeyUsage != x509.KeyUsageDigitalSignature || len(cert.ExtKeyUsage) != 1 ||
		cert.ExtKeyUsage[0] != x509.ExtKeyUsageClientAuth:
		t.Errorf("key usage %b %v", cert.KeyUsage, cert.ExtKeyUsage)
	case cert.Subject.CommonName != "client.global.nomad" || !bytes.Equal(cert.AuthorityKeyId, root.SubjectKeyId):
		t.Errorf("subject %s, authority %x", cert.Subject, cert.AuthorityKeyId)
	case !cert.NotBefore.Before(before) || cert.NotBefore.Before(before.Add(-time.Hour)):
		t.Errorf("valid from %s", cert.NotBefore)
	case cert.NotAfter.Sub(before).Round(time.Minute) != 365*24*time.Hour:
		t.Errorf("valid until %s", cert.NotAfter)
	case cert.SerialNumber.BitLen() < 64 || cert.SerialNumber.Cmp(root.SerialNumber) == 0:
		t.Errorf("serial %s", cert.SerialNumber)
	}
}

func TestWhatIsNotIssued(t *testing.T) {
	now := time.Now()
	server := pki.CertOptions{DNSNames: []string{"server.global.nomad"}, Server: true}
	with := func(change func(o *pki.CertOptions)) pki.CertOptions {
		o := server
		change(&o)
		return o
	}
	for _, c := range []struct {
		name  string
		ca    pki.CAOptions
		cert  pki.CertOptions
		fails string
	}{
		{"as asked", pki.CAOptions{Domains: []string{"nomad"}}, server, ""},
		{"as long as the CA", pki.CAOptions{Days: 30, At: now.Add(-time.Hour)}, with(func(o *pki.CertOptions) { o.Days = 30 }), ""},
		{"outside of the domain", pki.CAOptions{Domains: []string{"example.org"}}, server, "not permitted"},
		{"longer than the CA", pki.CAOptions{Days: 30, At: now.Add(-time.Hour)}, with(func(o *pki.CertOptions) { o.Days = 31 }),
			"ask for 30 days at most"},
		{"after the CA", pki.CAOptions{Days: 30, At: now.AddDate(0, 0, -31)}, with(func(o *pki.CertOptions) { o.Days = 1 }), "create another CA"},
		{"no time", pki.CAOptions{}, with(func(o *pki.CertOptions) { o.Days = -1 }), "validity of -1 days"},
		{"beyond calendars", pki.CAOptions{}, with(func(o *pki.CertOptions) { o.Days = 1 << 40 }), "not between 1 and 36500"},
		{"for nobody", pki.CAOptions{}, with(func(o *pki.CertOptions) { o.Server = false }), "Client and Server"},
		{"no name", pki.CAOptions{}, pki.CertOptions{Server: true}, "a common name or a DNS name is required"},
		{"no DNS name", pki.CAOptions{}, with(func(o *pki.CertOptions) { o.DNSNames = []string{"a..nomad"} }), `"a..nomad" is not valid`},
		{"a line", pki.CAOptions{}, with(func(o *pki.CertOptions) { o.DNSNames = []string{"a\nb"} }), "is not valid"},
		{"all", pki.CAOptions{}, with(func(o *pki.CertOptions) { o.DNSNames = []string{"*"} }), "is not valid"},
		{"no address", pki.CAOptions{}, with(func(o *pki.CertOptions) { o.IPs = []net.IP{{1, 2, 3}} }), "IP address of 3 bytes"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, key, err := newCA(t, c.ca).Issue(c.cert)
			if c.fails == "" && err != nil || c.fails != "" && (err == nil || key != nil || !strings.Contains(err.Error(), c.fails)) {
				t.Errorf("Issue() = %v, want %q", err, c.fails)
			}
		})
	}
	for _, o := range []pki.CAOptions{{}, {CommonName: "x", Days: -1}, {CommonName: "x", Domains: []string{""}}} {
		if _, err := pki.NewCA(o); err == nil {
			t.Errorf("NewCA(%+v) made a CA", o)
		}
	}
}

// foreign returns a CA of another tool, with an Ed25519 key.
func foreign(t *testing.T, change func(*x509.Certificate)) (certPEM, keyPEM []byte) {
	t.Helper()
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "foreign"},
		NotBefore: time.Now().Add(-time.Hour),
		NotAfter:  time.Now().AddDate(2, 0, 0), BasicConstraintsValid: true, IsCA: true, KeyUsage: x509.KeyUsageCertSign}
	if change != nil {
		change(template)
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, public, private)
	if err != nil {
		t.Fatal(err)
	}
	key, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key})
}

func TestLoadCA(t *testing.T) {
	ours := newCA(t, pki.CAOptions{})
	cert, key := foreign(t, nil)
	leaf, leafKey, err := ours.Issue(pki.CertOptions{DNSNames: []string{"server.global.nomad"}, Server: true})
	if err != nil {
		t.Fatal(err)
	}
	noSigner, noSignerKey := foreign(t, func(c *x509.Certificate) { c.KeyUsage = x509.KeyUsageDigitalSignature })
	for _, c := range []struct {
		name      string
		cert, key []byte
		fails     string
	}{
		{"ours", ours.CertPEM, ours.KeyPEM, ""},
		{"of another maker", cert, key, ""},
		{"key of another", ours.CertPEM, key, "is not the key of the certificate"},
		{"no CA", leaf, leafKey, "is not the certificate of a CA"},
		{"signs nothing", noSigner, noSignerKey, "does not let it sign"},
		{"no certificate", []byte("nothing"), key, "no PEM block CERTIFICATE"},
		{"key as certificate", key, key, `this is "PRIVATE KEY"`},
		{"certificate as key", cert, cert, `this is "CERTIFICATE"`},
		{"no key", cert, nil, "no PEM block of a private key"},
		{"cut key", cert, pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: []byte("x")}), "load CA key"},
		{"cut certificate", pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte("x")}), key, "parse certificate 1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			ca, err := pki.LoadCA(c.cert, c.key)
			if c.fails != "" {
				if err == nil || !strings.Contains(err.Error(), c.fails) {
					t.Errorf("LoadCA() = %v, want %q", err, c.fails)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			pair(t, ca, pki.CertOptions{DNSNames: []string{"server.global.nomad"}, Server: true})
		})
	}
}
