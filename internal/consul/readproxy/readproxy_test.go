package readproxy_test

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/open-nomad/open-nomad/internal/consul"
	"github.com/open-nomad/open-nomad/internal/consul/readproxy"
	connection "github.com/open-nomad/open-nomad/internal/readproxy"
	"github.com/open-nomad/open-nomad/internal/render"
	"github.com/open-nomad/open-nomad/internal/testconsul"
	"github.com/open-nomad/open-nomad/internal/testpace"
)

// agent returns the connection to an agent, whose own token must never be sent.
func agent(t *testing.T, addr string) *consul.Agent {
	t.Helper()
	a, err := consul.New(consul.Settings{HTTP: api.Config{Address: addr, Token: "of-the-agent"}, Timeout: 5 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// serve runs a proxy and returns the other end of its connection.
func serve(t *testing.T, a *consul.Agent, token readproxy.Token) net.Conn {
	t.Helper()
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	var ends [2]net.Conn
	for i, fd := range fds {
		f := os.NewFile(uintptr(fd), "pair")
		if ends[i], err = net.FileConn(f); err != nil {
			t.Fatal(err)
		}
		f.Close()
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		connection.Serve(ctx, ends[0], map[string]http.Handler{render.ConsulHost: &readproxy.Proxy{Agent: a, Token: token}})
	}()
	t.Cleanup(func() {
		cancel()
		<-done
		ends[1].Close()
	})
	return ends[1]
}

// client returns an HTTP client of a connection.
func client(t *testing.T, conn net.Conn) http.RoundTripper {
	t.Helper()
	var protocols http.Protocols
	protocols.SetUnencryptedHTTP2(true)
	tr := &http.Transport{Protocols: &protocols, DisableCompression: true,
		DialContext: func(context.Context, string, string) (net.Conn, error) { return conn, nil }}
	c, err := tr.NewClientConn(t.Context(), "http", "consul:80")
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// answer is a status and a body.
type answer struct {
	code int
	body string
	err  error
}

// ask sends a request.
func ask(t *testing.T, c http.RoundTripper, r *http.Request) (a answer) {
	t.Helper()
	resp, err := c.RoundTrip(r.WithContext(t.Context()))
	if err != nil {
		return answer{err: err}
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return answer{resp.StatusCode, string(text), err}
}

func get(path string) *http.Request {
	u, err := url.Parse("http://consul" + path)
	if err != nil {
		panic(err)
	}
	return &http.Request{Method: http.MethodGet, URL: u, Host: "consul", Header: http.Header{}}
}

func secret(s string) readproxy.Token { return readproxy.Token{Secret: func() string { return s }} }

// TestRefused sends what consul-template never does. Nothing reaches Consul.
func TestRefused(t *testing.T) {
	var calls atomic.Int32
	c := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { calls.Add(1) }))
	t.Cleanup(c.Close)
	tr := client(t, serve(t, agent(t, c.URL), secret("s3cret")))
	for _, path := range []string{
		"/v1/agent/self", "/v1/acl/tokens", "/v1/acl/token/self", "/v1/config/proxy-defaults/global", "/v1/agent/services", "/v1/operator/keyring",
		"/v1/snapshot", "/v1/query", "/v1/session/list", "/v1/event/list", "/v1/txn", "/ui/", "/", "/v1/kv", "//v1/kv/a", "/v2/kv/a",
		"/v1/kv/../agent/self", "/v1/kv/a/../../agent/self", "/v1/kv/%2e%2e/agent/self", "/v1/kv/..%2fagent%2fself", "/v1/kv/./a",
		"/v1/health/service/", "/v1/health/service/../../agent/self", "/v1/health/service/..", "/v1/health/service/web/x", "/v1/health/node/n",
		"/v1/catalog/nodes/", "/v1/catalog/register", "/v1/agent/connect/ca/leaf/", "/v1/connect/ca/configuration",
		"/v1/kv/a?token=other", "/v1/kv/a?raw", "/v1/kv/a?filter=x", "/v1/kv/a?hash=x", "/v1/kv/a?dc=a&dc=b", "/v1/kv/a?index=1;token=x",
		"/v1/kv/a?cached", "/v1/kv/a?TOKEN=x", "/v1/kv/a?%74oken=x", "/v1/catalog/services?recurse",
	} {
		if a := ask(t, tr, get(path)); a.code != http.StatusForbidden {
			t.Errorf("GET %s: status %d %q, %v", path, a.code, a.body, a.err)
		}
	}
	for _, method := range []string{"PUT", "POST", "DELETE", "HEAD", "OPTIONS", "PATCH"} {
		r := get("/v1/kv/a")
		r.Method = method
		if a := ask(t, tr, r); a.code != http.StatusForbidden {
			t.Errorf("%s: status %d, %v", method, a.code, a.err)
		}
	}
	if n := calls.Load(); n != 0 {
		t.Errorf("Consul got %d requests", n)
	}
}

// TestHeaders checks that Consul gets the token of the proxy and no header of the program, and that the path stays as it is.
func TestHeaders(t *testing.T) {
	got := make(chan *http.Request, 1)
	c := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got <- r
		w.Header().Set("Set-Cookie", "x=y")
		w.Header().Set("X-Consul-Index", "7")
	}))
	t.Cleanup(c.Close)
	for _, own := range []string{"", "s3cret"} {
		tr := client(t, serve(t, agent(t, c.URL), secret(own)))
		r := get("/v1/kv/a%0Ab%2F%2Fc%3Ftoken=x%25?recurse")
		r.Header = http.Header{"X-Consul-Token": {"other"}, "Authorization": {"Bearer other"}, "Cookie": {"a=b"}, "X-Forwarded-For": {"h"}}
		resp, err := tr.RoundTrip(r.WithContext(t.Context()))
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.Header.Get("Set-Cookie") != "" || resp.Header.Get("X-Consul-Index") != "7" {
			t.Errorf("headers of the answer = %v", resp.Header)
		}
		sent := <-got
		sent.Header.Del("User-Agent")
		sent.Header.Del("Accept-Encoding")
		sent.Header.Del("Connection")
		if own == "" {
			if len(sent.Header) != 0 {
				t.Errorf("headers without a token = %v", sent.Header)
			}
		} else if len(sent.Header) != 1 || sent.Header.Get("X-Consul-Token") != own {
			t.Errorf("headers = %v", sent.Header)
		}
		if sent.URL.Path != "/v1/kv/a\nb//c?token=x%" || sent.URL.RawQuery != "recurse=" {
			t.Errorf("path = %q, query = %q", sent.URL.Path, sent.URL.RawQuery)
		}
	}
}

