package api

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
)

// TLSConfig is the TLS configuration of a client. A certificate is a file or PEM text. The
// text takes precedence.
type TLSConfig struct {
	// CACert is a file with CA certificates. CAPath is a directory of such files,
	// which is used without CACert and CACertPEM. Without all three, the system's
	// CAs are trusted.
	CACert    string
	CAPath    string
	CACertPEM []byte
	// ClientCert and ClientKey are sent to an agent that requests a certificate.
	ClientCert    string
	ClientCertPEM []byte
	ClientKey     string
	ClientKeyPEM  []byte
	// TLSServerName is the expected name in the agent's certificate. The default is
	// the host of the address.
	TLSServerName string
	// Insecure disables the verification of the agent's certificate.
	Insecure bool
}

// Copy returns a deep copy. The copy of nil is nil.
func (t *TLSConfig) Copy() *TLSConfig {
	if t == nil {
		return nil
	}
	c := *t
	c.CACertPEM, c.ClientCertPEM, c.ClientKeyPEM = bytes.Clone(t.CACertPEM), bytes.Clone(t.ClientCertPEM), bytes.Clone(t.ClientKeyPEM)
	return &c
}

// ConfigureTLS sets the TLS configuration of an HTTP client. Its transport must be nil or
// an *http.Transport. A nil config changes nothing.
func ConfigureTLS(client *http.Client, config *TLSConfig) error {
	if config == nil {
		return nil
	}
	if client == nil {
		return errors.New("configure TLS: the HTTP client is nil")
	}
	transport, ok := client.Transport.(*http.Transport)
	switch {
	case client.Transport == nil:
		transport = http.DefaultTransport.(*http.Transport).Clone()
		transport.ForceAttemptHTTP2 = false
	case !ok || transport == nil:
		return fmt.Errorf("configure TLS: the transport of the HTTP client is a %T, not an *http.Transport", client.Transport)
	}
	conf, err := config.load()
	if err != nil {
		return fmt.Errorf("configure TLS: %w", err)
	}
	transport.TLSClientConfig, client.Transport = conf, transport
	return nil
}

// load reads the certificates and returns the configuration for crypto/tls.
func (t *TLSConfig) load() (*tls.Config, error) {
	roots, err := t.roots()
	if err != nil {
		return nil, err
	}
	conf := &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots, ServerName: t.TLSServerName, InsecureSkipVerify: t.Insecure}
	pair, err := t.pair()
	if err != nil {
		return nil, err
	}
	if pair != nil {
		// The certificate is sent even if the agent does not accept its CA, because
		// the agent's error is more specific.
		conf.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return pair, nil }
	}
	return conf, nil
}

// pair returns the client's certificate and key, or nil if none is configured.
func (t *TLSConfig) pair() (*tls.Certificate, error) {
	cert, certName, err := pemOrFile(t.ClientCertPEM, t.ClientCert)
	if err != nil {
		return nil, fmt.Errorf("read client certificate: %w", err)
	}
	key, keyName, err := pemOrFile(t.ClientKeyPEM, t.ClientKey)
	switch {
	case err != nil:
		return nil, fmt.Errorf("read client key: %w", err)
	case cert == nil && key == nil:
		return nil, nil
	case key == nil:
		return nil, fmt.Errorf("the client certificate of %s requires a client key", certName)
	case cert == nil:
		return nil, fmt.Errorf("the client key of %s requires a client certificate", keyName)
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return nil, fmt.Errorf("load client certificate of %s with the key of %s: %w", certName, keyName, err)
	}
	return &pair, nil
}

// roots returns the pool of CA certificates, or nil for the system's pool.
func (t *TLSConfig) roots() (*x509.CertPool, error) {
	pool := x509.NewCertPool()
	switch {
	case t.CACertPEM != nil:
		return pool, addRoots(pool, t.CACertPEM, "inline PEM")
	case t.CACert != "":
		return pool, addRootFile(pool, t.CACert)
	case t.CAPath != "":
		return pool, addRootDir(pool, t.CAPath)
	}
	return nil, nil
}

// addRootDir adds the certificates of the files in a directory, except hidden files.
func addRootDir(pool *x509.CertPool, dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("read CA directory: %w", err)
	}
	found := false
	for _, e := range entries {
		name := filepath.Join(dir, e.Name())
		if info, err := os.Stat(name); strings.HasPrefix(e.Name(), ".") || err == nil && info.IsDir() {
			continue
		}
		if err := addRootFile(pool, name); err != nil {
			return err
		}
		found = true
	}
	if !found {
		return fmt.Errorf("read CA directory: no files in %s", dir)
	}
	return nil
}

func addRootFile(pool *x509.CertPool, name string) error {
	text, err := os.ReadFile(name)
	if err != nil {
		return fmt.Errorf("read CA certificate: %w", err)
	}
	return addRoots(pool, text, name)
}

// addRoots adds all certificates of a PEM text. It ignores other blocks.
func addRoots(pool *x509.CertPool, text []byte, from string) error {
	found := false
	for {
		block, rest := pem.Decode(text)
		if block == nil {
			break
		}
		text = rest
		if block.Type != "CERTIFICATE" {
			continue
		}
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return fmt.Errorf("read CA certificate of %s: %w", from, err)
		}
		pool.AddCert(cert)
		found = true
	}
	if !found {
		return fmt.Errorf("read CA certificate: no PEM certificate in %s", from)
	}
	return nil
}

// pemOrFile returns a PEM text and its source, or nil if neither is set.
func pemOrFile(text []byte, file string) ([]byte, string, error) {
	if text != nil || file == "" {
		return text, "inline PEM", nil
	}
	text, err := os.ReadFile(file)
	return text, file, err
}
