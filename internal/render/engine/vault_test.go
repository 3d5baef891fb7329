package engine_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/internal/readproxy"
	"github.com/open-nomad/open-nomad/internal/render"
	"github.com/open-nomad/open-nomad/internal/testvault"
	"github.com/open-nomad/open-nomad/internal/vault"
	vaultreads "github.com/open-nomad/open-nomad/internal/vault/readproxy"
)

// startVault runs the program with a proxy to a Vault.
func startVault(t *testing.T, addr string, token vaultreads.Token, req *render.Request) *program {
	t.Helper()
	c, err := vault.New(vault.Settings{Name: vault.DefaultCluster, Address: addr})
	must(t, err)
	ours, theirs := pair(t)
	defer theirs.Close()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		readproxy.Serve(ctx, ours, map[string]http.Handler{render.VaultHost: vaultreads.New(c, token)})
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
	if req.Vault == nil {
		req.Vault = &render.Vault{Retry: render.Retry{Backoff: 10 * time.Millisecond, MaxBackoff: 100 * time.Millisecond}, DefaultLease: time.Second}
	}
	return startWith(t, theirs, req)
}

func vaultToken(secret string) vaultreads.Token {
	return vaultreads.Token{Current: func() (string, string) { return secret, "" }}
}

// put writes a secret.
func put(t *testing.T, v *testvault.Vault, path string, data map[string]any) {
	t.Helper()
	c, err := vault.New(vault.Settings{Name: vault.DefaultCluster, Address: v.Addr()})
	must(t, err)
	_, err = c.Client(v.Root(), "").Logical().WriteWithContext(t.Context(), path, data)
	must(t, err)
}

func kv2(name, value string) map[string]any {
	return map[string]any{"data": map[string]any{name: value}}
}

// TestVaultFunctions checks each function of Vault.
func TestVaultFunctions(t *testing.T) {
	t.Parallel() // it mostly waits
	v := testvault.Start(t, testvault.Config{})
	put(t, v, "secret/data/app/db", kv2("pass", "one"))
	put(t, v, "secret/data/app/db", kv2("pass", "two"))
	put(t, v, "secret/data/app/api", kv2("pass", "x"))
	put(t, v, "kv/app", map[string]any{"pass": "flat"})
	put(t, v, "kv/cert", map[string]any{"certificate": "of us", "expiration": "in May"})
	put(t, v, "kv/role", map[string]any{"secret_id": "x", "secret_id_ttl": "1h", "rotation_period": "1d", "ttl": nil})
	v.Dynamic("database/creds/app", testvault.Dynamic{TTL: time.Hour, Renewable: true})
	var texts, wants []string
	for text, want := range map[string]string{
		`{{ with secret "secret/app/db" }}{{ .Data.data.pass }} {{ .Data.metadata.version }}{{ end }}`:                                                                         "two 2",
		`{{ with secret "/secret/data/app/db/" }}{{ .Data.data.pass }}{{ end }}`:                                                                                               "two",
		`{{ with secret "secret/app/db?version=1" }}{{ .Data.data.pass }}{{ end }}`:                                                                                            "one",
		`{{ with secret "kv/app" }}{{ .Data.pass }} {{ .LeaseID }}{{ .Renewable }}{{ end }}`:                                                                                   "flat false",
		`{{ with secret " /kv/cert/" }}{{ .Data.certificate }} {{ .Data.expiration }} {{ .LeaseDuration }}{{ end }}`:                                                           "of us in May 2764800",
		`{{ with secret "kv/role" }}{{ .Data.secret_id_ttl }} {{ .Data.rotation_period }}{{ end }}`:                                                                            "1h 1d",
		`{{ with secret "database/creds/app" }}{{ if .LeaseID }}{{ .LeaseDuration }} {{ .Renewable }}{{ end }}{{ end }}`:                                                       "3600 true",
		`{{ range secrets "secret/app" }}{{ . }} {{ end }}`:                                                                                                                    "api db ",
		`{{ range secrets "secret/none" }}x{{ else }}none{{ end }}`:                                                                                                            "none",
		`{{ with secret "secret/other/new" "a=1" "b = 2=3 " "" }}{{ .Data.version }}{{ end }}`:                                                                                 "1",
		`{{ with secret "kv/written" "a=1" }}{{ . }}{{ else }}no answer{{ end }}`:                                                                                              "no answer",
		`{{ with secret "auth/token/create" "policies=default" }}{{ if .Auth.ClientToken }}created{{ end }}{{ end }}`:                                                          "created",
		`{{ with pkiCert "pki/issue/web" "common_name=web.test" }}{{ if .Key }}{{ .Cert | len | lt 100 }}{{ end }}{{ .CA | len | lt 100 }} {{ .Data.CAChain | len }}{{ end }}`: "truetrue 1",
		`{{ with secret "" }}x{{ end }}{{ range secrets "" }}x{{ end }}{{ with pkiCert "" }}x{{ end }}{{ with secret }}x{{ end }}empty`:                                        "empty",
	} {
		texts, wants = append(texts, text), append(wants, want)
	}
	req := newWorld(t).request(texts...)
	req.Vault = &render.Vault{Retry: render.Retry{Backoff: 10 * time.Millisecond}, DefaultLease: time.Hour} // each write is made once
	p := startVault(t, v.Addr(), vaultToken(v.Root()), req)
	p.rendersFirst(wants...)
	p.stop()
	if names := socketsOf(t, p.cmd.Process.Pid); len(names) > 0 {
		t.Errorf("the program listens on %q", names)
	}
}

