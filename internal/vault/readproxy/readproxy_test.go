package readproxy_test

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/open-nomad/open-nomad/internal/render"
	"github.com/open-nomad/open-nomad/internal/testpace"
	"github.com/open-nomad/open-nomad/internal/testvault"
	"github.com/open-nomad/open-nomad/internal/vault"
	"github.com/open-nomad/open-nomad/internal/vault/readproxy"
)

// cluster returns a cluster at an address.
func cluster(t *testing.T, address string) *vault.Cluster {
	t.Helper()
	c, err := vault.New(vault.Settings{Name: vault.DefaultCluster, Address: address, Namespace: "of-the-cluster"})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// secret returns a token with a secret.
func secret(s string) readproxy.Token {
	return readproxy.Token{Current: func() (string, string) { return s, "of-the-cluster" }}
}

// request returns a request of a program.
func request(method, path, body string) *http.Request {
	u, err := url.Parse("http://vault" + path)
	if err != nil {
		panic(err)
	}
	return &http.Request{Method: method, URL: u, Host: render.VaultHost, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(body))}
}

// ask sends a request to a proxy. A broken stream has status 0.
func ask(t *testing.T, p *readproxy.Proxy, r *http.Request) (code int, body string) {
	t.Helper()
	w := httptest.NewRecorder()
	defer func() {
		if v := recover(); v != nil {
			if v != http.ErrAbortHandler { //nolint:errorlint // the value itself
				panic(v)
			}
			code, body = 0, w.Body.String()
		}
	}()
	p.ServeHTTP(w, r.WithContext(t.Context()))
	return w.Code, w.Body.String()
}

