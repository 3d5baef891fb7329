package check

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"runtime"
	"strings"

	"github.com/open-nomad/open-nomad/nomad/message"
)

// Limits of an HTTP check.
const (
	maxHeader    = 64 << 10
	maxRedirects = 10
)

// http sends one request. Any status from 200 to 399 is a success.
func (p *probe) http(ctx context.Context, t *Target) *message.CheckQueryResult {
	req, err := p.request(ctx, t)
	if err != nil {
		return t.failure(err)
	}
	transport := &http.Transport{
		DialContext:            func(ctx context.Context, _, _ string) (net.Conn, error) { return p.dial(ctx, t) },
		TLSClientConfig:        p.tls(t),
		DisableKeepAlives:      true,
		DisableCompression:     true,
		MaxResponseHeaderBytes: maxHeader,
	}
	defer transport.CloseIdleConnections()
	client := http.Client{Transport: transport, CheckRedirect: sameServer}
	resp, err := client.Do(req)
	if err != nil {
		return t.failure(plain(ctx, t, err))
	}
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusOK {
		return t.result(message.CheckSuccess, resp.StatusCode, "nomad: http ok")
	}
	status := message.CheckFailure
	if resp.StatusCode > 200 && resp.StatusCode < 400 {
		status = message.CheckSuccess
	}
	// An error of the body does not change the status. The output then has the part that was read.
	body, _ := io.ReadAll(io.LimitReader(resp.Body, maxOutput))
	return t.result(status, resp.StatusCode, clip(body))
}

// sameServer follows a redirect only to the scheme, host and port of the first request. Any other redirect is the result.
func sameServer(req *http.Request, via []*http.Request) error {
	if len(via) >= maxRedirects {
		return fmt.Errorf("more than %d redirects", maxRedirects)
	}
	first := via[0].URL
	if req.URL.Scheme != first.Scheme || !strings.EqualFold(req.URL.Hostname(), first.Hostname()) || portOf(req.URL) != portOf(first) {
		return http.ErrUseLastResponse
	}
	return nil
}

func portOf(u *url.URL) string {
	if port := u.Port(); port != "" {
		return port
	}
	return map[string]string{"http": "80", "https": "443"}[u.Scheme]
}

// request builds the request of a check.
func (p *probe) request(ctx context.Context, t *Target) (*http.Request, error) {
	h := t.HTTP
	if h.Protocol != "http" && h.Protocol != "https" {
		return nil, fmt.Errorf("unknown protocol %q: use http or https", h.Protocol)
	}
	path, err := url.Parse(h.Path)
	if err != nil {
		return nil, fmt.Errorf("path: %w", err)
	}
	if path.IsAbs() || path.Host != "" || path.User != nil {
		return nil, fmt.Errorf("path %q is not relative: begin it with one slash", h.Path)
	}
	u := &url.URL{Scheme: h.Protocol, Host: t.endpoint(),
		Path: "/" + strings.TrimPrefix(path.Path, "/"), RawQuery: path.RawQuery}
	if path.RawPath != "" {
		u.RawPath = "/" + strings.TrimPrefix(path.RawPath, "/")
	}
	req, err := http.NewRequestWithContext(ctx, strings.ToUpper(h.Method), u.String(), strings.NewReader(h.Body))
	if err != nil {
		return nil, err
	}
	for key, values := range h.Header {
		if strings.EqualFold(key, "host") && len(values) > 0 {
			req.Host = values[0]
			continue
		}
		for _, v := range values {
			req.Header.Add(key, v)
		}
	}
	if req.Header.Get("User-Agent") == "" {
		req.Header.Set("User-Agent", fmt.Sprintf("Nomad/%s (+https://developer.hashicorp.com/nomad/; %s)", p.version, runtime.Version()))
	}
	return req, nil
}

// plain returns the error of a request without the method and the URL, which may hold a secret in its query.
func plain(ctx context.Context, t *Target, err error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("no response from %s within %s", t.endpoint(), t.Timeout)
	}
	var wrapped *url.Error
	if errors.As(err, &wrapped) {
		return wrapped.Err
	}
	return err
}
