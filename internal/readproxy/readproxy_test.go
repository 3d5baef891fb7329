package readproxy_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/open-nomad/open-nomad/internal/readproxy"
	"github.com/open-nomad/open-nomad/internal/testpace"
)

// serve serves a connection and returns its other end, and a function that ends it.
func serve(t *testing.T, handlers map[string]http.Handler) (net.Conn, func()) {
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
		readproxy.Serve(ctx, ends[0], handlers)
	}()
	end := func() {
		cancel()
		<-done
		ends[1].Close()
	}
	t.Cleanup(end)
	return ends[1], end
}

// client returns an HTTP client of a connection.
func client(t *testing.T, conn net.Conn) http.RoundTripper {
	t.Helper()
	var protocols http.Protocols
	protocols.SetUnencryptedHTTP2(true)
	tr := &http.Transport{Protocols: &protocols, DialContext: func(context.Context, string, string) (net.Conn, error) { return conn, nil }}
	c, err := tr.NewClientConn(t.Context(), "http", "any:80")
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// ask sends a request to a host.
func ask(t *testing.T, c http.RoundTripper, host string) (int, string) {
	t.Helper()
	resp, err := c.RoundTrip(httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+host+"/v1/x", nil))
	if err != nil {
		return 0, err.Error()
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, err.Error()
	}
	return resp.StatusCode, string(text)
}

// TestServe_Hosts checks that a request reaches the handler of its host only.
func TestServe_Hosts(t *testing.T) {
	named := func(name string) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, name) }) //nolint:errcheck // shown by the answer
	}
	conn, _ := serve(t, map[string]http.Handler{"consul": named("c"), "vault": named("v")})
	tr := client(t, conn)
	for host, want := range map[string]string{"consul": "c", "vault": "v"} {
		if code, body := ask(t, tr, host); code != http.StatusOK || body != want {
			t.Errorf("%s: status %d %q", host, code, body)
		}
	}
	for _, host := range []string{"Vault", "vault.", "vault:80", "other", "127.0.0.1"} {
		if code, body := ask(t, tr, host); code == http.StatusOK {
			t.Errorf("%s: status %d %q", host, code, body)
		}
	}
}

// TestServe_Limit checks the number of requests at the same time, and that none runs after the end.
func TestServe_Limit(t *testing.T) {
	var running, most atomic.Int32
	conn, end := serve(t, map[string]http.Handler{"vault": http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		most.Store(max(most.Load(), running.Add(1)))
		<-r.Context().Done()
		running.Add(-1)
	})})
	tr := client(t, conn)
	var work sync.WaitGroup
	for range readproxy.MaxRequests + 10 {
		work.Go(func() { ask(t, tr, "vault") })
	}
	testpace.Until(t, "the requests run", func() bool { return running.Load() == readproxy.MaxRequests })
	end()
	if running.Load() != 0 || most.Load() > readproxy.MaxRequests {
		t.Errorf("%d requests run after the end, at most %d ran", running.Load(), most.Load())
	}
	work.Wait()
}

// TestServe_HostileBytes sends bytes that are not HTTP/2. The connection is closed.
func TestServe_HostileBytes(t *testing.T) {
	secret := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "s3cret") }) //nolint:errcheck // shown by the answer
	for name, text := range map[string]string{
		"garbage":       strings.Repeat("\x00\xff", 4000),
		"HTTP/1":        "GET /v1/agent/self HTTP/1.1\r\nHost: consul\r\n\r\n",
		"preface":       "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + strings.Repeat("\xff", 100),
		"a panic trace": "panic: runtime error\n\ngoroutine 1 [running]:\n",
	} {
		conn, _ := serve(t, map[string]http.Handler{"consul": secret, "vault": secret})
		_, _ = conn.Write([]byte(text)) // the other side may be faster
		if name == "a panic trace" {
			conn.(*net.UnixConn).CloseWrite() //nolint:errcheck // as the end of a program
		}
		if got, err := io.ReadAll(conn); strings.Contains(string(got), "s3cret") {
			t.Errorf("%s: answer %q, %v", name, got, err)
		}
	}
}