// counting is a Vault that counts requests and answers them.
func counting(t *testing.T, calls *atomic.Int32) string {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		calls.Add(1)
		io.WriteString(w, `{"data":{"k":"v"}}`) //nolint:errcheck // shown by the answer
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// TestRefused sends what templates never need. Nothing reaches Vault.
func TestRefused(t *testing.T) {
	var calls atomic.Int32
	p := readproxy.New(cluster(t, counting(t, &calls)), secret("s3cret"))
	for _, line := range []string{
		"GET /v1/auth/token/lookup-self", "PUT /v1/auth/token/lookup", "PUT /v1/auth/token/lookup-self", "PUT /v1/auth/token/renew",
		"PUT /v1/auth/token/renew-self", "PUT /v1/auth/token/revoke-self", "PUT /v1/auth/token/revoke", "PUT /v1/auth/token/revoke-orphan",
		"GET /v1/auth/token/accessors", "PUT /v1/auth/token/tidy", "GET /v1/team/auth/token/lookup-self", "PUT /v1/a/b/auth/token/renew-self",
		"PUT /v1/auth/token/roles/x", "PUT /v1/Auth/Token/create", "GET /v1/auth/token/any", "GET /v1/team/sys/mounts", "PUT /v1/a/b/SYS/wrapping/unwrap",
		"PUT /v1/team/sys/leases/renew", "GET /v1/team/sys/internal/ui/mounts/a", "GET /v1/sys/internal/ui/mounts/auth/token/create", "GET /v1/secret/data/auth/token/lookup-self",
		"GET /v1/Auth/Token/lookup-self", "GET /v1/auth/token/lookup-self/", "GET /v1/auth/token/create", "GET /v1/auth%2ftoken%2flookup-self",
		"GET /v1/sys/mounts", "GET /v1/SYS/mounts", "GET /v1/sys/wrapping/lookup", "PUT /v1/sys/wrapping/wrap", "PUT /v1/sys/leases/revoke",
		"PUT /v1/sys/seal", "GET /v1/sys", "GET /v1/sys/raw/core", "PUT /v1/sys/leases/renew/x", "GET /v1/sys/leases/renew",
		"PUT /v1/sys/internal/ui/mounts/a", "GET /v1/sys/internal/ui/mounts/../../../raw", "GET /v1/sys/internal/ui/mounts",
		"GET /v1/a/../sys/mounts", "GET /v1/a/%2e%2e/sys/mounts", "GET /v1/a/..%2fsys", "GET /v1/./a", "GET /v1//a", "GET /v1/a/", "GET /v1/", "GET /v1",
		"GET /", "GET /ui/", "GET /v2/a", "GET //v1/a", "GET /v1/a%0d%0aX-Vault-Token:x", "GET /v1/a%00", "GET /v1/a?x=1&x=2", "GET /v1/a?x=1;y=2",
		"GET /v1/a?x=1" + manyParameters(),
		"POST /v1/a", "DELETE /v1/a", "PATCH /v1/a", "LIST /v1/a", "HEAD /v1/a", "OPTIONS /v1/a", "CONNECT /v1/a",
	} {
		method, path, _ := strings.Cut(line, " ")
		if code, body := ask(t, p, request(method, path, "{}")); code != http.StatusForbidden {
			t.Errorf("%s: status %d %q", line, code, body)
		}
	}
	if n := calls.Load(); n != 0 {
		t.Errorf("Vault got %d requests", n)
	}
	for _, line := range []string{
		"GET /v1/secret/data/a", "GET /v1/secret/metadata/a?list=true", "GET /v1/a?version=3", "PUT /v1/pki/issue/web", "PUT /v1/auth/token/create",
		"PUT /v1/auth/token/create/role", "PUT /v1/auth/approle/role/x/secret-id", "GET /v1/sys/internal/ui/mounts/secret/a", "PUT /v1/sys/leases/renew",
		"GET /v1/secret/data/sys/db", "GET /v1/identity/oidc/token/x", "GET /v1/a%20b", "GET /v1/a%3Fb", "GET /v1/auth/token/roles/x",
		"GET /v1/secret/data/auth/token/github", "PUT /v1/secret/data/auth/token/github", "PUT /v1/team/auth/token/create", "GET /v1/secret/data/sys/config",
		"GET /v1/kv/sys", "GET /v1/kv/auth/token", "GET /v1/sys/internal/ui/mounts/secret/auth/token/github", "GET /v1/auth/tokens/lookup",
	} {
		method, path, _ := strings.Cut(line, " ")
		if code, body := ask(t, p, request(method, path, "{}")); code != http.StatusOK {
			t.Errorf("%s: status %d %q", line, code, body)
		}
	}
}

func manyParameters() (out string) {
	for i := range 40 {
		out += "&p" + string(rune('A'+i)) + "=1"
	}
	return out
}

// TestHeaders checks that Vault gets the token and the namespace of the proxy, no header of the program and none from the
// environment of the agent, and that path, parameters and body stay as they are.
func TestHeaders(t *testing.T) {
	t.Setenv("VAULT_WRAP_TTL", "5m")
	got := make(chan *http.Request, 1)
	body := make(chan string, 1)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, _ := io.ReadAll(r.Body)
		got <- r
		body <- string(text)
		w.Header().Set("Set-Cookie", "x=y")
		io.WriteString(w, "{}") //nolint:errcheck // shown by the answer
	}))
	t.Cleanup(s.Close)
	for _, ns := range []string{"", "team"} {
		token := readproxy.Token{Current: func() (string, string) { return "s3cret", ns }}
		r := request("PUT", "/v1/pki/issue/a%3Fb%25c%20d?x=%26y", `{"a":1}`)
		r.Header = http.Header{"X-Vault-Token": {"other"}, "X-Vault-Namespace": {"other"}, "Authorization": {"Bearer other"}, "Cookie": {"a=b"},
			"X-Vault-Wrap-Ttl": {"1h"}, "X-Vault-Policy-Override": {"true"}, "X-Forwarded-For": {"h"}, "X-Vault-Mfa": {"x"}, "X-Http-Method-Override": {"DELETE"}}
		w := httptest.NewRecorder()
		readproxy.New(cluster(t, s.URL), token).ServeHTTP(w, r)
		sent := <-got
		for _, name := range []string{"User-Agent", "Accept-Encoding", "Connection", "Content-Length"} {
			sent.Header.Del(name)
		}
		want := 3 // a token of the root namespace has no header
		if ns == "" {
			want = 2
		}
		if len(sent.Header) != want || sent.Header.Get("X-Vault-Token") != "s3cret" || sent.Header.Get("X-Vault-Namespace") != ns ||
			sent.Header.Get("X-Vault-Request") != "true" {
			t.Errorf("headers = %v", sent.Header)
		}
		if text := <-body; sent.Method != "PUT" || sent.URL.Path != "/v1/pki/issue/a?b%c d" || sent.URL.RawQuery != "x=%26y" || text != `{"a":1}` {
			t.Errorf("%s %q ? %q with %q", sent.Method, sent.URL.Path, sent.URL.RawQuery, text)
		}
		if w.Code != http.StatusOK || w.Header().Get("Set-Cookie") != "" || len(w.Header()) != 1 {
			t.Errorf("status %d, headers of the answer = %v", w.Code, w.Header())
		}
	}
}

