package harness

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/e2e/cluster"
)

// ContainsJSON is strings.Contains, ignoring spaces, which JSON may have.
func ContainsJSON(text, part string) bool {
	return strings.Contains(strings.ReplaceAll(text, " ", ""), strings.ReplaceAll(part, " ", ""))
}

// Get requests a path of the HTTP API and returns status, headers and body.
func Get(t *testing.T, a *cluster.Agent, path string) (*http.Response, string) {
	t.Helper()
	return Request(t, http.MethodGet, a.Address()+path, "", nil)
}

// Request makes an HTTP request and returns the response and its body.
func Request(t *testing.T, method, url, body string, header http.Header) (*http.Response, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if header != nil {
		req.Header = header.Clone()
	}
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		t.Fatalf("%s %s: %v", method, url, err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatalf("%s %s: %v", method, url, err)
	}
	return resp, string(text)
}

// StatusCode returns the HTTP status of an API error, or 0.
func StatusCode(err error) int {
	if e, ok := errors.AsType[api.UnexpectedResponseError](err); ok {
		return e.StatusCode()
	}
	return 0
}

// Fetch makes a request with a token.
func Fetch(t *testing.T, c *http.Client, method, url, token string) (int, string, http.Header) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), Patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		req.Header.Set("X-Nomad-Token", token)
	}
	resp, err := c.Do(req)
	if err != nil {
		t.Fatalf("%s %s: %v", method, url, err)
	}
	defer resp.Body.Close()
	if strings.Contains(url, "/v1/event/stream") {
		return resp.StatusCode, keptConnection(resp.Body, cancel), resp.Header
	}
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatalf("%s %s: %v", method, url, err)
	}
	return resp.StatusCode, string(body), resp.Header
}

// keptConnection reads the start of an endless stream: buffered events come at once, and then nothing for a
// while.
func keptConnection(body io.Reader, cancel context.CancelFunc) string {
	var text strings.Builder
	var quiet *time.Timer // starts with the first bytes
	for buf := make([]byte, 64<<10); ; {
		n, err := body.Read(buf)
		if quiet != nil {
			quiet.Stop()
		}
		text.Write(buf[:n])
		if err != nil {
			return text.String()
		}
		quiet = time.AfterFunc(time.Second, cancel)
	}
}
