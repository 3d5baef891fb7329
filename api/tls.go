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

// TLSConfig are the certificates of a client. Each may be given as a file or as
// PEM text; the text wins.
type TLSConfig struct {
	// CACert is a file with the certificates of CAs, CAPath a directory of such
	// files, read when there is neither CACert nor CACertPEM. Without any of the
	// three the CAs of the system are believed.
	CACert    string
	CAPath    string
	CACertPEM []byte
	// ClientCert and ClientKey are what the agent is shown if it asks.
	ClientCert    string
	ClientCertPEM []byte
	ClientKey     string
	ClientKeyPEM  []byte
	// TLSServerName is the name that the agent's certificate must have, instead
	// of the host of the address.
	TLSServerName string
	// Insecure believes every certificate of an agent.
	Insecure bool
}

// Copy returns a copy that shares nothing, nil of nil.
func (t *TLSConfig) Copy() *TLSConfig {
	if t == nil {
		return nil
	}
	c := *t
	c.CACertPEM, c.ClientCertPEM, c.ClientKeyPEM = bytes.Clone(t.CACertPEM), bytes.Clone(t.ClientCertPEM), bytes.Clone(t.ClientKeyPEM)
	return &c
}

// ConfigureTLS makes an HTTP client use the certificates. Its transport must be
// an *http.Transport, or none yet. A nil configuration changes nothing.
func ConfigureTLS(client *http.Client, config *TLSConfig) error {
	if config == nil {
		return nil
	}
	if client == nil {
		return errors.New("configure TLS: there is no HTTP client")
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

// load reads the certificates.
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
		// Shown whatever the CAs that the agent names: it says better what it misses.
		conf.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return pair, nil }
	}
	return conf, nil
}

// pair returns the client's certificate and key, nil when there is none.
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
		return nil, fmt.Errorf("the client certificate of %s needs its key too", certName)
	case cert == nil:
		return nil, fmt.Errorf("the client key of %s needs its certificate too", keyName)
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return nil, fmt.Errorf("load client certificate of %s with the key of %s: %w", certName, keyName, err)
	}
	return &pair, nil
}

// roots returns the pool of CA certificates, nil for that of the system.
func (t *TLSConfig) roots() (*x509.CertPool, error) {
	pool := x509.NewCertPool()
	switch {
	case t.CACertPEM != nil:
		return pool, addRoots(pool, t.CACertPEM, "the text")
	case t.CACert != "":
		return pool, addRootFile(pool, t.CACert)
	case t.CAPath != "":
		return pool, addRootDir(pool, t.CAPath)
	}
	return nil, nil
}

// addRootDir adds the files of a directory, those that are not hidden.
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
		return fmt.Errorf("read CA directory: there is no file in %s", dir)
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

// addRoots adds every certificate of a PEM text. Other blocks are left out.
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
		return fmt.Errorf("read CA certificate: %s holds no PEM certificate", from)
	}
	return nil
}

// pemOrFile returns a PEM text and where it came from, nil when there is none.
func pemOrFile(text []byte, file string) ([]byte, string, error) {
	if text != nil || file == "" {
		return text, "the text", nil
	}
	text, err := os.ReadFile(file)
	return text, file, err
}