// TestErrors checks the texts of errors. None has the text of Vault.
func TestErrors(t *testing.T) {
	v := testvault.Start(t, testvault.Config{Namespace: "of-the-cluster"})
	v.Expect("unknown token")
	p := readproxy.New(cluster(t, v.Addr()), secret(v.Root()))
	if code, body := ask(t, p, request("GET", "/v1/secret/data/none", "")); code != http.StatusNotFound || body != "{\"errors\":[]}\n" {
		t.Errorf("absent: status %d %q", code, body)
	}
	for name, c := range map[string]struct {
		token readproxy.Token
		code  int
		want  string
	}{
		"gone":     {secret("s3cret-gone"), 403, "403: the policies of the task's token do not allow the request, or the token has ended"},
		"no login": {secret(""), 503, "the task has no token of Vault, because its login has failed"},
	} {
		code, body := ask(t, readproxy.New(cluster(t, v.Addr()), c.token), request("GET", "/v1/kv/a", ""))
		if code != c.code || !strings.Contains(body, c.want) || strings.Contains(body, "s3cret") {
			t.Errorf("%s: status %d %q", name, code, body)
		}
	}
	if code, body := ask(t, p, request("PUT", "/v1/kv/a", strings.Repeat("x", 1<<20))); code != http.StatusRequestEntityTooLarge {
		t.Errorf("large body: status %d %q", code, body)
	}
}

// TestNewToken checks that a request that Vault refuses is sent again with a token of another login, once.
func TestNewToken(t *testing.T) {
	v := testvault.Start(t, testvault.Config{Namespace: "of-the-cluster"})
	v.Expect("unknown token")
	var mu sync.Mutex
	current, asked := "gone", []string{}
	token := readproxy.Token{
		Current: func() (string, string) {
			mu.Lock()
			defer mu.Unlock()
			return current, "of-the-cluster"
		},
		Rejected: func(_ context.Context, s string) bool {
			mu.Lock()
			defer mu.Unlock()
			asked = append(asked, s)
			if len(asked) == 1 {
				current = v.Root()
			}
			return len(asked) == 1
		},
	}
	p := readproxy.New(cluster(t, v.Addr()), token)
	if code, body := ask(t, p, request("PUT", "/v1/kv/a", `{"k":"v"}`)); code != http.StatusNoContent {
		t.Errorf("write: status %d %q", code, body)
	}
	if code, body := ask(t, p, request("GET", "/v1/kv/a", "")); code != http.StatusOK || !strings.Contains(body, `"k":"v"`) {
		t.Errorf("read: status %d %q", code, body)
	}
	mu.Lock()
	current = "fine"
	mu.Unlock()
	if code, _ := ask(t, p, request("GET", "/v1/kv/a", "")); code != http.StatusForbidden {
		t.Errorf("a token that stays: status %d", code)
	}
	if got := strings.Join(asked, " "); got != "gone fine" {
		t.Errorf("rejected = %s", got)
	}
}

// TestNamespaces checks that a request has the namespace of its token: that of the login, which a reload can have changed
// since.
func TestNamespaces(t *testing.T) {
	var got []string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = append(got, r.Header.Get("X-Vault-Token")+" in "+r.Header.Get("X-Vault-Namespace"))
		if len(got) == 1 {
			w.WriteHeader(http.StatusForbidden)
		}
	}))
	t.Cleanup(s.Close)
	secret, namespace := "first", "old"
	p := readproxy.New(cluster(t, s.URL), readproxy.Token{Current: func() (string, string) { return secret, namespace },
		Rejected: func(context.Context, string) bool {
			secret, namespace = "second", "new"
			return true
		}})
	if code, body := ask(t, p, request("GET", "/v1/a", "")); code != http.StatusOK {
		t.Errorf("status %d %q", code, body)
	}
	if want := []string{"first in old", "second in new"}; !slices.Equal(got, want) {
		t.Errorf("requests %q, want %q", got, want)
	}
}

// TestRenewCreated checks that a template can renew a token that it has created, and not that of the task.
func TestRenewCreated(t *testing.T) {
	var tokens []string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		tokens = append(tokens, r.Header.Get("X-Vault-Token"))
		io.WriteString(w, "{}") //nolint:errcheck // shown by the answer
	}))
	t.Cleanup(s.Close)
	p := readproxy.New(cluster(t, s.URL), secret("s3cret"))
	for header, want := range map[string]int{"created": 200, "s3cret": 403, "": 403} {
		r := request("PUT", "/v1/auth/token/renew-self", "{}")
		r.Header.Set("X-Vault-Token", header)
		if code, body := ask(t, p, r); code != want {
			t.Errorf("%q: status %d %q", header, code, body)
		}
	}
	if len(tokens) != 1 || tokens[0] != "created" {
		t.Errorf("tokens = %q", tokens)
	}
}

