package getter

import (
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/internal/dialguard"
)

// A name is checked by the addresses that it resolves to.
func TestDial(t *testing.T) {
	var refused *dialguard.Refused
	if _, err := dial(t.Context(), "tcp", "0.0.0.0:80"); !errors.As(err, &refused) {
		t.Errorf("dial(0.0.0.0) = %v", err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	c, err := dial(t.Context(), "tcp", "localhost:"+port)
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
}

// proxied returns a client that uses a new proxy, and the proxy.
func proxied(t *testing.T) (*http.Client, *proxy, *url.URL) {
	t.Helper()
	for _, name := range append(proxyVars, "no_proxy", "NO_PROXY") {
		t.Setenv(name, "")
	}
	p, err := startProxy("")
	if err != nil || p == nil {
		t.Fatalf("startProxy() = %v, %v", p, err)
	}
	t.Cleanup(p.stop)
	at, err := url.Parse(os.Getenv("https_proxy"))
	if err != nil {
		t.Fatal(err)
	}
	return &http.Client{Transport: &http.Transport{Proxy: http.ProxyURL(at)}}, p, at
}

func TestProxy(t *testing.T) {
	client, p, at := proxied(t)
	answer := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, "answer "+r.Header.Get("Proxy-Authorization")) //nolint:errcheck // a response
	})
	plain, secure := httptest.NewServer(answer), httptest.NewTLSServer(answer)
	defer plain.Close()
	defer secure.Close()
	client.Transport.(*http.Transport).TLSClientConfig = secure.Client().Transport.(*http.Transport).TLSClientConfig
	for _, source := range []string{plain.URL, secure.URL} {
		resp, err := client.Get(source)
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if string(b) != "answer " || err != nil {
			t.Errorf("%s: %q, %v", source, b, err)
		}
	}
	if err := p.explain(io.EOF); err != io.EOF {
		t.Errorf("explain() = %v", err)
	}
	for _, source := range []string{"http://169.254.169.254/", "https://169.254.169.254/"} {
		p.refused.Store(nil)
		resp, err := client.Get(source)
		if err == nil {
			resp.Body.Close()
			if resp.StatusCode != http.StatusBadGateway {
				t.Errorf("%s: status %d", source, resp.StatusCode)
			}
		}
		if err := p.explain(io.EOF); !errors.Is(err, io.EOF) ||
			!strings.Contains(err.Error(), "connection to 169.254.169.254 refused: link-local address") {
			t.Errorf("explain() = %v", err)
		}
	}
	at.User = url.UserPassword("fetch", "wrong")
	for _, source := range []string{plain.URL, secure.URL} {
		resp, err := client.Get(source)
		if err == nil {
			resp.Body.Close()
		}
		if err == nil && resp.StatusCode != http.StatusProxyAuthRequired {
			t.Errorf("%s with a wrong password: status %d", source, resp.StatusCode)
		}
	}
	if path := os.Getenv("http_proxy"); !strings.HasPrefix(path, "http://fetch:") {
		t.Errorf("http_proxy = %q", path)
	}
}

// A proxy that the operator has allowed is used as it is.
func TestOperatorProxy(t *testing.T) {
	t.Setenv("HTTPS_PROXY", "http://proxy:3128")
	p, err := startProxy("")
	if p != nil || err != nil || os.Getenv("HTTPS_PROXY") != "http://proxy:3128" {
		t.Errorf("startProxy() = %v, %v, HTTPS_PROXY is %s", p, err, os.Getenv("HTTPS_PROXY"))
	}
	p.stop()
	if err := p.explain(io.EOF); err != io.EOF {
		t.Errorf("explain() = %v", err)
	}
}

// The credentials of the node are not used, unless the operator allows it.
func TestCloudEnvironment(t *testing.T) {
	for name, value := range cloudVars {
		t.Setenv(name, "")
		os.Unsetenv(name)
		if err := setCloudEnvironment(); err != nil || os.Getenv(name) != value {
			t.Errorf("%s = %q, %v, want %q", name, os.Getenv(name), err, value)
		}
		t.Setenv(name, "operator")
		if err := setCloudEnvironment(); err != nil || os.Getenv(name) != "operator" {
			t.Errorf("%s = %q, %v, want the operator's", name, os.Getenv(name), err)
		}
	}
}
