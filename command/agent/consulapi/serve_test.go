package consulapi_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/command/agent/consulapi"
	"github.com/open-nomad/open-nomad/internal/testnet"
)

// lines is a log that sends each line.
type lines chan string

// Write implements io.Writer.
func (l lines) Write(p []byte) (int, error) {
	l <- string(p)
	return len(p), nil
}

// serve serves a region at an address until the test ends. The result receives the lines of the log.
func serve(t *testing.T, r *region, address string) lines {
	t.Helper()
	log := make(lines, 100)
	s := consulapi.New(consulapi.Config{Address: address, RPC: r, Callers: r, Region: "global", Datacenter: "dc1",
		NodeID: "n1", NodeName: "alpha", Log: slog.New(slog.NewTextHandler(log, nil))})
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("Serve() = %v", err)
		}
	})
	return log
}

func TestServe(t *testing.T) {
	address := net.JoinHostPort(testnet.Take(t).IP(), "8500")
	if line := <-serve(t, newRegion(), address); !strings.Contains(line, "listens") {
		t.Fatalf("log: %s", line)
	}
	resp, err := http.Get("http://" + address + "/v1/kv/app/db/host?raw")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if text, err := io.ReadAll(resp.Body); err != nil || string(text) != "db1" || resp.StatusCode != 200 {
		t.Errorf("%d %q, %v", resp.StatusCode, text, err)
	}
}

// A server that stops does not wait for its blocking queries.
func TestServe_StopsBlocked(t *testing.T) {
	address := net.JoinHostPort(testnet.Take(t).IP(), "8500")
	r := newRegion()
	answered := make(chan error, 1)
	t.Run("serve", func(t *testing.T) {
		<-serve(t, r, address)
		before := r.made()
		go func() {
			resp, err := http.Get("http://" + address + "/v1/catalog/services?index=7")
			if err == nil {
				resp.Body.Close()
			}
			answered <- err
		}()
		r.await(t, before)
	})
	<-answered
}

func TestServe_PortInUse(t *testing.T) {
	other, err := net.Listen("tcp", net.JoinHostPort(testnet.Take(t).IP(), "8500"))
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if line := <-serve(t, newRegion(), other.Addr().String()); !strings.Contains(line, "cannot listen") || !strings.Contains(line, "WARN") {
		t.Errorf("log: %s", line)
	}
}

// raw sends bytes and returns the status line of the reply.
func raw(t *testing.T, address, text string) string {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, text); err != nil {
		t.Fatal(err)
	}
	reply, err := io.ReadAll(io.LimitReader(conn, 12))
	if err != nil {
		t.Fatal(err)
	}
	return string(reply)
}

// Requests that other programs could read in another way are refused.
func TestServe_Malformed(t *testing.T) {
	address := net.JoinHostPort(testnet.Take(t).IP(), "8500")
	<-serve(t, newRegion(), address)
	const host = "Host: " + "127.0.0.1\r\n"
	for name, c := range map[string]struct{ text, want string }{
		"two lengths":       {"GET /v1/catalog/services HTTP/1.1\r\n" + host + "Content-Length: 1\r\nContent-Length: 2\r\n\r\n", "HTTP/1.1 400"},
		"length and chunks": {"PUT /v1/kv/a HTTP/1.1\r\n" + host + "Transfer-Encoding: gzip, chunked\r\n\r\n", "HTTP/1.1 501"},
		"two hosts":         {"GET /v1/catalog/services HTTP/1.1\r\n" + host + "Host: evil.example\r\n\r\n", "HTTP/1.1 400"},
		"absolute":          {"GET http://evil.example/v1/catalog/services HTTP/1.1\r\n" + host + "\r\n", "HTTP/1.1 403"},
		"space in a name":   {"GET /v1/catalog/services HTTP/1.1\r\n" + host + "X-Consul-Token : x\r\n\r\n", "HTTP/1.1 400"},
		"large header": {"GET /v1/catalog/services HTTP/1.1\r\n" + host + "X: " + strings.Repeat("a", 40<<10) + "\r\n\r\n",
			"HTTP/1.1 431"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := raw(t, address, c.text); got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}
