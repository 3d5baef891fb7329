package api_test

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/internal/pki"
)

// cluster returns an agent that requires client certificates of its CA.
type cluster struct {
	dir     string // ca.pem, cli.pem, cli-key.pem, other-ca.pem, other.pem, other-key.pem
	address string
}

func (c cluster) file(name string) string { return filepath.Join(c.dir, name) }

// config returns a valid client configuration.
func (c cluster) config() *api.TLSConfig {
	return &api.TLSConfig{CACert: c.file("ca.pem"), ClientCert: c.file("cli.pem"), ClientKey: c.file("cli-key.pem"),
		TLSServerName: "server.global.nomad"}
}

func tlsAgent(t *testing.T) cluster {
	t.Helper()
	c := cluster{dir: t.TempDir()}
	write := func(name string, text []byte) {
		if err := os.WriteFile(c.file(name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	issue := func(name string, client pki.CertOptions) *pki.CA {
		ca, err := pki.NewCA(pki.CAOptions{CommonName: name})
		if err != nil {
			t.Fatal(err)
		}
		cert, key, err := ca.Issue(client)
		if err != nil {
			t.Fatal(err)
		}
		write(name+".pem", cert)
		write(name+"-key.pem", key)
		return ca
	}
	ca := issue("cli", pki.CertOptions{CommonName: "cli.global.nomad", Client: true})
	write("ca.pem", ca.CertPEM)
	write("other-ca.pem", issue("other", pki.CertOptions{CommonName: "cli.global.nomad", Client: true}).CertPEM)
	cert, key, err := ca.Issue(pki.CertOptions{DNSNames: []string{"server.global.nomad"}, Server: true})
	if err != nil {
		t.Fatal(err)
	}
	own, err := tls.X509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(ca.CertPEM)
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "%q", r.TLS.PeerCertificates[0].Subject.CommonName)
	}))
	srv.TLS = &tls.Config{Certificates: []tls.Certificate{own}, ClientCAs: pool, ClientAuth: tls.RequireAndVerifyClientCert}
	srv.Config.ErrorLog = log.New(io.Discard, "", 0)
	srv.StartTLS()
	t.Cleanup(srv.Close)
	c.address = srv.URL
	return c
}

func TestTLS(t *testing.T) {
	agent := tlsAgent(t)
	read := func(name string) []byte {
		text, err := os.ReadFile(agent.file(name))
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	dir := t.TempDir()
	for name, text := range map[string][]byte{"one.pem": read("other-ca.pem"), "two.crt": append(read("cli-key.pem"), read("ca.pem")...),
		".hidden": []byte("x")} {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, "below"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name   string
		change func(c *api.TLSConfig)
		fails  string
	}{
		{"files", func(c *api.TLSConfig) {}, ""},
		{"texts", func(c *api.TLSConfig) {
			*c = api.TLSConfig{CACertPEM: read("ca.pem"), ClientCertPEM: read("cli.pem"), ClientKeyPEM: read("cli-key.pem"),
				TLSServerName: "server.global.nomad"}
		}, ""},
		{"texts before files", func(c *api.TLSConfig) {
			c.CACert, c.ClientCert, c.ClientKey = "/nowhere", "/nowhere", "/nowhere"
			c.CACertPEM, c.ClientCertPEM, c.ClientKeyPEM = read("ca.pem"), read("cli.pem"), read("cli-key.pem")
		}, ""},
		{"directory", func(c *api.TLSConfig) { c.CACert, c.CAPath = "", dir }, ""},
		{"any certificate", func(c *api.TLSConfig) { c.CACert, c.Insecure, c.TLSServerName = "", true, "" }, ""},
		{"other name", func(c *api.TLSConfig) { c.TLSServerName = "" }, "127.0.0.1"},
		{"other CA", func(c *api.TLSConfig) { c.CACert = agent.file("other-ca.pem") }, "unknown authority"},
		{"the CAs of the system", func(c *api.TLSConfig) { c.CACert = "" }, "unknown authority"},
		{"no certificate", func(c *api.TLSConfig) { c.ClientCert, c.ClientKey = "", "" }, "certificate required"},
		{"certificate of another CA", func(c *api.TLSConfig) {
			c.ClientCert, c.ClientKey = agent.file("other.pem"), agent.file("other-key.pem")
		}, "unknown certificate authority"},
	} {
		t.Run(c.name, func(t *testing.T) {
			conf := agent.config()
			c.change(conf)
			who, err := client(t, &api.Config{Address: agent.address, TLSConfig: conf}).Status().Leader()
			if c.fails != "" {
				if err == nil || !strings.Contains(err.Error(), c.fails) {
					t.Errorf("error %v, want %q", err, c.fails)
				}
			} else if err != nil || who != "cli.global.nomad" {
				t.Errorf("client certificate = %q, %v", who, err)
			}
		})
	}
}

func TestTLSFromEnvironment(t *testing.T) {
	agent := tlsAgent(t)
	for k, v := range map[string]string{"NOMAD_ADDR": agent.address, "NOMAD_CACERT": agent.file("ca.pem"),
		"NOMAD_CLIENT_CERT": agent.file("cli.pem"),
		"NOMAD_CLIENT_KEY":  agent.file("cli-key.pem"), "NOMAD_TLS_SERVER_NAME": "server.global.nomad"} {
		t.Setenv(k, v)
	}
	ask := func() (string, error) {
		c, err := api.NewClient(nil)
		if err != nil {
			return "", err
		}
		defer c.Close()
		return c.Status().Leader()
	}
	if who, err := ask(); err != nil || who != "cli.global.nomad" {
		t.Errorf("client certificate = %q, %v", who, err)
	}
	t.Setenv("NOMAD_CACERT", "")
	t.Setenv("NOMAD_CAPATH", filepath.Dir(agent.file("ca.pem")))
	if _, err := ask(); err == nil || !strings.Contains(err.Error(), "no PEM certificate in") || !strings.HasSuffix(err.Error(), "-key.pem") {
		t.Errorf("a directory with a key: %v", err)
	}
	t.Setenv("NOMAD_CAPATH", "")
	if _, err := ask(); err == nil {
		t.Error("an agent with a certificate of an unknown CA was accepted")
	}
	t.Setenv("NOMAD_SKIP_VERIFY", "perhaps")
	if _, err := ask(); err == nil {
		t.Error("an agent with a certificate of an unknown CA was accepted")
	}
	t.Setenv("NOMAD_SKIP_VERIFY", "true")
	if who, err := ask(); err != nil || who != "cli.global.nomad" {
		t.Errorf("client certificate = %q, %v", who, err)
	}
}

// TestUnixAddressWithTLS checks that TLS variables are ignored for a unix socket.
func TestUnixAddressWithTLS(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "api.sock")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, `"1.2.3.4:4647"`) }))
	srv.Listener.Close()
	srv.Listener = l
	srv.Start()
	defer srv.Close()
	t.Setenv("NOMAD_ADDR", "unix://"+socket)
	t.Setenv("NOMAD_CACERT", "/nowhere")
	if leader, err := client(t, api.DefaultConfig()).Status().Leader(); err != nil || leader != "1.2.3.4:4647" {
		t.Errorf("Leader() = %q, %v", leader, err)
	}
}

