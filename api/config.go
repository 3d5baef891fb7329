package api

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// defaultAddress is where an agent on this machine listens unless it was told otherwise.
const defaultAddress = "http://127.0.0.1:4646"

// Config says which agent a client talks to and how. The zero value of each
// field means its default.
type Config struct {
	// Address is http://host:port, https://host:port or unix:///path/to/socket.
	Address string
	// Region, Namespace and SecretID (the token) are used by requests whose own
	// options do not name another.
	Region    string
	SecretID  string
	Namespace string
	// HttpClient replaces the client that NewClient builds; TLSConfig and unix
	// addresses are then its own affair.
	HttpClient *http.Client
	HttpAuth   *HttpBasicAuth
	// WaitTime bounds blocking queries that name no time of their own.
	WaitTime  time.Duration
	TLSConfig *TLSConfig
	// Headers are sent with every request.
	Headers http.Header
}

// HttpBasicAuth are a user name and password that a proxy before the agent may ask for.
type HttpBasicAuth struct {
	Username string
	Password string
}

// TLSConfig are the certificates of a client. Each may be given as a file or as
// PEM text; the text wins.
type TLSConfig struct {
	CACert        string
	CAPath        string
	CACertPEM     []byte
	ClientCert    string
	ClientCertPEM []byte
	ClientKey     string
	ClientKeyPEM  []byte
	TLSServerName string
	Insecure      bool
}

// DefaultConfig returns the configuration that the NOMAD_ environment variables
// describe: NOMAD_ADDR, NOMAD_TOKEN, NOMAD_NAMESPACE, NOMAD_REGION,
// NOMAD_HTTP_AUTH and those of the certificates.
func DefaultConfig() *Config {
	c := &Config{
		Address:   defaultAddress,
		Region:    os.Getenv("NOMAD_REGION"),
		Namespace: os.Getenv("NOMAD_NAMESPACE"),
		SecretID:  os.Getenv("NOMAD_TOKEN"),
		TLSConfig: &TLSConfig{
			CACert:        os.Getenv("NOMAD_CACERT"),
			CAPath:        os.Getenv("NOMAD_CAPATH"),
			ClientCert:    os.Getenv("NOMAD_CLIENT_CERT"),
			ClientKey:     os.Getenv("NOMAD_CLIENT_KEY"),
			TLSServerName: os.Getenv("NOMAD_TLS_SERVER_NAME"),
		},
	}
	if addr := os.Getenv("NOMAD_ADDR"); addr != "" {
		c.Address = addr
	}
	if auth := os.Getenv("NOMAD_HTTP_AUTH"); auth != "" {
		user, password, _ := strings.Cut(auth, ":")
		c.HttpAuth = &HttpBasicAuth{Username: user, Password: password}
	}
	// A value that is not a boolean leaves verification on.
	c.TLSConfig.Insecure, _ = strconv.ParseBool(os.Getenv("NOMAD_SKIP_VERIFY"))
	return c
}

// endpoint returns the base URL of requests and the client that sends them.
func (c *Config) endpoint() (*url.URL, *http.Client, error) {
	addr := c.Address
	if addr == "" {
		addr = defaultAddress
	}
	u, err := url.Parse(addr)
	if err != nil {
		return nil, nil, fmt.Errorf("invalid address %q: %w", addr, err)
	}
	client := c.HttpClient
	switch u.Scheme {
	case "http", "https":
		if u.Host == "" {
			return nil, nil, fmt.Errorf("invalid address %q: no host", addr)
		}
		if client == nil {
			if client, err = c.httpClient(); err != nil {
				return nil, nil, err
			}
		}
		return &url.URL{Scheme: u.Scheme, Host: u.Host, Path: strings.TrimSuffix(u.Path, "/")}, client, nil
	case "unix":
		socket := filepath.Join("/", u.Host, u.Path)
		if client == nil {
			client = unixClient(socket)
		}
		return &url.URL{Scheme: "http", Host: "127.0.0.1"}, client, nil
	}
	return nil, nil, fmt.Errorf("invalid address %q: the scheme must be http, https or unix", addr)
}

func unixClient(socket string) *http.Client {
	var d net.Dialer
	return &http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return d.DialContext(ctx, "unix", socket)
		},
		IdleConnTimeout: 90 * time.Second,
	}}
}

func (c *Config) httpClient() (*http.Client, error) {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.ForceAttemptHTTP2 = false
	if c.TLSConfig != nil {
		conf, err := c.TLSConfig.load()
		if err != nil {
			return nil, err
		}
		t.TLSClientConfig = conf
	}
	return &http.Client{Transport: t}, nil
}

// load reads the certificates.
func (t *TLSConfig) load() (*tls.Config, error) {
	conf := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: t.TLSServerName, InsecureSkipVerify: t.Insecure}
	roots, err := t.roots()
	if err != nil {
		return nil, err
	}
	conf.RootCAs = roots
	cert, err := pemOrFile(t.ClientCertPEM, t.ClientCert)
	if err != nil {
		return nil, fmt.Errorf("read client certificate: %w", err)
	}
	key, err := pemOrFile(t.ClientKeyPEM, t.ClientKey)
	if err != nil {
		return nil, fmt.Errorf("read client key: %w", err)
	}
	if (cert == nil) != (key == nil) {
		return nil, fmt.Errorf("a client certificate needs its key, and a key its certificate: only one was given")
	}
	if cert != nil {
		pair, err := tls.X509KeyPair(cert, key)
		if err != nil {
			return nil, fmt.Errorf("load client certificate: %w", err)
		}
		conf.Certificates = []tls.Certificate{pair}
	}
	return conf, nil
}

// roots returns the pool of CA certificates, nil for that of the system.
func (t *TLSConfig) roots() (*x509.CertPool, error) {
	files := []string{}
	if t.CAPath != "" && t.CACert == "" && t.CACertPEM == nil {
		entries, err := os.ReadDir(t.CAPath)
		if err != nil {
			return nil, fmt.Errorf("read CA directory: %w", err)
		}
		for _, e := range entries {
			files = append(files, filepath.Join(t.CAPath, e.Name()))
		}
	} else if t.CACert != "" && t.CACertPEM == nil {
		files = append(files, t.CACert)
	}
	if t.CACertPEM == nil && len(files) == 0 {
		return nil, nil
	}
	pool := x509.NewCertPool()
	if t.CACertPEM != nil && !pool.AppendCertsFromPEM(t.CACertPEM) {
		return nil, fmt.Errorf("the CA text holds no PEM certificate")
	}
	for _, name := range files {
		pem, err := os.ReadFile(name)
		if err != nil {
			return nil, fmt.Errorf("read CA certificate: %w", err)
		}
		if !pool.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("%s holds no PEM certificate", name)
		}
	}
	return pool, nil
}

func pemOrFile(pem []byte, file string) ([]byte, error) {
	if pem != nil || file == "" {
		return pem, nil
	}
	return os.ReadFile(file)
}