// TestErrors checks the texts of errors. None has the text of Consul, and an unknown token is reported.
func TestErrors(t *testing.T) {
	a := testconsul.Start(t, testconsul.Config{ACL: true, Manual: true})
	a.PutKey("app/x", "1")
	good := a.NewToken(t, `key_prefix "app" { policy = "read" }`)
	a.Expect("ACL not found")
	a.Expect("Permission denied")
	var rejected []string
	for name, c := range map[string]struct {
		token, path, body string
		code              int
	}{
		"read":        {good, "/v1/kv/app/x", `"Key":"app/x"`, 200},
		"absent":      {good, "/v1/kv/app/none", "Consul returned status 404", 404},
		"denied":      {good, "/v1/kv/other", "roles of the token", 403},
		"unknown":     {"s3cret-gone", "/v1/kv/app/x", "does not know the token", 403},
		"no identity": {"", "/v1/kv/app/x", "add an identity block with the name consul_default", 403},
		"no login":    {"", "/v1/kv/app/x", "the task has no token of Consul, because its login has failed", 403},
	} {
		token := secret(c.token)
		if name != "no identity" {
			token.Rejected = func(s string) { rejected = append(rejected, s) }
		}
		got := ask(t, client(t, serve(t, agent(t, a.Addr()), token)), get(c.path))
		if got.code != c.code || !strings.Contains(got.body, c.body) || strings.Contains(got.body, "s3cret") {
			t.Errorf("%s: status %d %q, %v", name, got.code, got.body, got.err)
		}
	}
	if len(rejected) != 1 || rejected[0] != "s3cret-gone" {
		t.Errorf("rejected = %v", rejected)
	}
	if err := a.Set(testconsul.Mode{Refuse: true}); err != nil {
		t.Fatal(err)
	}
	got := ask(t, client(t, serve(t, agent(t, a.Addr()), secret(good))), get("/v1/kv/app/x"))
	if got.code != http.StatusBadGateway || !strings.Contains(got.body, "Consul does not answer: ") || strings.Contains(got.body, "app/x") {
		t.Errorf("without Consul: status %d %q, %v", got.code, got.body, got.err)
	}
}

// TestRedirect checks that a redirect is not followed, since the token would go along.
func TestRedirect(t *testing.T) {
	var calls atomic.Int32
	c := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		calls.Add(1)
		http.Redirect(w, r, "/v1/agent/self?s3cret", http.StatusMovedPermanently)
	}))
	t.Cleanup(c.Close)
	got := ask(t, client(t, serve(t, agent(t, c.URL), secret("s3cret"))), get("/v1/kv/a"))
	if got.code != http.StatusBadGateway || strings.Contains(got.body, "s3cret") || calls.Load() != 1 {
		t.Errorf("status %d %q after %d calls", got.code, got.body, calls.Load())
	}
}

// TestLimits checks the sizes of answers.
func TestLimits(t *testing.T) {
	c := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.HasSuffix(r.URL.Path, "large"):
			w.Write(bytes.Repeat([]byte("x"), 10<<20)) //nolint:errcheck // the proxy ends it
		case strings.HasSuffix(r.URL.Path, "most"):
			w.Write(bytes.Repeat([]byte("x"), readproxy.MaxAnswer)) //nolint:errcheck // shown by the size
		}
	}))
	t.Cleanup(c.Close)
	tr := client(t, serve(t, agent(t, c.URL), secret("s3cret")))
	if a := ask(t, tr, get("/v1/kv/most")); a.err != nil || len(a.body) != readproxy.MaxAnswer {
		t.Errorf("the largest answer has %d bytes, %v", len(a.body), a.err)
	}
	if a := ask(t, tr, get("/v1/kv/large")); a.err == nil || len(a.body) > readproxy.MaxAnswer+1 {
		t.Errorf("an answer above the limit has %d bytes, %v", len(a.body), a.err)
	}
}

// TestEnds checks that the end of the program's connection ends its blocking queries at Consul.
func TestEnds(t *testing.T) {
	begun, ended := make(chan struct{}), make(chan struct{})
	c := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		close(begun)
		<-r.Context().Done()
		close(ended)
	}))
	t.Cleanup(c.Close)
	conn := serve(t, agent(t, c.URL), secret("s3cret"))
	tr := client(t, conn)
	go ask(t, tr, get("/v1/kv/a?index=7&wait=5m"))
	<-begun
	conn.Close()
	testpace.Until(t, "the query ends", func() bool {
		select {
		case <-ended:
			return true
		default:
			return false
		}
	})
}
