package getter

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"sync/atomic"
	"time"

	"golang.org/x/net/http/httpproxy"

	"github.com/open-nomad/open-nomad/internal/dialguard"
	"github.com/open-nomad/open-nomad/internal/fetch"
)

const (
	maxHeaders   = 1 << 20 // bytes of the headers of a response
	maxRedirects = 10
)

// newTransport returns a transport whose connections are checked (dial). It uses a proxy only if the
// operator has allowed the variables that set one.
func newTransport(insecure bool) *http.Transport {
	proxy := httpproxy.FromEnvironment().ProxyFunc()
	return &http.Transport{
		Proxy:                  func(r *http.Request) (*url.URL, error) { return proxy(r.URL) },
		DialContext:            dial,
		TLSClientConfig:        &tls.Config{InsecureSkipVerify: insecure}, //nolint:gosec // the option "insecure" of the job
		TLSHandshakeTimeout:    30 * time.Second,
		MaxResponseHeaderBytes: maxHeaders,
		// The file is stored as the server has it, and its length stays known.
		DisableCompression: true,
		ForceAttemptHTTP2:  true,
	}
}

// newHTTPClient returns the client of HTTP downloads. It sends the headers only to their origin.
func newHTTPClient(insecure bool, limit int64, got *counter, headers scoped) *http.Client {
	return &http.Client{
		Transport:     &limited{next: newTransport(insecure), limit: limit, got: got, headers: headers},
		CheckRedirect: checkRedirect,
	}
}

// scoped are the job's headers for one origin: a scheme, a host and a port. The library would also send them to the
// targets of redirects and to the host of a list of checksums.
type scoped struct {
	origin string
	header http.Header
}

// apply returns the request with the headers if it and all requests that were redirected to it are for the origin.
// Otherwise it removes what tells another host of the source: the header Referer.
func (s *scoped) apply(r *http.Request) *http.Request {
	r = r.Clone(r.Context()) // a transport must not change a request
	for q := r; ; q = q.Response.Request {
		if fetch.Origin(q.URL) != s.origin {
			r.Header.Del("Referer")
			return r
		}
		if q.Response == nil {
			break
		}
	}
	for name, values := range s.header {
		r.Header[name] = values
	}
	return r
}

// checkRedirect refuses redirects to other protocols.
func checkRedirect(r *http.Request, via []*http.Request) error {
	if s := r.URL.Scheme; s != "http" && s != "https" {
		return fmt.Errorf("redirect to scheme %q refused", s)
	}
	if len(via) >= maxRedirects {
		return fmt.Errorf("stopped after %d redirects", maxRedirects)
	}
	return nil
}

// limited is a transport that limits the size of responses. The library's own limit would cut them
// without an error.
type limited struct {
	next    http.RoundTripper
	limit   int64 // bytes; 0 is unlimited
	got     *counter
	headers scoped
}

func (l *limited) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := dialguard.CheckHost(r.URL.Hostname()); err != nil { // a proxy would connect to it
		return nil, err
	}
	resp, err := l.next.RoundTrip(l.headers.apply(r))
	if err != nil {
		return nil, err
	}
	if l.limit > 0 && resp.ContentLength > l.limit {
		resp.Body.Close() // the response is refused
		return nil, &tooLarge{what: "response", limit: l.limit}
	}
	if resp.StatusCode == http.StatusOK || resp.StatusCode == http.StatusPartialContent {
		l.got.bytes.Store(0)
		l.got.total.Store(max(resp.ContentLength, 0))
	}
	resp.Body = &body{ReadCloser: resp.Body, limit: l.limit, got: l.got}
	return resp, nil
}

// tooLarge is the error for something larger than its limit.
type tooLarge struct {
	what  string
	limit int64
}

func (e *tooLarge) Error() string {
	return fmt.Sprintf("%s is larger than the limit of %d bytes", e.what, e.limit)
}

// counter counts the received bytes of the latest response.
type counter struct {
	bytes atomic.Int64
	total atomic.Int64 // 0 if unknown
}

// body is the body of a response. A body above the limit is an error.
type body struct {
	io.ReadCloser
	read, limit int64
	got         *counter
}

func (b *body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.read += int64(n)
	b.got.bytes.Add(int64(n))
	if b.limit > 0 && b.read > b.limit {
		return 0, &tooLarge{what: "response", limit: b.limit}
	}
	if errors.Is(err, io.ErrUnexpectedEOF) {
		err = fmt.Errorf("the response ended after %d bytes, before its declared length: %w", b.read, err)
	}
	return n, err
}
