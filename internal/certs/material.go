package certs

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"
)

// SettingError names the wrong setting of the tls block.
type SettingError struct {
	Setting string
	Err     error
}

// Error implements error.
func (e *SettingError) Error() string { return "tls." + e.Setting + ": " + e.Err.Error() }

// Unwrap returns what is wrong.
func (e *SettingError) Unwrap() error { return e.Err }

func wrong(setting, format string, args ...any) error {
	return &SettingError{Setting: setting, Err: fmt.Errorf(format, args...)}
}

// material is the immutable content of the files.
type material struct {
	cfg    Config
	cert   tls.Certificate
	roots  *x509.CertPool // nil without a CA file
	caEnds time.Time      // when the first certificate of the CA file expires
	min    uint16
	suites []uint16
}

// load reads the files that the settings need, and refuses settings that cannot work.
func load(cfg Config) (*material, error) {
	m := &material{cfg: cfg}
	var err error
	if m.min, err = version(cfg.MinVersion); err != nil {
		return nil, err
	}
	if m.suites, err = suites(cfg.CipherSuites); err != nil {
		return nil, err
	}
	switch {
	case !cfg.RPC && !cfg.HTTP:
		return m, nil
	case cfg.RPC && cfg.CAFile == "":
		return nil, wrong("rpc", "ca_file is not set: it names the trusted authorities")
	case cfg.HTTP && cfg.VerifyHTTPSClient && cfg.CAFile == "":
		return nil, wrong("verify_https_client", "ca_file is not set: it names the trusted authorities")
	}
	for setting, on := range map[string]bool{"rpc": cfg.RPC, "http": cfg.HTTP} {
		if on && (cfg.CertFile == "" || cfg.KeyFile == "") {
			return nil, wrong(setting, "cert_file and key_file are needed")
		}
	}
	if cfg.CAFile != "" {
		if m.roots, m.caEnds, err = readCA(cfg.CAFile); err != nil {
			return nil, err
		}
	}
	if m.cert, err = readPair(cfg.CertFile, cfg.KeyFile, time.Now()); err != nil {
		return nil, err
	}
	return m, errors.Join(m.ownUsage(), m.ownRole())
}

// readCA reads the authorities. Every certificate of the file must parse, since one that is skipped
// silently would be missing later. Ends is when the first of them expires.
func readCA(path string) (pool *x509.CertPool, ends time.Time, err error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, ends, wrong("ca_file", "%w", err)
	}
	found := 0
	pool = x509.NewCertPool()
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "CERTIFICATE" {
			return nil, ends, wrong("ca_file", "%s holds a %s: only certificates are expected", path, block.Type)
		}
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, ends, wrong("ca_file", "%s: %w", path, err)
		}
		pool.AddCert(cert)
		if ends.IsZero() || cert.NotAfter.Before(ends) {
			ends = cert.NotAfter
		}
		found++
	}
	if found == 0 {
		return nil, ends, wrong("ca_file", "%s holds no certificate in PEM", path)
	}
	return pool, ends, nil
}

// readPair reads the agent's certificate, its intermediates and its key.
func readPair(certFile, keyFile string, now time.Time) (tls.Certificate, error) {
	none := tls.Certificate{}
	cert, err := os.ReadFile(certFile)
	if err != nil {
		return none, wrong("cert_file", "%w", err)
	}
	key, err := os.ReadFile(keyFile)
	if err != nil {
		return none, wrong("key_file", "%w", err)
	}
	if block, _ := pem.Decode(cert); block == nil {
		return none, wrong("cert_file", "%s holds no certificate in PEM", certFile)
	}
	if block, _ := pem.Decode(key); block == nil {
		return none, wrong("key_file", "%s holds no key in PEM", keyFile)
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return none, wrong("key_file", "%s is not the key of %s: %w", keyFile, certFile, err)
	}
	switch {
	case now.After(pair.Leaf.NotAfter):
		return none, wrong("cert_file", "%s expired at %s: make a new one", certFile, pair.Leaf.NotAfter.UTC().Format(time.RFC3339))
	case now.Before(pair.Leaf.NotBefore):
		return none, wrong("cert_file", "%s is valid from %s on: check the clock of this machine", certFile,
			pair.Leaf.NotBefore.UTC().Format(time.RFC3339))
	}
	return pair, nil
}

// ownUsage refuses a certificate that lacks a usage of an agent: to open RPC connections, and to
// accept connections of RPC and HTTP.
func (m *material) ownUsage() error {
	has := func(usage x509.ExtKeyUsage) bool {
		all := m.cert.Leaf.ExtKeyUsage
		return len(all) == 0 || slices.Contains(all, usage) || slices.Contains(all, x509.ExtKeyUsageAny)
	}
	switch {
	case m.cfg.RPC && !has(x509.ExtKeyUsageClientAuth):
		return wrong("cert_file", "%s is not for client authentication: agents use it to open RPC connections", m.cfg.CertFile)
	case (m.cfg.HTTP || m.cfg.RPC && m.cfg.Server) && !has(x509.ExtKeyUsageServerAuth):
		return wrong("cert_file", "%s is not for server authentication: peers would refuse connections to this agent", m.cfg.CertFile)
	}
	return nil
}

