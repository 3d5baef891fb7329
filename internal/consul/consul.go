// Package consul is the connection to the local agents of Consul, one per cluster. Everything in this program that talks
// to Consul uses it: detection, registration (package reconcile), tokens of workloads, templates and discovery.
//
// An answer is at most 16 MiB with 300,000 objects, and a redirect is an error, since the library would send the token
// along. Redact removes the text of an answer from an error, because Consul may repeat a token in it, and adds the cause
// and what to do. The settings can be replaced while requests run: a reload of the configuration does so. The method Stream
// is for answers that are passed on: it does not limit them. The function Each reads a long list, value by value.
// The package starts no goroutine.
package consul

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/hashicorp/consul/api"
)

// DefaultCluster is the name of the cluster that jobs can use.
const DefaultCluster = "default"

// MaxAnswer limits an answer of Consul, in bytes. The list of 1,000 checks with 4 KiB of output each, which is the most
// that Consul keeps by default, has 5 MiB, and up to twice as much if the output has to be escaped.
const MaxAnswer = 16 << 20

// Settings are those of the connection to an agent of Consul.
type Settings struct {
	Name    string        // of the cluster
	HTTP    api.Config    // address, token of this agent, TLS
	Timeout time.Duration // of a request
	// GRPCAddress and GRPCCAFile are for the proxies of the service mesh. Without an address, it is the host of the HTTP
	// address and the port that the agent of Consul reports.
	GRPCAddress, GRPCCAFile string
	ShareTLS                bool // tasks of the service mesh get the TLS files of HTTP
}

// Agent is the local agent of a cluster. Its methods may be called concurrently.
type Agent struct{ current atomic.Pointer[connection] }

// connection is an Agent with one set of settings.
type connection struct {
	settings Settings
	client   *api.Client
	stream   *http.Client // without limit of answers
}

// errUser means that the address contains a user. Errors of requests would show the password.
var errUser = errors.New("the address of Consul contains a user: use auth, -consul-auth or CONSUL_HTTP_AUTH")

// New returns the agent of a cluster. It makes no request. TLS files that cannot be read are an error.
func New(s Settings) (*Agent, error) {
	a := &Agent{}
	return a, a.Replace(s)
}

// Replace changes the settings. Requests in progress end with the old ones. On error the old settings stay.
func (a *Agent) Replace(s Settings) error {
	cfg := s.HTTP
	if strings.Contains(cfg.Address, "@") && !strings.HasPrefix(cfg.Address, "unix://") {
		return errUser
	}
	client, stream, err := newClient(&cfg)
	if err != nil {
		return err
	}
	s.HTTP.Scheme, s.HTTP.Address, s.HTTP.PathPrefix = cfg.Scheme, cfg.Address, cfg.PathPrefix // of an address with a scheme
	s.HTTP.Token = cfg.Token                                                                   // of a file
	a.current.Store(&connection{s, client, stream})
	return nil
}

// Name returns the name of the cluster.
func (a *Agent) Name() string { return a.Settings().Name }

// Settings returns the current settings. They contain the token of this agent.
func (a *Agent) Settings() Settings { return a.current.Load().settings }

// TLS reports whether requests use TLS.
func (a *Agent) TLS() bool { return a.Settings().HTTP.Scheme == "https" }

// Client returns the client with the current settings. Its requests have the token of this agent, unless the options of
// a request have another one: an empty token there is the token of this agent.
func (a *Agent) Client() *api.Client { return a.current.Load().client }

// Within returns a context with the time limit of one request.
func (a *Agent) Within(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, a.Settings().Timeout)
}

// Stream sends a GET request with a token, or without one if it is empty: the token of this agent is not added. The
// caller limits the answer and the duration, and closes the body. An error has the path: Redact removes it.
func (a *Agent) Stream(ctx context.Context, path string, query url.Values, token string) (*http.Response, error) {
	c := a.current.Load()
	req, err := c.request(ctx, path, query, token)
	if err != nil {
		return nil, err
	}
	// A connection of its own: on a reused one, the library would repeat a query that a restart of Consul has ended, with an
	// index that the new state may not reach for long.
	req.Close = true
	return c.stream.Do(req)
}

// request returns a GET request with a token, or without one if it is empty.
func (c *connection) request(ctx context.Context, path string, query url.Values, token string) (*http.Request, error) {
	cfg := &c.settings.HTTP
	u := url.URL{Scheme: cfg.Scheme, Host: cfg.Address, Path: cfg.PathPrefix + path, RawQuery: query.Encode()}
	if strings.HasPrefix(u.Host, "/") {
		u.Host = "localhost" // the address is the path of a socket, which is not a valid host
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, errors.New("the path or the address of Consul is malformed") // err contains the path
	}
	if cfg.HttpAuth != nil {
		req.SetBasicAuth(cfg.HttpAuth.Username, cfg.HttpAuth.Password)
	}
	if token != "" {
		req.Header.Set("X-Consul-Token", token)
	}
	return req, nil
}

// newClient returns a client that reads limited answers, and one for Stream. They do not follow redirects.
func newClient(cfg *api.Config) (*api.Client, *http.Client, error) {
	// NewClient and the code below change both. They belong to the caller, who may pass them again.
	if cfg.HttpClient != nil {
		own := *cfg.HttpClient
		cfg.HttpClient = &own
	}
	if cfg.Transport != nil {
		cfg.Transport = cfg.Transport.Clone()
		cfg.Transport.TLSClientConfig = nil // of earlier settings: NewClient sets that of cfg only if there is none
	}
	c, err := api.NewClient(cfg)
	if err != nil {
		return nil, nil, err
	}
	// NewClient sets the HTTP client for the address, and shares it.
	cfg.HttpClient.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	stream := *cfg.HttpClient
	cfg.HttpClient.Transport = limited{cfg.HttpClient.Transport}
	return c, &stream, nil
}

// limited is a transport whose answers fail after MaxAnswer bytes or maxObjects objects.
type limited struct{ http.RoundTripper }

func (l limited) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := l.RoundTripper.RoundTrip(r)
	if err == nil {
		resp.Body = struct {
			io.Reader
			io.Closer
		}{&objects{from: &limitedBody{resp.Body, MaxAnswer}, left: maxObjects}, resp.Body}
	}
	return resp, err
}

// limitedBody is an answer with a limit of bytes.
type limitedBody struct {
	io.Reader
	remaining int
}

func (b *limitedBody) Read(p []byte) (int, error) {
	if b.remaining <= 0 {
		return 0, errTooLarge
	}
	n, err := b.Reader.Read(p[:min(len(p), b.remaining)])
	b.remaining -= n
	return n, err
}
