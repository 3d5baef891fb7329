package consul_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/open-nomad/open-nomad/internal/consul"
	"github.com/open-nomad/open-nomad/internal/testconsul"
	"github.com/open-nomad/open-nomad/internal/testpki"
)

// secret is a token. No error may have it.
const secret = "0e8ad8d9-canary"

// answers serves a status and a body.
func answers(status int, body string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { http.Error(w, body, status) })
}

// TestRedact checks that each fault of the connection has its cause, what to do about it, and no token. Each is redacted
// twice, as an error is that is first logged and then shown.
func TestRedact(t *testing.T) {
	pki, other := testpki.New(t), testpki.New(t)
	files, trusted := pki.Agent("consul.example"), other.Agent("localhost").CA
	pair, err := tls.LoadX509KeyPair(files.Cert, files.Key)
	if err != nil {
		t.Fatal(err)
	}
	secure := httptest.NewUnstartedServer(answers(http.StatusOK, `{}`))
	secure.TLS = &tls.Config{Certificates: []tls.Certificate{pair}}
	secure.Config.ErrorLog = log.New(io.Discard, "", 0)
	secure.StartTLS()
	defer secure.Close()
	mutual := httptest.NewUnstartedServer(answers(http.StatusOK, `{}`))
	mutual.TLS = &tls.Config{Certificates: []tls.Certificate{pair}, ClientAuth: tls.RequireAnyClientCert}
	mutual.Config.ErrorLog = log.New(io.Discard, "", 0)
	mutual.StartTLS()
	defer mutual.Close()
	acl := testconsul.Start(t, testconsul.Config{ACL: true})
	for _, fault := range []string{"ACL not found", "Permission denied"} {
		acl.Expect(fault)
	}
	weak := acl.NewToken(t, `key_prefix "" { policy = "read" }`)

	port := func(url string) string { return url[strings.LastIndex(url, ":")+1:] }
	serve := func(h http.Handler) api.Config {
		s := httptest.NewServer(h)
		t.Cleanup(s.Close)
		return api.Config{Address: s.URL, Token: secret}
	}
	raw := func(answer string) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			c, _, err := w.(http.Hijacker).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			io.WriteString(c, answer) // the client reports a failure
			c.Close()
		})
	}
	large := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, `{"a": %q}`, strings.Repeat("a", consul.MaxAnswer)) // the client stops to read
	})
	tlsTo := func(url, host, ca string) api.Config {
		return api.Config{Address: host + ":" + port(url), Scheme: "https", TLSConfig: api.TLSConfig{CAFile: ca}}
	}
	named := tlsTo(mutual.URL, "127.0.0.1", files.CA)
	named.TLSConfig.Address = "consul.example"
	misnamed := tlsTo(secure.URL, "127.0.0.1", files.CA)
	misnamed.TLSConfig.Address = "other.example"
	for name, tc := range map[string]struct {
		cfg  api.Config
		want string
	}{
		"nobody listens":  {api.Config{Address: unused(t)}, "connection refused: check that Consul runs, and the address"},
		"another CA":      {tlsTo(secure.URL, "127.0.0.1", trusted), "set ca_file in the consul block"},
		"another name":    {misnamed, "or set CONSUL_TLS_SERVER_NAME"},
		"no certificate":  {named, "set cert_file and key_file"},
		"TLS required":    {api.Config{Address: "127.0.0.1:" + port(secure.URL)}, "status 400: Consul requires TLS: set ssl"},
		"without TLS":     {api.Config{Address: acl.Addr(), Scheme: "https"}, "set ssl = false"},
		"unknown token":   {api.Config{Address: acl.Addr(), Token: secret}, "status 403: Consul does not have the token, or it has expired"},
		"no token":        {api.Config{Address: acl.Addr()}, "status 403: the request has no token: set token"},
		"weak token":      {api.Config{Address: acl.Addr(), Token: weak}, "status 403: the token does not have the right agent:read"},
		"other 403":       {serve(answers(http.StatusForbidden, secret)), "unexpected status 403"},
		"other 400":       {serve(answers(http.StatusBadRequest, secret)), "unexpected status 400"},
		"no leader":       {serve(answers(http.StatusInternalServerError, "No cluster leader "+secret)), "status 500: the servers of Consul have no leader"},
		"rate":            {serve(answers(http.StatusTooManyRequests, secret)), "Consul limits the rate"},
		"redirect":        {serve(http.RedirectHandler("/"+secret, http.StatusFound)), "the address may not be that of an agent of Consul"},
		"another program": {serve(answers(http.StatusNotFound, "<html>"+secret)), "the address may not be that of an agent of Consul"},
		"page":            {serve(answers(http.StatusOK, "<html>"+secret)), "not of Consul: check the address"},
		"other JSON":      {serve(answers(http.StatusOK, `{"Config":"`+secret+`"}`)), "not of Consul: check the address"},
		"incomplete":      {serve(raw("HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{")), "not of Consul: check the address"},
		"not HTTP":        {serve(raw(secret + "\r\n\r\n")), "not of Consul: check the address"},
		"cut":             {serve(raw("")), "the connection was closed before the answer"},
		"too large":       {serve(large), "exceeds 16 MiB"},
		"hangs":           {serve(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })), "deadline exceeded"},
	} {
		t.Run(name, func(t *testing.T) {
			limit := time.Minute
			if name == "hangs" {
				limit = time.Second
			}
			a, err := consul.New(consul.Settings{Name: consul.DefaultCluster, HTTP: tc.cfg, Timeout: limit})
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			defer cancel()
			var out map[string]map[string]any
			_, err = a.Client().Raw().Query("/v1/agent/self", &out, (&api.QueryOptions{}).WithContext(ctx))
			err = consul.Redact(fmt.Errorf("second: %w", consul.Redact(err)))
			if err == nil || strings.Count(err.Error(), tc.want) != 1 {
				t.Errorf("error %v, want %q once", err, tc.want)
			} else if strings.Contains(err.Error(), secret) || strings.Contains(err.Error(), weak) {
				t.Errorf("error %v has the token", err)
			}
			if name == "hangs" && !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("error %v is not an exceeded deadline", err)
			}
		})
	}
	if err := consul.Redact(nil); err != nil {
		t.Errorf("Redact(nil) = %v", err)
	}
}

// unused returns an address at which nobody listens.
func unused(t *testing.T) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	return ln.Addr().String()
}