// TestVaultMissing checks the names of data that was not read yet, and that a secret that does not exist is read again.
func TestVaultMissing(t *testing.T) {
	t.Parallel() // it mostly waits
	v := testvault.Start(t, testvault.Config{})
	put(t, v, "secret/data/other", kv2("k", "v")) // the mount answers
	req := newWorld(t).request(`{{ with secret "secret/late" }}{{ .Data.data.k }}{{ end }}`, `{{ with secret "secret/late?version=2" }}{{ .Data.data.k }}{{ end }}`)
	p := startVault(t, v.Addr(), vaultToken(v.Root()), req)
	p.until("the names", func() bool {
		return len(p.missing) == 1 && strings.Join(p.missing[0].Names, " ") == "vault.read(secret/late) vault.read(secret/late.v2)"
	})
	p.until("the outage", func() bool { return len(p.outages) == 1 })
	if text := p.outages[0].Text; text != "no secret exists at secret/data/late" {
		t.Errorf("outage = %q", text)
	}
	put(t, v, "secret/data/late", kv2("k", "one"))
	put(t, v, "secret/data/late", kv2("k", "two"))
	p.rendersFirst("two", "two")
}

// TestVaultFollows checks that a changed value is rendered, that the same value is not, and what an outage, a seal and a
// restart do.
func TestVaultFollows(t *testing.T) {
	t.Parallel() // it mostly waits
	v := testvault.Start(t, testvault.Config{})
	put(t, v, "secret/data/app", kv2("k", "one"))
	p := startVault(t, v.Addr(), vaultToken(v.Root()), newWorld(t).request(
		`{{ with secret "secret/app" }}{{ .Data.data.k }}{{ end }}`, `{{ range secrets "secret" }}{{ . }} {{ end }}`))
	p.rendersFirst("one", "app ")
	before := v.Calls("GET /v1/secret/data/app")
	p.until("some reads of the same value", func() bool { return v.Calls("GET /v1/secret/data/app") > before+1 })
	put(t, v, "secret/data/app", kv2("k", "two"))
	put(t, v, "secret/data/new", kv2("k", "x"))
	p.until("the change", func() bool { return p.last(0) == "two" && p.last(1) == "app new " })
	v.Seal()
	p.until("the outage", func() bool { return len(p.outages) == 1 })
	if text := p.outages[0].Text; text != "Vault returned status 503: Vault is sealed or in maintenance" {
		t.Errorf("outage = %q", text)
	}
	v.Unseal()
	p.until("the end of the outage", func() bool { return p.kinds[len(p.kinds)-1] == render.KindRecovered })
	must(t, v.Restart())
	put(t, v, "secret/data/app", kv2("k", "three"))
	p.until("the change after a restart", func() bool { return p.last(0) == "three" })
	p.stop()
	if got := strings.Join(p.contents[0], " "); got != "one two three" {
		t.Errorf("the secret was rendered as %q", got)
	}
}