// raw serves the same bytes to each connection.
func raw(t *testing.T, answer string) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				if r, err := http.ReadRequest(bufio.NewReader(c)); err == nil {
					r.Body.Close()
				}
				_, _ = io.WriteString(c, answer)
			}()
		}
	}()
	return "http://" + l.Addr().String()
}

// TestHostileVault checks that no answer of a Vault that does not behave becomes the text of an error, or an answer that
// looks complete.
func TestHostileVault(t *testing.T) {
	const canary = "cAnArY"
	for name, answer := range map[string]string{
		"not HTTP":         canary + "\r\n\r\n",
		"redirect":         "HTTP/1.1 307 Found\r\nLocation: http://127.0.0.1:1/" + canary + "\r\n\r\n",
		"denied":           "HTTP/1.1 403 " + canary + "\r\nConnection: close\r\n\r\n" + `{"errors":["` + canary + `"]}`,
		"not JSON":         "HTTP/1.1 400 Bad\r\nConnection: close\r\n\r\n" + canary,
		"absent":           "HTTP/1.1 404 Not Found\r\nConnection: close\r\n\r\n" + `{"data":{"a":"` + canary + `"}}`,
		"a strange status": "HTTP/1.1 777 " + canary + "\r\nConnection: close\r\n\r\n" + canary,
		"status 0":         "HTTP/1.1 000 " + canary + "\r\nConnection: close\r\n\r\n" + canary,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			code, body := ask(t, readproxy.New(cluster(t, raw(t, answer)), secret("s3cret")), request("GET", "/v1/p4th", ""))
			if code < 400 || strings.Contains(body, canary) || strings.Contains(body, "s3cret") || strings.Contains(body, "p4th") {
				t.Errorf("status %d %q", code, body)
			}
		})
	}
	for name, answer := range map[string]string{
		"cut":       "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{",
		"too large": "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n" + strings.Repeat("x", vault.MaxAnswer+1),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if code, body := ask(t, readproxy.New(cluster(t, raw(t, answer)), secret("s3cret")), request("GET", "/v1/a", "")); code != 0 {
				t.Errorf("status %d, %d bytes", code, len(body))
			}
		})
	}
}

// TestLimit checks the number of requests of a program, and that each ends with it.
func TestLimit(t *testing.T) {
	var waiting atomic.Int32
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		waiting.Add(1)
		<-r.Context().Done()
	}))
	t.Cleanup(s.Close)
	p := readproxy.New(cluster(t, s.URL), secret("s3cret"))
	ctx, cancel := context.WithCancel(t.Context())
	var work sync.WaitGroup
	for range 32 {
		work.Go(func() { p.ServeHTTP(httptest.NewRecorder(), request("GET", "/v1/a", "").WithContext(ctx)) })
	}
	testpace.Until(t, "the requests wait", func() bool { return waiting.Load() == 32 })
	if code, _ := ask(t, p, request("GET", "/v1/a", "")); code != http.StatusTooManyRequests {
		t.Errorf("one more: status %d", code)
	}
	cancel()
	work.Wait()
}

// TestBodies checks that a program has at most four requests with a body at a time, that others wait, and that requests
// without one do not.
func TestBodies(t *testing.T) {
	var writes, reads atomic.Int32
	first := make(chan struct{})
	release := sync.OnceFunc(func() { close(first) })
	defer release()
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			reads.Add(1)
			return
		}
		writes.Add(1)
		<-first
	}))
	t.Cleanup(s.Close)
	p := readproxy.New(cluster(t, s.URL), secret("s3cret"))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var work sync.WaitGroup
	body := strings.Repeat("x", 512<<10)
	for range 4 {
		work.Go(func() { p.ServeHTTP(httptest.NewRecorder(), request("PUT", "/v1/a", body).WithContext(ctx)) })
	}
	testpace.Until(t, "four writes wait", func() bool { return writes.Load() == 4 })
	over, end := context.WithCancel(ctx)
	end()
	for range 20 { // a free place and the end of the context are taken at random
		w, unread := httptest.NewRecorder(), request("PUT", "/v1/a", body)
		p.ServeHTTP(w, unread.WithContext(over))
		if rest, _ := io.ReadAll(unread.Body); w.Code != http.StatusTooManyRequests || len(rest) != len(body) {
			t.Fatalf("a fifth write: status %d, %d bytes were not read", w.Code, len(rest))
		}
	}
	if code, _ := ask(t, p, request("GET", "/v1/a", "")); code != http.StatusOK || reads.Load() != 1 {
		t.Errorf("a read: status %d", code)
	}
	release()
	work.Wait()
	if code, _ := ask(t, p, request("PUT", "/v1/a", body)); code != http.StatusOK {
		t.Errorf("a later write: status %d", code)
	}
}
