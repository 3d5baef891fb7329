package agent_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/client/clienttest"
	"github.com/open-nomad/open-nomad/command/agent"
	"github.com/open-nomad/open-nomad/internal/pki"
	"github.com/open-nomad/open-nomad/internal/testbuffer"
	"github.com/open-nomad/open-nomad/internal/testpace"
	"github.com/open-nomad/open-nomad/internal/testpki"
)

// tlsBlock is a tls block with the files of an agent.
func tlsBlock(f testpki.Files, more string) string {
	return fmt.Sprintf("tls {\n ca_file = %q\n cert_file = %q\n key_file = %q\n %s\n}\n", f.CA, f.Cert, f.Key, more)
}

// browser is an HTTP client with a trusted CA and an optional certificate.
func browser(t *testing.T, ca *testpki.CA, own ...testpki.Files) *http.Client {
	t.Helper()
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca.CertPEM)
	conf := &tls.Config{RootCAs: roots}
	for _, f := range own {
		pair, err := tls.LoadX509KeyPair(f.Cert, f.Key)
		if err != nil {
			t.Fatal(err)
		}
		conf.Certificates = append(conf.Certificates, pair)
	}
	tr := &http.Transport{TLSClientConfig: conf, DisableKeepAlives: true}
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr, Timeout: time.Minute}
}

// visit requests a page and returns its status.
func visit(c *http.Client, scheme string, a *agent.Agent) (int, error) {
	resp, err := c.Get(scheme + "://" + a.Addr() + "/v1/agent/members")
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode, err
}

func TestHTTPS(t *testing.T) {
	ca, other := testpki.New(t), testpki.New(t)
	f := ca.Agent("server.global.nomad")
	for name, c := range map[string]struct {
		more   string
		client *http.Client
		want   string // of the error; "" is served
	}{
		"anybody":             {"http = true", browser(t, ca), ""},
		"who trusts another":  {"http = true", browser(t, other), "unknown authority"},
		"with a certificate":  {"http = true\n verify_https_client = true", browser(t, ca, ca.Agent("cli.global.nomad")), ""},
		"without one":         {"http = true\n verify_https_client = true", browser(t, ca), "certificate required"},
		"with one of another": {"http = true\n verify_https_client = true", browser(t, ca, other.Agent("x")), "certificate"},
	} {
		t.Run(name, func(t *testing.T) {
			a, _ := run(t, serverOnly(t, write(t, free+tlsBlock(f, c.more)))...)
			status, err := visit(c.client, "https", a)
			switch {
			case c.want == "" && (err != nil || status != http.StatusOK):
				t.Errorf("answer: %d, %v", status, err)
			case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
				t.Errorf("answer: %d, %v, want %q", status, err, c.want)
			}
			resp, err := http.Get("http://" + a.Addr() + "/v1/status/leader")
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			if text, _ := io.ReadAll(resp.Body); resp.StatusCode != http.StatusBadRequest || !strings.Contains(string(text), "HTTPS server") {
				t.Errorf("without TLS: %d %s", resp.StatusCode, text)
			}
		})
	}
}

// silent opens connections on which nothing is sent.
func silent(t *testing.T, a *agent.Agent, n int) []net.Conn {
	t.Helper()
	var all []net.Conn
	for range n {
		conn, err := net.Dial("tcp", a.Addr())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		conn.SetDeadline(time.Now().Add(2 * time.Minute))
		all = append(all, conn)
	}
	return all
}

func timedOut(err error) bool {
	var n net.Error
	return errors.As(err, &n) && n.Timeout()
}

func TestSlowHTTPSHandshakes(t *testing.T) {
	ca := testpki.New(t)
	const limits = "limits {\n https_handshake_timeout = \"1s\"\n http_max_conns_per_client = 20\n}\n"
	a, _ := run(t, serverOnly(t, write(t, free+limits+tlsBlock(ca.Agent("x"), "http = true")))...)
	closed := func(conns []net.Conn) {
		t.Helper()
		for i, conn := range conns {
			if _, err := io.Copy(io.Discard, conn); timedOut(err) {
				t.Fatalf("connection %d stays open", i)
			}
		}
	}
	var slow []net.Conn
	testpace.Until(t, "one is served beside slow ones", func() bool { // it may be slow itself, on a busy machine
		closed(slow)
		slow = silent(t, a, 19)
		status, err := visit(browser(t, ca), "https", a)
		return err == nil && status == http.StatusOK
	})
	closed(append(slow, silent(t, a, 60)...))
	testpace.Until(t, "there is a place again", func() bool {
		status, err := visit(browser(t, ca), "https", a)
		return err == nil && status == http.StatusOK
	})
}