// TestVaultLeases checks that a renewable lease is renewed and its credentials stay, until it reaches its maximum or is
// revoked, and that others are read again before they end.
func TestVaultLeases(t *testing.T) {
	t.Parallel() // it mostly waits
	v := testvault.Start(t, testvault.Config{})
	v.Dynamic("database/creds/long", testvault.Dynamic{TTL: 6 * time.Second, Renewable: true})
	v.Dynamic("database/creds/max", testvault.Dynamic{TTL: 6 * time.Second, Max: 9 * time.Second, Renewable: true})
	v.Dynamic("database/creds/fixed", testvault.Dynamic{TTL: 2 * time.Second})
	show := func(name string) string {
		return fmt.Sprintf(`{{ with secret "database/creds/%s" }}{{ .LeaseID }}{{ end }}`, name)
	}
	begun := time.Now()
	p := startVault(t, v.Addr(), vaultToken(v.Root()), newWorld(t).request(show("long"), show("max"), show("fixed"),
		`{{ with secret "auth/token/create" "policies=default" "ttl=6s" }}{{ .Auth.ClientToken }}{{ end }}`))
	p.until("the maximum is reached", func() bool { return len(p.contents[1]) >= 2 })
	took := time.Since(begun)
	p.until("the renewals", func() bool {
		return v.Calls("PUT /v1/sys/leases/renew") >= 4 && v.Calls("PUT /v1/auth/token/renew-self") >= 2
	})
	p.mu.Lock()
	if n, tokens := len(p.contents[0]), len(p.contents[3]); n != 1 || tokens != 1 {
		t.Errorf("%d credentials of the renewed lease, %d of the token", n, tokens)
	}
	if n := len(p.contents[2]); n < 3 || took < 4*time.Second {
		t.Errorf("%d credentials without renewal in %v", n, took)
	}
	p.mu.Unlock()
	p.stop()
}

// TestVaultCertificate checks that the certificate in the file of the template is used again, unless it is not that of the
// same template, has no key or nearly ends.
func TestVaultCertificate(t *testing.T) {
	t.Parallel() // it mostly waits
	const body = `{{ with pkiCert "pki/issue/web" "common_name=web.test" %s }}{{ .Key }}{{ .Cert }}{{ .CA }}{{ end }}`
	v := testvault.Start(t, testvault.Config{})
	w := newWorld(t)
	issued := func() int { return v.Calls("PUT /v1/pki/issue/web") }
	run := func(text string, kept bool) string {
		t.Helper()
		req := w.request(text)
		req.Templates[0].Destination, req.Templates[0].Kept = filepath.Join(w.dir, "local/cert.pem"), kept
		p := startVault(t, v.Addr(), vaultToken(v.Root()), req)
		p.rendersFirst()
		p.stop()
		return p.last(0)
	}
	long := fmt.Sprintf(body, "")
	first := run(long, false)
	w.write(t, "local/cert.pem", first)
	if again := run(long, true); again != first || issued() != 1 {
		t.Errorf("the certificate changed, %d were issued", issued())
	}
	if again := run(long, false); again == first || issued() != 2 {
		t.Errorf("the certificate of another template was used, %d were issued", issued())
	}
	_, withoutKey, _ := strings.Cut(first, "-----END EC PRIVATE KEY-----\n")
	w.write(t, "local/cert.pem", withoutKey)
	run(long, true)
	w.write(t, "local/cert.pem", "-----BEGIN CERTIFICATE-----\ngarbage\n-----END")
	run(long, true)
	if issued() != 4 {
		t.Errorf("%d were issued, with files without a key or a certificate", issued())
	}
	req := w.request(fmt.Sprintf(body, `"ttl=4s"`))
	req.Templates[0].Destination = filepath.Join(w.dir, "local/cert.pem")
	p := startVault(t, v.Addr(), vaultToken(v.Root()), req)
	p.until("it is renewed", func() bool { return len(p.contents[0]) >= 3 })
	p.stop()
}

