package engine

import (
	"bytes"
	"context"
	"io"
	"log"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/consul-template/dependency"

	"github.com/open-nomad/open-nomad/internal/render"
)

const (
	// vaultTimeout limits a request. It is longer than Timeout of internal/vault/readproxy, whose error has more details.
	vaultTimeout = 75 * time.Second
	// sourceHeader is the header with the source of a request.
	sourceHeader = "X-Source"
)

// inProcess is a listener for connections of this process, and connects to itself. Its server sends requests to the
// agent.
type inProcess struct{ conns chan net.Conn }

// serveVault returns the listener for the clients of Vault.
func serveVault(agent http.RoundTripper) *inProcess {
	l := &inProcess{conns: make(chan net.Conn)}
	srv := &http.Server{Handler: forward(&probeGuard{agent: agent, failed: map[string]failedProbe{}}, render.VaultHost),
		ErrorLog: log.New(io.Discard, "", 0)}
	go srv.Serve(l) //nolint:errcheck // it ends with the program
	return l
}

// clients returns the clients of a source, for the queries of the library.
func (l *inProcess) clients(namespace, source string) (*dependency.ClientSet, error) {
	clients := dependency.NewClientSet()
	err := clients.CreateVaultClient(&dependency.CreateVaultClientInput{
		Address: "http://" + render.VaultHost, Namespace: namespace,
		TransportCustomDialer: l, TransportMaxIdleConns: 1, TransportIdleConnTimeout: time.Second,
	})
	if err != nil {
		return nil, err
	}
	client := clients.Vault()
	client.AddHeader(sourceHeader, source)
	client.SetMaxRetries(0) // the agent repeats requests
	client.SetClientTimeout(vaultTimeout)
	return clients, nil
}

// DialContext returns a new connection to the listener.
func (l *inProcess) DialContext(ctx context.Context, _, _ string) (net.Conn, error) {
	ours, theirs := net.Pipe()
	select {
	case l.conns <- theirs:
		return ours, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Dial is DialContext without a context.
func (l *inProcess) Dial(network, address string) (net.Conn, error) {
	return l.DialContext(context.Background(), network, address)
}

// Accept returns the next connection.
func (l *inProcess) Accept() (net.Conn, error) { return <-l.conns, nil }

// Close does nothing: the listener ends with the program.
func (l *inProcess) Close() error { return nil }

// Addr returns an address without a meaning.
func (l *inProcess) Addr() net.Addr { return &net.UnixAddr{Net: "unix"} }

// probeGuard gives the request after a failed probe of a mount the answer of the probe. The library would take the
// mount for one without versions, and use the wrong path: a list would be empty, and a write could go elsewhere.
type probeGuard struct {
	agent  http.RoundTripper
	mu     sync.Mutex
	failed map[string]failedProbe // by source
}

// failedProbe is the answer of a probe, or its error.
type failedProbe struct {
	status int
	body   []byte
	err    error
}

// maxProbeError limits the body of a failed probe.
const maxProbeError = 4 << 10

// RoundTrip sends a request, unless the probe before it has failed.
func (g *probeGuard) RoundTrip(r *http.Request) (*http.Response, error) {
	source := r.Header.Get(sourceHeader)
	r.Header.Del(sourceHeader)
	if strings.HasPrefix(r.URL.Path, "/v1/sys/internal/ui/mounts/") {
		return g.probe(r, source)
	}
	g.mu.Lock()
	f, failed := g.failed[source]
	delete(g.failed, source)
	g.mu.Unlock()
	switch {
	case !failed:
		return g.agent.RoundTrip(r)
	case f.err != nil:
		return nil, f.err
	}
	return &http.Response{
		StatusCode: f.status, Proto: r.Proto, ProtoMajor: r.ProtoMajor, ProtoMinor: r.ProtoMinor, Header: http.Header{},
		Body: io.NopCloser(bytes.NewReader(f.body)), ContentLength: int64(len(f.body)), Request: r,
	}, nil
}

// probe sends a probe, and records whether it has failed. A token without a right to the mount is not a failure.
func (g *probeGuard) probe(r *http.Request, source string) (*http.Response, error) {
	resp, err := g.agent.RoundTrip(r)
	f := failedProbe{err: err}
	switch {
	case err != nil:
	case resp.StatusCode < http.StatusInternalServerError && resp.StatusCode != http.StatusTooManyRequests:
		return resp, nil
	default:
		f.status = resp.StatusCode
		f.body, _ = io.ReadAll(io.LimitReader(resp.Body, maxProbeError)) // a part is enough
		resp.Body.Close()
		resp.Body = io.NopCloser(bytes.NewReader(f.body))
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.failed[source] = f
	return resp, err
}