// A reload applies certificates and TLS settings without closing the listener.
func TestTLSIsReloaded(t *testing.T) {
	ca, next := testpki.New(t), testpki.New(t)
	f := ca.Agent("server.global.nomad")
	path := write(t, "")
	say := func(block string) {
		if err := os.WriteFile(path, []byte(free+block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	say("")
	a, _ := run(t, serverOnly(t, path)...)
	served := func(c *http.Client, scheme string) {
		t.Helper()
		testpace.Until(t, scheme+" is served", func() bool {
			status, err := visit(c, scheme, a)
			return err == nil && status == http.StatusOK
		})
	}
	served(http.DefaultClient, "http")
	idle := silent(t, a, 1)[0] // is closed when it would be refused

	say(tlsBlock(f, "http = true\n rpc = true\n verify_server_hostname = true"))
	if err := a.Reload(); err != nil {
		t.Fatal(err)
	}
	served(browser(t, ca), "https")
	if _, err := io.Copy(io.Discard, idle); timedOut(err) {
		t.Error("a connection without TLS stays open")
	}

	if err := os.WriteFile(f.Key, []byte("no key"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := a.Reload(); err == nil || !strings.Contains(err.Error(), "tls.key_file: "+f.Key) {
		t.Errorf("Reload() = %v, want the file", err)
	}
	served(browser(t, ca), "https")

	next.Into(f, pki.CertOptions{DNSNames: []string{"server.global.nomad", "localhost"}, IPs: []net.IP{{127, 0, 0, 1}}, Client: true,
		Server: true})
	if err := a.Reload(); err != nil {
		t.Fatal(err)
	}
	served(browser(t, next), "https")
	if _, err := visit(browser(t, ca), "https", a); err == nil {
		t.Error("the old certificate is shown")
	}

	say("")
	if err := a.Reload(); err != nil {
		t.Fatal(err)
	}
	served(http.DefaultClient, "http")
}

// A client agent joins a server over TLS. The node has the scheme of its API.
func TestAgentsSpeakTLS(t *testing.T) {
	ca := testpki.New(t)
	const on = "http = true\n rpc = true\n verify_server_hostname = true"
	user := browser(t, ca)
	s, _ := run(t, "-server", "-data-dir", clienttest.Dir(t), "-bootstrap-expect", "1", "-bind", "127.0.0.1",
		"-config", write(t, "ports {\n http = 0\n rpc = 0\n serf = 0\n}\n"+tlsBlock(ca.Agent("server.global.nomad"), on)))
	var servers []string
	testpace.Until(t, "the server says where it is", func() bool {
		servers = peersOf(user, s)
		return len(servers) == 1
	})
	join := func(name string) (*agent.Agent, func()) {
		return run(t, "-client", "-data-dir", clienttest.Dir(t), "-bind", "127.0.0.1", "-servers", servers[0],
			"-config", write(t, free+tlsBlock(ca.Agent(name), on)))
	}
	c, _ := join("client.global.nomad")
	var nodes []struct {
		ID, Status string
	}
	testpace.Until(t, "the node is ready", func() bool {
		return getBy(user, s, "/v1/nodes", &nodes) == nil && len(nodes) == 1 && nodes[0].Status == "ready"
	})
	var node struct {
		TLSEnabled bool
		HTTPAddr   string
	}
	if err := getBy(user, s, "/v1/node/"+nodes[0].ID, &node); err != nil || !node.TLSEnabled || node.HTTPAddr != c.Addr() {
		t.Errorf("node = %+v, %v, want one with TLS at %s", node, err, c.Addr())
	}
}

// getBy decodes a JSON response of the API over TLS.
func getBy(c *http.Client, a *agent.Agent, path string, v any) error {
	resp, err := c.Get("https://" + a.Addr() + path)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %d", path, resp.StatusCode)
	}
	return json.NewDecoder(resp.Body).Decode(v)
}

// peersOf returns the RPC addresses of the servers.
func peersOf(c *http.Client, a *agent.Agent) (addrs []string) {
	if getBy(c, a, "/v1/status/peers", &addrs) != nil {
		return nil
	}
	return addrs
}

// A certificate that expires soon is logged at each start and reload.
func TestExpiryIsLogged(t *testing.T) {
	ca := testpki.New(t)
	for days, want := range map[int]string{10: "expires soon", 30: "TLS is enabled"} {
		f := ca.Issue(pki.CertOptions{DNSNames: []string{"localhost"}, Client: true, Server: true, Days: days})
		path := write(t, free+tlsBlock(f, "http = true"))
		out := &testbuffer.Buffer{}
		a, err := build(t, out, serverOnly(t, path)...)
		if err != nil {
			t.Fatal(err)
		}
		if err := a.Reload(); err != nil {
			t.Error(err)
		}
		if n := strings.Count(out.String(), want); n != 2 {
			t.Errorf("%d days: %q is logged %d times", days, want, n)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := a.Run(ctx); err != nil {
			t.Error(err)
		}
	}
}
