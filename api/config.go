package api

import (
	"context"
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
	client := &http.Client{Transport: t}
	if err := ConfigureTLS(client, c.TLSConfig); err != nil {
		return nil, err
	}
	return client, nil
}
