package consul_test

import (
	"crypto/tls"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/open-nomad/open-nomad/internal/consul"
	"github.com/open-nomad/open-nomad/internal/testpki"
)

// leader asks for the leader of Consul.
func leader(a *consul.Agent) error {
	_, err := a.Client().Status().Leader()
	return err
}

// answering answers every request, and records the tokens.
func answering(tokens *[]string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		*tokens = append(*tokens, r.Header.Get("X-Consul-Token"))
		w.Write([]byte(`"127.0.0.1:8300"`))
	})
}

// TestReplace checks that the next request uses the new address and token, and reads the TLS files again, and that wrong
// settings leave the old ones.
func TestReplace(t *testing.T) {
	var plain, secure []string
	first := httptest.NewServer(answering(&plain))
	defer first.Close()
	right, wrong := testpki.New(t), testpki.New(t)
	files := right.Agent("localhost")
	pair, err := tls.LoadX509KeyPair(files.Cert, files.Key)
	if err != nil {
		t.Fatal(err)
	}
	second := httptest.NewUnstartedServer(answering(&secure))
	second.TLS = &tls.Config{Certificates: []tls.Certificate{pair}}
	second.StartTLS()
	defer second.Close()

	s := consul.Settings{Name: consul.DefaultCluster, HTTP: api.Config{Address: first.URL, Token: "a"}, Timeout: time.Second}
	a, err := consul.New(s)
	if err != nil {
		t.Fatal(err)
	}
	if err := leader(a); err != nil || strings.Join(plain, ",") != "a" || a.TLS() {
		t.Errorf("first: %v, tokens %q", err, plain)
	}
	ca := filepath.Join(t.TempDir(), "ca.pem")
	use := func(from string) {
		t.Helper()
		text, err := os.ReadFile(from)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(ca, text, 0o600); err != nil {
			t.Fatal(err)
		}
		s.HTTP = api.Config{Address: second.URL, Token: "b", TLSConfig: api.TLSConfig{CAFile: ca}}
		if err := a.Replace(s); err != nil {
			t.Fatal(err)
		}
	}
	use(wrong.Agent("localhost").CA)
	if err := leader(a); err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("with another CA: %v", err)
	}
	use(files.CA)
	if err := leader(a); err != nil || strings.Join(secure, ",") != "b" || !a.TLS() {
		t.Errorf("with the CA in the same file: %v, tokens %q", err, secure)
	}
	s.HTTP.TLSConfig.CAFile, s.HTTP.Token = ca+".missing", "c"
	if err := a.Replace(s); err == nil {
		t.Error("a missing file is accepted")
	}
	if err := leader(a); err != nil || strings.Join(secure, ",") != "b,b" {
		t.Errorf("after wrong settings: %v, tokens %q", err, secure)
	}
}

// TestReplace_Own checks that the HTTP client and the transport in the settings remain as they are, for the next settings.
func TestReplace_Own(t *testing.T) {
	var tokens []string
	srv := httptest.NewTLSServer(answering(&tokens))
	defer srv.Close()
	own := &http.Client{Transport: srv.Client().Transport}
	a, err := consul.New(consul.Settings{HTTP: api.Config{Address: srv.URL, HttpClient: own}, Timeout: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if err := a.Replace(a.Settings()); err != nil {
			t.Fatal(err)
		}
	}
	if err := leader(a); err != nil || own.Transport != srv.Client().Transport || own.CheckRedirect != nil {
		t.Errorf("with a client: %v, and the client of the caller is %+v", err, own)
	}
	s := consul.Settings{HTTP: api.Config{Address: srv.URL, Transport: &http.Transport{}}, Timeout: time.Second}
	if a, err = consul.New(s); err != nil {
		t.Fatal(err)
	}
	if err := leader(a); err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("without a CA: %v", err)
	}
	s = a.Settings()
	s.HTTP.TLSConfig.InsecureSkipVerify = true
	if err := a.Replace(s); err != nil {
		t.Fatal(err)
	}
	if err := leader(a); err != nil {
		t.Errorf("with other TLS settings: %v", err)
	}
}

// TestUnix checks that the address can be a socket.
func TestUnix(t *testing.T) {
	path := filepath.Join(t.TempDir(), "consul.sock")
	ln, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	var tokens []string
	s := &http.Server{Handler: answering(&tokens)}
	defer s.Close()
	go s.Serve(ln)
	a, err := consul.New(consul.Settings{Name: consul.DefaultCluster, HTTP: api.Config{Address: "unix://" + path, Token: "a"}, Timeout: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	if err := leader(a); err != nil || len(tokens) != 1 {
		t.Errorf("error %v, tokens %q", err, tokens)
	}
}
