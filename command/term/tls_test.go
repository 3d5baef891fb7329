package term_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/command/term"
	"github.com/open-nomad/open-nomad/internal/pki"
)

// leader is a command that calls an agent.
var leader = term.Command{Name: "leader", Short: "Ask", Setup: func(*term.Flags) term.Run {
	return func(_ context.Context, e *term.Env) error {
		c, err := e.Client()
		if err != nil {
			return err
		}
		defer c.Close()
		who, err := c.Status().Leader()
		if err != nil {
			return fmt.Errorf("Error querying leader: %w", err)
		}
		e.Println(who)
		return nil
	}
}}

// agent serves TLS to clients with a certificate of the CA in the directory that it
// returns. Its own certificate was created 20 days ago and is valid for the given days.
func agent(t *testing.T, days int) (address, dir string) {
	t.Helper()
	now := time.Now()
	ca, err := pki.NewCA(pki.CAOptions{CommonName: "CA", At: now.AddDate(0, 0, -30)})
	if err != nil {
		t.Fatal(err)
	}
	dir = t.TempDir()
	write := func(name string, text []byte) {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cert, key, err := ca.Issue(pki.CertOptions{DNSNames: []string{"server.global.nomad"}, Server: true, Days: days,
		At: now.AddDate(0, 0, -20)})
	if err != nil {
		t.Fatal(err)
	}
	own, err := tls.X509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	if cert, key, err = ca.Issue(pki.CertOptions{CommonName: "cli.global.nomad", Client: true}); err != nil {
		t.Fatal(err)
	}
	write("ca.pem", ca.CertPEM)
	write("cli.pem", cert)
	write("cli-key.pem", key)
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(ca.CertPEM)
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, `"it"`) }))
	srv.TLS = &tls.Config{Certificates: []tls.Certificate{own}, ClientCAs: pool, ClientAuth: tls.RequireAndVerifyClientCert}
	srv.Config.ErrorLog = log.New(io.Discard, "", 0)
	srv.StartTLS()
	t.Cleanup(srv.Close)
	return srv.URL, dir
}

func TestTLSFlags(t *testing.T) {
	address, dir := agent(t, 365)
	old, oldDir := agent(t, 10)
	plain := httptest.NewServer(http.NotFoundHandler())
	defer plain.Close()
	t.Setenv("NOMAD_ADDR", address)
	certs := " -client-cert=" + dir + "/cli.pem -client-key=" + dir + "/cli-key.pem"
	all := "-ca-cert=" + dir + "/ca.pem -tls-server-name=server.global.nomad" + certs
	for _, c := range []struct {
		name, flags string
		env         map[string]string
		fails       string // the expected text
	}{
		{"all", all, nil, ""},
		{"without verification", "-tls-skip-verify" + certs, nil, ""},
		{"by its other name", "-insecure" + certs, nil, ""},
		{"flags before the environment", all,
			map[string]string{"NOMAD_CACERT": "/nowhere", "NOMAD_CLIENT_CERT": "/nowhere", "NOMAD_CLIENT_KEY": "/nowhere",
				"NOMAD_TLS_SERVER_NAME": "x"}, ""},
		{"verification in spite of the environment", "-tls-server-name=server.global.nomad -tls-skip-verify=false" + certs,
			map[string]string{"NOMAD_SKIP_VERIFY": "true"}, "-ca-cert or NOMAD_CACERT"},
		{"no CA", "-tls-server-name=server.global.nomad" + certs, nil, "-ca-cert or NOMAD_CACERT"},
		{"no name", "-ca-cert=" + dir + "/ca.pem" + certs, nil, "-tls-server-name or NOMAD_TLS_SERVER_NAME"},
		{"no certificate", "-tls-skip-verify", nil, "set -client-cert and -client-key"},
		{"its days are over", "-address=" + old + " -tls-server-name=server.global.nomad -ca-cert=" + oldDir + "/ca.pem", nil,
			"expired or not yet valid"},
		{"no TLS there", "-address=" + strings.Replace(plain.URL, "http:", "https:", 1), nil, "The agent does not use TLS"},
		{"no TLS here", "-address=" + strings.Replace(address, "https:", "http:", 1), nil, "HTTP request to an HTTPS server"},
		{"no file", "-ca-cert=/nowhere", nil, "read CA certificate: open /nowhere"},
		{"no directory", "-ca-path=/nowhere", nil, "read CA directory: open /nowhere"},
		{"neither", "-tls-skip-verify=perhaps", nil, `"perhaps" is not true or false`},
	} {
		t.Run(c.name, func(t *testing.T) {
			for k, v := range c.env {
				t.Setenv(k, v)
			}
			var out, errs bytes.Buffer
			code := leader.Adapt(nil, &out, &errs).Run(strings.Fields(c.flags))
			if c.fails == "" {
				if code != 0 || out.String() != "it\n" {
					t.Errorf("exit %d: %s%s", code, &out, &errs)
				}
			} else if code != 1 || !strings.Contains(errs.String(), c.fails) {
				t.Errorf("exit %d: %s\nwant %q", code, &errs, c.fails)
			}
		})
	}
}

func TestRegion(t *testing.T) {
	show := term.Command{Name: "show", Setup: func(*term.Flags) term.Run {
		return func(_ context.Context, e *term.Env) error {
			e.Println(e.Region())
			return nil
		}
	}}
	t.Setenv("NOMAD_REGION", "env")
	for flags, want := range map[string]string{"": "env\n", "-region=flag": "flag\n"} {
		var out bytes.Buffer
		if code := show.Adapt(nil, &out, io.Discard).Run(strings.Fields(flags)); code != 0 || out.String() != want {
			t.Errorf("show %s: exit %d, %q, want %q", flags, code, &out, want)
		}
	}
}