// TestVaultRefused checks arguments and functions that are refused, and that no error has a value.
func TestVaultRefused(t *testing.T) {
	t.Parallel() // it mostly waits
	var calls atomic.Int32
	s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { calls.Add(1) }))
	t.Cleanup(s.Close)
	for text, want := range map[string]string{
		`{{ secret "a" (printf "s3%s" "cret") }}`:            "secret: an argument after the path is not a pair: want name=value",
		`{{ pkiCert "a" (printf "s3%s" "cret") }}`:           "pkiCert: an argument after the path is not a pair",
		`{{ secret "  / " }}`:                                "secret: malformed path",
		`{{ secret (printf "s3%s" "cret%zz") }}`:             "secret: malformed path",
		`{{ secret (printf "a\ns3%s" "cret") }}`:             "secret: malformed path",
		`{{ secret "../../sys/seal" }}`:                      "templates can only read, list and write at Vault",
		`{{ secret "auth/token/lookup-self" }}`:              "templates cannot look up, renew or revoke tokens",
		`{{ secret "auth/token/renew-self" "increment=1" }}`: "the client renews the token of the task itself",
		`{{ secret "sys/leases/revoke" "lease_id=x" }}`:      "templates cannot use paths below sys/ of Vault",
		`{{ range secrets "sys/mounts" }}{{ end }}`:          "templates cannot use paths below sys/ of Vault",
	} {
		req := newWorld(t).request(text)
		req.Vault = &render.Vault{Retry: render.Retry{Attempts: 1, Backoff: time.Millisecond}, DefaultLease: time.Minute}
		p := startVault(t, s.URL, vaultToken("of-the-task"), req)
		p.ended()
		if p.fatal == nil || !strings.Contains(p.fatal.Text, want) || strings.Contains(p.fatal.Text, "s3cret") {
			t.Errorf("%s: %+v, want %q", text, p.fatal, want)
		}
	}
	for _, name := range []string{"secret", "secrets", "pkiCert"} {
		req := newWorld(t).request(`{{ ` + name + ` "a" }}`)
		if f := failing(t, req); !strings.Contains(f.Text, name+": the function is refused: "+render.NoVaultClient) {
			t.Errorf("%s: %+v", name, f)
		}
		req.NoVault = render.NoVaultBlock
		if f := failing(t, req); !strings.Contains(f.Text, name+": the function is refused: the task has no vault block") {
			t.Errorf("%s: %+v", name, f)
		}
	}
}