func TestInvalidTLSConfig(t *testing.T) {
	agent := tlsAgent(t)
	broken, empty := agent.file("broken.pem"), agent.file("empty")
	if err := os.WriteFile(broken, []byte("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(empty, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		change func(c *api.TLSConfig)
		want   string
	}{
		{func(c *api.TLSConfig) { c.CACert = "/nowhere" }, "read CA certificate: open /nowhere"},
		{func(c *api.TLSConfig) { c.CACert = c.ClientKey }, "no PEM certificate in " + agent.file("cli-key.pem")},
		{func(c *api.TLSConfig) { c.CACert = broken }, broken},
		{func(c *api.TLSConfig) { c.CACert, c.CAPath = "", "/nowhere" }, "read CA directory: open /nowhere"},
		{func(c *api.TLSConfig) { c.CACert, c.CAPath = "", empty }, "no files in " + empty},
		{func(c *api.TLSConfig) { c.CACertPEM = []byte("x") }, "no PEM certificate in inline PEM"},
		{func(c *api.TLSConfig) { c.ClientCert = "/nowhere" }, "read client certificate: open /nowhere"},
		{func(c *api.TLSConfig) { c.ClientKey = "/nowhere" }, "read client key: open /nowhere"},
		{func(c *api.TLSConfig) { c.ClientKey = "" }, "cli.pem requires a client key"},
		{func(c *api.TLSConfig) { c.ClientCert = "" }, "cli-key.pem requires a client certificate"},
		{func(c *api.TLSConfig) { c.ClientKey = agent.file("other-key.pem") }, "private key does not match"},
		{func(c *api.TLSConfig) { c.ClientKey = agent.file("other-key.pem") }, "other-key.pem"},
	} {
		conf := agent.config()
		c.change(conf)
		if _, err := api.NewClient(&api.Config{Address: agent.address, TLSConfig: conf}); err == nil ||
			!strings.Contains(err.Error(), c.want) {
			t.Errorf("error %v, want %q", err, c.want)
		}
	}
}

func TestConfigureTLS(t *testing.T) {
	agent := tlsAgent(t)
	get := func(c *http.Client) error {
		resp, err := c.Get(agent.address)
		if err != nil {
			return err
		}
		return resp.Body.Close()
	}
	for name, c := range map[string]*http.Client{"no transport": {}, "a transport": {Transport: &http.Transport{DisableKeepAlives: true}}} {
		if err := api.ConfigureTLS(c, agent.config()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if err := get(c); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		c.CloseIdleConnections()
	}
	plain := &http.Client{}
	if err := api.ConfigureTLS(plain, nil); err != nil || plain.Transport != nil {
		t.Errorf("ConfigureTLS(nil config): transport %v, error %v", plain.Transport, err)
	}
	if err := api.ConfigureTLS(nil, agent.config()); err == nil {
		t.Error("ConfigureTLS(nil client) succeeded, want an error")
	}
	if err := api.ConfigureTLS(&http.Client{Transport: http.NewFileTransport(nil)}, agent.config()); err == nil ||
		!strings.Contains(err.Error(), "not an *http.Transport") {
		t.Errorf("ConfigureTLS with a file transport: %v", err)
	}

	conf := &api.TLSConfig{CACert: "f", CACertPEM: []byte("a"), ClientCertPEM: []byte("b"), ClientKeyPEM: []byte("c")}
	copied := conf.Copy()
	conf.CACertPEM[0], conf.ClientCertPEM[0], conf.ClientKeyPEM[0] = 'x', 'x', 'x'
	if copied.CACert != "f" || string(copied.CACertPEM)+string(copied.ClientCertPEM)+string(copied.ClientKeyPEM) != "abc" {
		t.Errorf("Copy() = %+v", copied)
	}
	if (*api.TLSConfig)(nil).Copy() != nil {
		t.Error("Copy() of nil is not nil")
	}
}