// ownRole refuses a certificate that every other agent would refuse.
func (m *material) ownRole() error {
	if !m.cfg.RPC || !m.cfg.VerifyServerHostname {
		return nil
	}
	own := &Peer{names: namesOf(m.cert.Leaf)}
	server, client := serverName(m.cfg.Region), clientName(m.cfg.Region)
	switch {
	case own.Has(server), !m.cfg.Server && own.Has(client):
		return nil
	case m.cfg.Server:
		return wrong("cert_file", "%s is not for %s, which verify_server_hostname requires of a server", m.cfg.CertFile, server)
	}
	return wrong("cert_file", "%s is not for %s, which verify_server_hostname requires of a client", m.cfg.CertFile, client)
}

// base returns the settings common to all handshakes.
func (m *material) base() *tls.Config {
	return &tls.Config{Certificates: []tls.Certificate{m.cert}, MinVersion: m.min, CipherSuites: m.suites, SessionTicketsDisabled: true}
}

// incoming returns the configuration of incoming RPC connections.
func (m *material) incoming() *tls.Config {
	c := m.base()
	c.ClientAuth, c.ClientCAs = tls.RequireAndVerifyClientCert, m.roots
	c.VerifyConnection = func(state tls.ConnectionState) error { return m.role(&state) }
	return c
}

// outgoing returns the configuration of RPC connections to servers of a region.
func (m *material) outgoing(region string) *tls.Config {
	c := m.base()
	c.RootCAs, c.ServerName = m.roots, serverName(region)
	if !m.cfg.VerifyServerHostname {
		c.ServerName = ""
		c.InsecureSkipVerify = true // chain verifies instead, and checks the name
		c.VerifyConnection = func(state tls.ConnectionState) error {
			return m.chain(&state, x509.ExtKeyUsageServerAuth, "")
		}
	}
	return c
}

// node returns the configuration of connections to the HTTP API of clients of a region.
func (m *material) node(region string) *tls.Config {
	c := m.base()
	c.RootCAs, c.ServerName = m.roots, clientName(region)
	return c
}

// web returns the configuration of the HTTP API. Streams to tasks are upgraded HTTP/1.1
// connections.
func (m *material) web() *tls.Config {
	c := m.base()
	c.NextProtos = []string{"http/1.1"}
	if m.cfg.VerifyHTTPSClient {
		c.ClientAuth, c.ClientCAs = tls.RequireAndVerifyClientCert, m.roots
	}
	return c
}

// chain verifies the peer's certificates against the authorities.
func (m *material) chain(state *tls.ConnectionState, usage x509.ExtKeyUsage, name string) error {
	if len(state.PeerCertificates) == 0 {
		return fmt.Errorf("%w: the peer sent none", ErrPeer)
	}
	between := x509.NewCertPool()
	for _, cert := range state.PeerCertificates[1:] {
		between.AddCert(cert)
	}
	_, err := state.PeerCertificates[0].Verify(x509.VerifyOptions{Roots: m.roots, Intermediates: between, DNSName: name,
		KeyUsages: []x509.ExtKeyUsage{usage}})
	if err != nil {
		return &tls.CertificateVerificationError{UnverifiedCertificates: state.PeerCertificates, Err: err}
	}
	return nil
}

// judgeIncoming judges incoming RPC connections.
func judgeIncoming(m *material, state *tls.ConnectionState) error {
	switch {
	case state == nil && m.cfg.RPC && !m.cfg.UpgradeMode:
		return errPlain
	case state == nil:
		return nil
	case !m.cfg.RPC:
		return ErrNoTLS
	}
	return errors.Join(m.chain(state, x509.ExtKeyUsageClientAuth, ""), m.role(state))
}

// judgeOutgoing judges RPC connections to servers of a region.
func judgeOutgoing(region string) judge {
	return func(m *material, state *tls.ConnectionState) error {
		switch {
		case state == nil && m.cfg.RPC && !m.cfg.UpgradeMode:
			return errPlain
		case state == nil:
			return nil
		case !m.cfg.RPC:
			return ErrNoTLS
		case m.cfg.VerifyServerHostname:
			return m.chain(state, x509.ExtKeyUsageServerAuth, serverName(region))
		}
		return m.chain(state, x509.ExtKeyUsageServerAuth, "")
	}
}

// judgeHTTP judges connections to the HTTP API.
func judgeHTTP(m *material, state *tls.ConnectionState) error {
	switch {
	case state == nil && m.cfg.HTTP:
		return errPlain
	case state != nil && !m.cfg.HTTP:
		return ErrNoTLS
	case m.cfg.HTTP && m.cfg.VerifyHTTPSClient:
		return m.chain(state, x509.ExtKeyUsageClientAuth, "")
	}
	return nil
}
