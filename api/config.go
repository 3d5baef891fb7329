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

// defaultAddress is the default address of an agent on this machine.
const defaultAddress = "http://127.0.0.1:4646"

// Config is the configuration of a Client. The zero value of a field means its default.
type Config struct {
	// Address is http://host:port, https://host:port or unix:///path/to/socket.
	Address string
	// Region, Namespace and SecretID (the token) are the defaults for requests without
	// these options.
	Region    string
	SecretID  string
	Namespace string
	// HttpClient is used instead of the client that NewClient creates. TLSConfig and the
	// path of a unix address then have no effect.
	HttpClient *http.Client
	HttpAuth   *HttpBasicAuth
	// WaitTime is the default maximum time of blocking queries.
	WaitTime  time.Duration
	TLSConfig *TLSConfig
	// Headers are sent with every request.
	Headers http.Header
}

// HttpBasicAuth is the user name and password for a proxy in front of the agent.
type HttpBasicAuth struct {
	Username string
	Password string
}

// DefaultConfig returns the configuration from environment variables: NOMAD_ADDR,
// NOMAD_TOKEN, NOMAD_NAMESPACE, NOMAD_REGION, NOMAD_HTTP_AUTH and the TLS variables.
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
	// An invalid boolean means false, so that verification stays on.
	c.TLSConfig.Insecure, _ = strconv.ParseBool(os.Getenv("NOMAD_SKIP_VERIFY"))
	return c
}

// ClientConfig returns a copy with another region, and with host:port as the address.
func (c *Config) ClientConfig(region, address string, tlsEnabled bool) *Config {
	out := *c
	out.Region, out.Address, out.HttpClient = region, "http://"+address, nil
	if tlsEnabled {
		out.Address = "https://" + address
	}
	if c.TLSConfig != nil {
		out.TLSConfig = c.TLSConfig.Copy()
	}
	return &out
}

// endpoint returns the base URL and the HTTP client of requests.
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
