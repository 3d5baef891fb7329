// Package vault is the connection to clusters of Vault and OpenBao. Everything in this program that talks to Vault for
// nodes and workloads uses it.
//
// A cluster has no token of its own: each caller passes the token of its workload, or none. No variable, file of the home
// directory or token file of this agent affects a request. The only exceptions are the variables of HTTP proxies.
//
// An answer is at most 4 MiB, and a redirect is an error, since the library would send the token along. A failed request
// is repeated twice, within the time limit of the caller. Redact removes the text of an answer from an error, because
// Vault may repeat a token in it. The settings can be replaced while requests run: a reload of the configuration does so.
// The package starts no goroutine.
package vault

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-retryablehttp"
	"github.com/hashicorp/vault/api"
)

// DefaultCluster is the name of the cluster that jobs can use.
const DefaultCluster = "default"

// MaxAnswer limits an answer of Vault, in bytes. An entry of its storage has 1 MiB at most.
const MaxAnswer = 4 << 20

const (
	// timeout limits a request with its repetitions.
	timeout = 60 * time.Second
	// retries are the repetitions of a request that failed.
	retries                    = 2
	minRetryWait, maxRetryWait = time.Second, 1500 * time.Millisecond
)

// Settings are those of the connection to a cluster.
type Settings struct {
	Name      string // of the cluster
	Address   string // a URL
	Namespace string // of workloads whose job does not name one; "" for the root namespace
	AuthPath  string // the mount of the auth method for JWTs, without "auth/"
	Role      string // of workloads whose job does not name one; "" for the default role of the auth method
	TLS       TLS
	// Transport sends the requests. The default is a transport with TLS.
	Transport http.RoundTripper
}

// TLS are the settings of TLS. Empty ones are those of the system.
type TLS struct {
	CAFile, CAPath, CertFile, KeyFile, ServerName string
	SkipVerify                                    bool
}

// Cluster is a cluster of Vault. Its methods may be called concurrently.
type Cluster struct{ current atomic.Pointer[connection] }

// connection is a Cluster with one set of settings.
type connection struct {
	settings  Settings
	client    *api.Client // without a token
	transport *http.Transport
}

// Errors of an address.
var (
	errUser   = errors.New("the address of Vault contains a user, which every error of a request would show")
	errScheme = errors.New("the address of Vault must begin with http:// or https://")
	errPath   = errors.New("the address of Vault must not have a query or a fragment")
)

// errClient hides the cause, which could contain a value of the environment.
var errClient = errors.New("the client of Vault cannot be made from these settings")

// New returns a cluster. It makes no request. TLS files that cannot be read are an error.
func New(s Settings) (*Cluster, error) {
	c := &Cluster{}
	return c, c.Replace(s)
}

// Replace changes the settings. Requests in progress end with the old ones. On error the old settings stay.
func (c *Cluster) Replace(s Settings) error {
	if err := CheckAddress(s.Address); err != nil {
		return err
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	client, err := newClient(s, transport)
	if err != nil {
		return err
	}
	if old := c.current.Swap(&connection{s, client, transport}); old != nil {
		old.transport.CloseIdleConnections()
	}
	return nil
}

// Name returns the name of the cluster.
func (c *Cluster) Name() string { return c.Settings().Name }

// Settings returns the current settings.
func (c *Cluster) Settings() Settings { return c.current.Load().settings }

// Client returns a client with the current settings for requests with a token and in a namespace, either of which may be
// empty. Keep it for one use only, and do not call its method Clone, which reads the environment.
func (c *Cluster) Client(token, namespace string) *api.Client {
	out := c.current.Load().client.WithNamespace(namespace)
	out.SetToken(token)
	return out
}

// CheckAddress returns an error if a text is not the address of a Vault.
func CheckAddress(text string) error {
	u, err := url.Parse(text)
	switch {
	case err != nil:
		return errors.New("the address of Vault is malformed") // err contains it
	case u.User != nil:
		return errUser
	case u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		return errScheme
	case u.RawQuery != "" || u.Fragment != "":
		return errPath
	}
	return nil
}

// newClient returns a client without a token.
func newClient(s Settings, transport *http.Transport) (*api.Client, error) {
	cfg, err := newConfig(s, transport)
	if err != nil {
		return nil, err
	}
	// NewClient reads the environment. What it has taken from there is removed: the rest of cfg comes from the settings.
	client, err := newAPIClient(cfg)
	if err != nil {
		return nil, errClient
	}
	client.ClearToken()
	client.SetWrappingLookupFunc(unwrapped)
	client.SetHeaders(http.Header{api.RequestHeaderName: {"true"}})
	return client, nil
}

func newConfig(s Settings, transport *http.Transport) (*api.Config, error) {
	transport.TLSClientConfig = &tls.Config{MinVersion: tls.VersionTLS12}
	cfg := &api.Config{Address: s.Address, HttpClient: &http.Client{Transport: transport}, Timeout: timeout,
		MinRetryWait: minRetryWait, MaxRetryWait: maxRetryWait, MaxRetries: retries, DisableRedirects: true,
		Backoff: retryablehttp.RateLimitLinearJitterBackoff, CheckRetry: checkRetry}
	for _, file := range []string{s.TLS.CAFile, s.TLS.CAPath} {
		if _, err := os.Stat(file); file != "" && err != nil {
			return nil, err
		}
	}
	err := cfg.ConfigureTLS(&api.TLSConfig{CACert: s.TLS.CAFile, CAPath: s.TLS.CAPath, ClientCert: s.TLS.CertFile,
		ClientKey: s.TLS.KeyFile, TLSServerName: s.TLS.ServerName, Insecure: s.TLS.SkipVerify})
	if err != nil {
		return nil, fmt.Errorf("TLS to Vault: %w", err)
	}
	cfg.HttpClient.Transport = limited{transport}
	if s.Transport != nil {
		cfg.HttpClient.Transport = limited{s.Transport}
	}
	cfg.HttpClient.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return cfg, nil
}

// checkRetry reports whether a request is sent again. A redirect would be answered again.
func checkRetry(ctx context.Context, resp *http.Response, err error) (bool, error) {
	if errors.Is(err, errRedirect) {
		return false, err
	}
	return api.DefaultRetryPolicy(ctx, resp, err)
}

// limited is a transport whose answers end with an error after MaxAnswer bytes, and that has no redirects.
type limited struct{ http.RoundTripper }

func (l limited) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := l.RoundTripper.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode >= 300 && resp.StatusCode < 400 {
		_ = resp.Body.Close() // what remains of the answer does not matter
		return nil, errRedirect
	}
	resp.Body = http.MaxBytesReader(nil, resp.Body, MaxAnswer)
	return resp, nil
}