// TestVaultAnswers checks answers that are not those of a Vault: they are errors of the read, and the program goes on.
func TestVaultAnswers(t *testing.T) {
	t.Parallel() // it mostly waits
	const mount = `{"data":{"path":"a/","type":"kv","options":{"version":"2"}}}`
	for name, c := range map[string]struct{ text, probe, answer string }{
		"garbage":         {`{{ secret "a/b" }}`, mount, "\x00\xff<html>s3cret"},
		"another type":    {`{{ secret "a/b" }}`, mount, `{"data":"s3cret"}`},
		"deep":            {`{{ secret "a/b" }}`, mount, `{"data":{"x":` + strings.Repeat("[", 1<<20)},
		"a huge number":   {`{{ secret "a/b" }}`, mount, `{"lease_duration":` + strings.Repeat("9", 5000) + `}`},
		"too large":       {`{{ secret "a/b" }}`, mount, `{"data":{"x":"` + strings.Repeat("s3cret", 1<<20) + `"}}`},
		"a wrong probe":   {`{{ secret "a/b" }}`, `{"data":{"path":1}}`, `{}`},
		"null options":    {`{{ secret "a/b" }}`, `{"data":{"path":"a/","options":{"version":2}}}`, `{}`},
		"numbers in keys": {`{{ range secrets "a/b" }}{{ end }}`, mount, `{"data":{"keys":[1]}}`},
		"no keys":         {`{{ range secrets "a/b" }}{{ end }}`, mount, `{"data":{"keys":"s3cret"}}`},
		"no certificate":  {`{{ pkiCert "a/issue/b" }}`, mount, `{"data":{"certificate":"s3cret"}}`},
		"half a block":    {`{{ pkiCert "a/issue/b" }}`, mount, `{"data":{"certificate":"-----BEGIN"}}`},
		"a write":         {`{{ secret "a/b" "x=1" }}`, `{}`, `{"data":{"certificate":"s3cret","expiration":"s3cret"}}`},
		"a rotation":      {`{{ secret "a/b" }}`, mount, `{"data":{"rotation_period":1,"ttl":0}}`},
	} {
		var reads atomic.Int32
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			answer := c.answer
			if strings.HasPrefix(r.URL.Path, "/v1/sys/") {
				answer = c.probe
			} else {
				reads.Add(1)
			}
			w.Write([]byte(answer)) //nolint:errcheck // the proxy may end it
		}))
		t.Cleanup(s.Close)
		req := newWorld(t).request(c.text)
		req.Vault = &render.Vault{Retry: render.Retry{Attempts: 2, Backoff: time.Millisecond}, DefaultLease: time.Minute}
		p := startVault(t, s.URL, vaultToken("x"), req)
		p.ended()
		if p.fatal == nil || strings.Contains(p.fatal.Text, "s3cret") || !strings.Contains(p.fatal.Text, "vault.") {
			t.Errorf("%s: %+v after %d reads, contents %v", name, p.fatal, reads.Load(), p.contents)
		}
	}
}

// TestVaultProbeFails checks that an engine whose version cannot be read is not taken for one without versions.
func TestVaultProbeFails(t *testing.T) {
	var broken atomic.Bool
	var raw atomic.Int32
	broken.Store(true)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		probe := strings.HasPrefix(r.URL.Path, "/v1/sys/")
		switch {
		case probe && broken.Load():
			w.WriteHeader(http.StatusNotImplemented) // is not repeated by the proxy
		case probe:
			w.Write([]byte(`{"data":{"path":"a/","type":"kv","options":{"version":"2"}}}`)) //nolint:errcheck // shown by the render
		case r.URL.Path == "/v1/a/metadata/b":
			w.Write([]byte(`{"data":{"keys":["x"]}}`)) //nolint:errcheck // shown by the render
		default:
			raw.Add(1)
			w.WriteHeader(http.StatusNotFound)
		}
	}))
	t.Cleanup(s.Close)
	p := startVault(t, s.URL, vaultToken("x"), newWorld(t).request(`{{ range secrets "a/b" }}{{ . }}{{ end }}`))
	p.until("the outage", func() bool { return len(p.outages) == 1 })
	p.mu.Lock()
	if len(p.contents) > 0 || p.outages[0].Text != "Vault returned status 501" {
		t.Errorf("contents %v, outages %+v", p.contents, p.outages)
	}
	p.mu.Unlock()
	broken.Store(false)
	p.rendersFirst("x")
	if raw.Load() > 0 {
		t.Errorf("%d requests used the path as it is written", raw.Load())
	}
}
