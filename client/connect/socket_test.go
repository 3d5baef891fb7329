package connect_test

import (
	"bufio"
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hashicorp/consul/api"

	"github.com/open-nomad/open-nomad/client/connect"
	"github.com/open-nomad/open-nomad/internal/connlimit"
	"github.com/open-nomad/open-nomad/internal/consul"
	"github.com/open-nomad/open-nomad/internal/testpace"
)

// node returns a node whose agent of Consul has an address.
func node(t *testing.T, s consul.Settings) *connect.Node {
	t.Helper()
	a, err := consul.New(s)
	if err != nil {
		t.Fatal(err)
	}
	return &connect.Node{Agent: a, Limit: connlimit.New(connect.SocketConns, 1000), Attribute: func(string) string { return "" }}
}

// serve runs a proxy until the test ends, and returns the path of its socket and a function that ends it.
func serve(t *testing.T, n *connect.Node, d connect.Dial) (path string, end func()) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		p := &connect.Proxy{Dial: d, Limit: n.Limit, Key: "a", Log: slog.New(slog.DiscardHandler)}
		p.Serve(ctx, l)
	}()
	end = func() { cancel(); <-done }
	t.Cleanup(end)
	return path, end
}

func connectTo(t *testing.T, path string) *net.UnixConn {
	t.Helper()
	c, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c.(*net.UnixConn)
}

// TestSocket_NoToken checks that a request of a task arrives as the task has sent it, without the client's token.
func TestSocket_NoToken(t *testing.T) {
	got := make(chan http.Header, 1)
	srv := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got <- r.Header }))
	defer srv.Close()
	n := node(t, consul.Settings{HTTP: api.Config{Address: srv.URL, Token: "of-the-agent"}})
	path, _ := serve(t, n, n.DialHTTP)
	c := connectTo(t, path)
	if _, err := io.WriteString(c, "GET /v1/agent/self HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	if h := <-got; len(h) != 0 {
		t.Errorf("Consul received the headers %v", h)
	}
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil || resp.StatusCode != 200 {
		t.Fatalf("response: %+v, %v", resp, err)
	}
}

// TestSocket_TLS checks that a program of the client can use HTTP on a socket of a Consul with TLS, with the CA of the
// client. The connection of a task is not decrypted.
func TestSocket_TLS(t *testing.T) {
	srv := httptest.NewTLSServer(http.NotFoundHandler())
	defer srv.Close()
	s := consul.Settings{HTTP: api.Config{Address: srv.URL, TLSConfig: api.TLSConfig{InsecureSkipVerify: true}}}
	n := node(t, s)
	for want, d := range map[string]connect.Dial{"HTTP/1.1 404": n.DialPlainHTTP, "HTTP/1.0 400": n.DialHTTP} {
		path, _ := serve(t, n, d)
		c := connectTo(t, path)
		if _, err := io.WriteString(c, "GET / HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		if line, err := bufio.NewReader(c).ReadString('\n'); err != nil || !strings.HasPrefix(line, want) {
			t.Errorf("first line %q, %v, want %s", line, err, want)
		}
	}
	s.HTTP.TLSConfig = api.TLSConfig{}
	n = node(t, s)
	path, _ := serve(t, n, n.DialPlainHTTP)
	c := connectTo(t, path)
	_, _ = io.WriteString(c, "GET / HTTP/1.1\r\nHost: x\r\n\r\n") // the proxy may have closed it
	if got, _ := io.ReadAll(c); len(got) > 0 {                    // a reset is as good as an end
		t.Errorf("a Consul with an unknown certificate answered %q", got)
	}
}

// TestSocket_HalfClose checks that each direction of a connection ends by itself.
func TestSocket_HalfClose(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		text, _ := io.ReadAll(c) // until the task has ended its direction
		_, _ = io.WriteString(c, "got "+string(text))
	}()
	n := node(t, consul.Settings{GRPCAddress: l.Addr().String()})
	path, _ := serve(t, n, n.DialGRPC)
	c := connectTo(t, path)
	if _, err := io.WriteString(c, "hello"); err != nil {
		t.Fatal(err)
	}
	if err := c.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(c); err != nil || string(got) != "got hello" {
		t.Errorf("read %q, %v", got, err)
	}
	testpace.Until(t, "the connection is released", func() bool { return n.Limit.Count() == 0 })
}

// TestSocket_Bounds checks the limit of connections, and that the end of the proxy ends all of them.
func TestSocket_Bounds(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	n := node(t, consul.Settings{GRPCAddress: l.Addr().String()})
	path, end := serve(t, n, n.DialGRPC)
	var open []*net.UnixConn
	for range connect.SocketConns {
		open = append(open, connectTo(t, path))
	}
	testpace.Until(t, "the connections are accepted", func() bool { return n.Limit.Count() == connect.SocketConns })
	if got, err := io.ReadAll(connectTo(t, path)); len(got) > 0 || err != nil {
		t.Errorf("a connection over the limit: %q, %v, want its end", got, err)
	}
	end()
	for _, c := range open {
		_, _ = io.ReadAll(c) // returns only if the connection has ended
	}
	if n.Limit.Count() != 0 {
		t.Errorf("%d connections remain", n.Limit.Count())
	}
}

// TestGRPCAddress checks where the gRPC of Consul is.
func TestGRPCAddress(t *testing.T) {
	for name, tc := range map[string]struct {
		s         consul.Settings
		attribute string
		want      string
	}{
		"configured":     {consul.Settings{GRPCAddress: "192.0.2.1:1"}, "8502", "192.0.2.1:1"},
		"detected":       {consul.Settings{HTTP: api.Config{Address: "192.0.2.1:8500"}}, "8503", "192.0.2.1:8503"},
		"switched off":   {consul.Settings{HTTP: api.Config{Address: "https://192.0.2.1:8501"}}, "-1", "192.0.2.1:8502"},
		"IPv6":           {consul.Settings{HTTP: api.Config{Address: "[2001:db8::1]:8500"}}, "", "[2001:db8::1]:8502"},
		"unix socket":    {consul.Settings{HTTP: api.Config{Address: "unix:///run/consul.sock"}}, "", "127.0.0.1:8502"},
		"without a port": {consul.Settings{HTTP: api.Config{Address: "localhost"}}, "", "localhost:8502"},
	} {
		n := node(t, tc.s)
		n.Attribute = func(string) string { return tc.attribute }
		if got := n.GRPCAddress(); got != tc.want {
			t.Errorf("%s: GRPCAddress() = %s, want %s", name, got, tc.want)
		}
	}
}
