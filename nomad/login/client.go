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

// Bounds of what is asked of an identity provider.
const (
	maxAnswer    = 1 << 20
	maxRedirects = 3
	dialWithin   = 5 * time.Second
	answerWithin = 10 * time.Second
)

// errTooLong is the error of an answer that nobody reads to its end.
var errTooLong = fmt.Errorf("its answer is longer than %d bytes", maxAnswer)

// newClient makes the client for one identity provider. Without CAs those of the system
// are trusted. It keeps no connection: logins are rare.
func newClient(cas []string) (*http.Client, error) {
	pool, err := parseCAs(cas)
	if err != nil {
		return nil, err
	}
	transport := &http.Transport{
		Proxy:                  nil, // what an operator set for something else is not for tokens
		DialContext:            (&net.Dialer{Timeout: dialWithin}).DialContext,
		TLSClientConfig:        &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: pool},
		TLSHandshakeTimeout:    dialWithin,
		ResponseHeaderTimeout:  answerWithin,
		MaxResponseHeaderBytes: 64 << 10,
		DisableKeepAlives:      true,
	}
	return &http.Client{Transport: bounded{transport}, Timeout: answerWithin, CheckRedirect: sameHost}, nil
}

// parseCAs reads CA certificates in PEM; nil is those of the system.
func parseCAs(texts []string) (*x509.CertPool, error) {
	texts = slices.DeleteFunc(slices.Clone(texts), func(s string) bool { return strings.TrimSpace(s) == "" })
	if len(texts) == 0 {
		return nil, nil
	}
	pool := x509.NewCertPool()
	for i, text := range texts {
		if !pool.AppendCertsFromPEM([]byte(text)) {
			return nil, fmt.Errorf("CA %d holds no certificate in PEM", i+1)
		}
	}
	return pool, nil
}

// sameHost lets reads be redirected within a host: a token or a secret goes nowhere else.
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

// bounded cuts answers that are too long, with an error.
type bounded struct{ next http.RoundTripper }

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

// short is a body that fails when it goes on for too long.
type short struct {
	io.ReadCloser
	left int
}

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

// parseURL reads a URL of an identity provider.
func parseURL(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	if err != nil {
		return nil, errors.New("not a URL")
	}
	return u, checkURL(u)
}

// checkURL refuses what is not protected by TLS, unless it stays in this machine.
func checkURL(u *url.URL) error {
	switch {
	case u.Host == "", u.User != nil:
		return errors.New("not a URL with a host, and without a user")
	case u.Scheme == "https":
		return nil
	case u.Scheme == "http" && loopback(u.Hostname()):
		return nil
	case u.Scheme == "http":
		return errors.New("http is for loopback addresses only: use https")
	}
	return fmt.Errorf("the scheme %q is not https", u.Scheme)
}

func loopback(host string) bool {
	addr, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && addr.IsLoopback()
}
