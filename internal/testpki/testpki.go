// Package testpki provides certificate authorities for tests, and the TLS files of agents. Files
// are removed when the test ends.
package testpki

import (
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/internal/certs"
	"github.com/open-nomad/open-nomad/internal/pki"
)

// CA is a certificate authority.
type CA struct {
	*pki.CA
	t testing.TB
}

// New makes a certificate authority.
func New(t testing.TB) *CA {
	t.Helper()
	ca, err := pki.NewCA(pki.CAOptions{CommonName: "test CA", At: time.Now().AddDate(0, -1, 0)})
	if err != nil {
		t.Fatal(err)
	}
	return &CA{CA: ca, t: t}
}

// Files are the TLS files of one agent.
type Files struct{ CA, Cert, Key string }

// Agent writes the files of an agent with these names, such as server.global.nomad, and the address
// 127.0.0.1.
func (c *CA) Agent(names ...string) Files {
	return c.Issue(pki.CertOptions{DNSNames: append(names, "localhost"), IPs: []net.IP{net.IPv4(127, 0, 0, 1).To4()}, Client: true,
		Server: true})
}

// Issue writes the files of a certificate.
func (c *CA) Issue(o pki.CertOptions) Files {
	c.t.Helper()
	dir := c.t.TempDir()
	f := Files{CA: filepath.Join(dir, "ca.pem"), Cert: filepath.Join(dir, "cert.pem"), Key: filepath.Join(dir, "key.pem")}
	c.Into(f, o)
	return f
}

// Into writes a new certificate over files.
func (c *CA) Into(f Files, o pki.CertOptions) {
	c.t.Helper()
	cert, key, err := c.CA.Issue(o)
	if err != nil {
		c.t.Fatal(err)
	}
	for path, text := range map[string][]byte{f.CA: c.CertPEM, f.Cert: cert, f.Key: key} {
		if err := os.WriteFile(path, text, 0o600); err != nil {
			c.t.Fatal(err)
		}
	}
}

// Config returns the tls block of an agent in region "global" with TLS for RPC and verified names.
func (f Files) Config() certs.Config {
	return certs.Config{Region: "global", CAFile: f.CA, CertFile: f.Cert, KeyFile: f.Key, RPC: true, VerifyServerHostname: true}
}

// Open opens a store for a tls block.
func Open(t testing.TB, cfg certs.Config) *certs.Store {
	t.Helper()
	s, err := certs.Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return s
}
