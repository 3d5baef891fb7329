package login

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"
)

// Limits for requests to identity providers.
const (
	maxAnswer    = 1 << 20
	maxRedirects = 3
	dialWithin   = 5 * time.Second
	answerWithin = 10 * time.Second
)

// errTooLong is the error for an answer that exceeds the limit.
var errTooLong = fmt.Errorf("its answer is longer than %d bytes", maxAnswer)

// newClient returns the HTTP client for one identity provider. Without cas it trusts the
// system's CAs. It keeps no idle connections, because logins are rare.
func newClient(cas []string) (*http.Client, error) {
	pool, err := parseCAs(cas)
	if err != nil {
		return nil, err
	}
	transport := &http.Transport{
		Proxy:                  nil, // a proxy configured for other purposes must not see tokens
		DialContext:            (&net.Dialer{Timeout: dialWithin}).DialContext,
		TLSClientConfig:        &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: pool},
		TLSHandshakeTimeout:    dialWithin,
		ResponseHeaderTimeout:  answerWithin,
		MaxResponseHeaderBytes: 64 << 10,
		DisableKeepAlives:      true,
	}
	return &http.Client{Transport: bounded{transport}, Timeout: answerWithin, CheckRedirect: sameHost}, nil
}

// parseCAs parses CA certificates in PEM; nil means the system's CAs.
func parseCAs(texts []string) (*x509.CertPool, error) {
	texts = slices.DeleteFunc(slices.Clone(texts), func(s string) bool { return strings.TrimSpace(s) == "" })
	if len(texts) == 0 {
		return nil, nil
	}
	pool := x509.NewCertPool()
	for i, text := range texts {
		if !pool.AppendCertsFromPEM([]byte(text)) {
			return nil, fmt.Errorf("CA %d contains no certificate in PEM", i+1)
		}
	}
	return pool, nil
}

// sameHost allows redirects of reads within a host, so that tokens and secrets go to no other
// host.
func sameHost(req *http.Request, via []*http.Request) error {
	first := via[0]
	switch {
	case first.Method != http.MethodGet:
		return http.ErrUseLastResponse
	case len(via) > maxRedirects:
		return errors.New("it redirects too often")
	case req.URL.Scheme != first.URL.Scheme || req.URL.Host != first.URL.Host:
		return errors.New("it redirects to another host")
	}
	return nil
}

// bounded limits the size of answers.
type bounded struct{ next http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (b bounded) RoundTrip(req *http.Request) (*http.Response, error) {
	if err := checkURL(req.URL); err != nil {
		return nil, err
	}
	resp, err := b.next.RoundTrip(req)
	if err == nil {
		resp.Body = &short{ReadCloser: resp.Body, left: maxAnswer}
	}
	return resp, err
}

// short is a response body whose Read fails beyond the size limit.
type short struct {
	io.ReadCloser
	left int
}

// Read implements io.Reader.
func (s *short) Read(p []byte) (int, error) {
	if len(p) > s.left+1 {
		p = p[:s.left+1]
	}
	n, err := s.ReadCloser.Read(p)
	if s.left -= n; s.left < 0 {
		return 0, errTooLong
	}
	return n, err
}

// parseURL parses the URL of an identity provider.
func parseURL(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	if err != nil {
		return nil, errors.New("not a URL")
	}
	return u, checkURL(u)
}

// checkURL requires TLS, except for loopback addresses.
func checkURL(u *url.URL) error {
	switch {
	case u.Host == "", u.User != nil:
		return errors.New("the URL must have a host and no user")
	case u.Scheme == "https":
		return nil
	case u.Scheme == "http" && loopback(u.Hostname()):
		return nil
	case u.Scheme == "http":
		return errors.New("http is allowed for loopback addresses only: use https")
	}
	return fmt.Errorf("the scheme %q is not https", u.Scheme)
}

func loopback(host string) bool {
	addr, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && addr.IsLoopback()
}
