package testvault_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/vault/api"

	"github.com/open-nomad/open-nomad/internal/testidp"
	"github.com/open-nomad/open-nomad/internal/testvault"
)

// client returns Vault's own client, which does not retry.
func client(t *testing.T, v *testvault.Vault, token string) *api.Client {
	t.Helper()
	c, err := api.NewClient(&api.Config{Address: v.Addr()})
	must(t, err)
	c.ClearToken()
	if token != "" {
		c.SetToken(token)
	}
	return c
}

// must fails the test on an error.
func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// refused reports an error that is not the status and text that Vault answers.
func refused(t *testing.T, what string, err error, status int, text string) {
	t.Helper()
	var got *api.ResponseError
	if !errors.As(err, &got) || got.StatusCode != status || !strings.Contains(strings.Join(got.Errors, "; "), text) {
		t.Errorf("%s: error = %v, want status %d and %q", what, err, status, text)
	}
}

// workloads configures logins of workloads as "setup vault" does, with changes to the role, and returns who signs them.
func workloads(t *testing.T, v *testvault.Vault, change map[string]any) *testidp.Provider {
	t.Helper()
	idp := testidp.New(t)
	c := client(t, v, v.Root())
	must(t, c.Sys().EnableAuthWithOptions("jwt-nomad", &api.EnableAuthOptions{Type: "jwt"}))
	write(t, c, "auth/jwt-nomad/config", map[string]any{"jwks_url": idp.URL + "/keys", "jwks_ca_pem": idp.CA,
		"jwt_supported_algs": []string{"EdDSA", "RS256"}, "default_role": "nomad-workloads"})
	methods, err := c.Logical().Read("sys/auth/jwt-nomad")
	must(t, err)
	alias := fmt.Sprintf("{{identity.entity.aliases.%s.metadata.", methods.Data["accessor"])
	must(t, c.Sys().PutPolicy("nomad-workloads", fmt.Sprintf(`
path "secret/data/%[1]snomad_namespace}}/%[1]snomad_job_id}}/*" { capabilities = ["read"] }
path "secret/data/%[1]snomad_namespace}}/%[1]snomad_job_id}}" { capabilities = ["read"] }
path "secret/metadata/*" { capabilities = ["list"] }
path "kv/app" { capabilities = ["read", "update"] }
path "pki/issue/+" { capabilities = ["update"] }
path "database/creds/*" { capabilities = ["read"] }`, alias)))
	role := map[string]any{"role_type": "jwt", "bound_audiences": "vault.io", "user_claim": "/nomad_job_id",
		"user_claim_json_pointer": true, "token_type": "service", "token_period": "30m", "token_policies": []string{"nomad-workloads"},
		"claim_mappings": map[string]string{"nomad_namespace": "nomad_namespace", "nomad_job_id": "nomad_job_id", "nomad_task": "nomad_task"}}
	for k, value := range change {
		role[k] = value
	}
	write(t, c, "auth/jwt-nomad/role/nomad-workloads", role)
	return idp
}

func write(t *testing.T, c *api.Client, path string, data map[string]any) *api.Secret {
	t.Helper()
	s, err := c.Logical().Write(path, data)
	must(t, err)
	return s
}

// claims are those of a task, with changes.
func claims(change map[string]any) map[string]any {
	out := map[string]any{"aud": "vault.io", "sub": "global:default:web:g:t:vault_default", "exp": time.Now().Add(time.Hour).Unix(),
		"nomad_namespace": "default", "nomad_job_id": "web", "nomad_task": "t", "extra_claims": map[string]any{"unit": "a"}}
	for k, v := range change {
		out[k] = v
	}
	return out
}

// login logs in with a JWT.
func login(t *testing.T, v *testvault.Vault, jwt, role string) (*api.Secret, error) {
	t.Helper()
	return client(t, v, "").Logical().Write("auth/jwt-nomad/login", map[string]any{"jwt": jwt, "role": role})
}

// TestLogin checks a token from its login to its revocation.
func TestLogin(t *testing.T) {
	v := testvault.Start(t, testvault.Config{})
	idp := workloads(t, v, map[string]any{"bound_claims": map[string]any{"/extra_claims/unit": []string{"b", "a"}}})
	s, err := login(t, v, idp.Token(claims(nil)), "")
	must(t, err)
	if s.Auth == nil || s.Auth.LeaseDuration != 1800 || !s.Auth.Renewable || s.Auth.Metadata["nomad_job_id"] != "web" {
		t.Fatalf("auth = %+v", s.Auth)
	}
	c := client(t, v, s.Auth.ClientToken)
	v.Advance(20 * time.Minute)
	self, err := c.Auth().Token().LookupSelf()
	must(t, err)
	if ttl, _ := self.TokenTTL(); ttl != 10*time.Minute {
		t.Errorf("ttl = %s", ttl)
	}
	renewed, err := c.Auth().Token().RenewSelf(0)
	if must(t, err); renewed.Auth.LeaseDuration != 1800 {
		t.Errorf("renewed for %d s", renewed.Auth.LeaseDuration)
	}
	must(t, c.Auth().Token().RevokeSelf(""))
	if left := v.Tokens(); len(left) > 0 {
		t.Errorf("%d tokens remain", len(left))
	}
	v.Expect("unknown token")
	_, err = c.Auth().Token().LookupSelf()
	refused(t, "revoked", err, 403, "permission denied")
	second, err := login(t, v, idp.Token(claims(nil)), "nomad-workloads")
	must(t, err)
	v.Advance(31 * time.Minute)
	_, err = client(t, v, second.Auth.ClientToken).Auth().Token().RenewSelf(0)
	refused(t, "expired", err, 403, "permission denied")
}

// TestLogin_Refused checks that no JWT but a correct one gets a token, and that no fault has the JWT.
func TestLogin_Refused(t *testing.T) {
	v := testvault.Start(t, testvault.Config{})
	idp, other := workloads(t, v, map[string]any{"bound_claims": map[string]any{"nomad_namespace": "default"}}), testidp.New(t)
	good := idp.Token(claims(nil))
	for name, c := range map[string]struct{ jwt, role, want string }{
		"audience":  {idp.Token(claims(map[string]any{"aud": "consul.io"})), "", "invalid audience (aud) claim"},
		"expired":   {idp.Token(claims(map[string]any{"exp": time.Now().Add(-time.Minute).Unix()})), "", "expired"},
		"other key": {other.Token(claims(nil)), "", "no known key"},
		"claim":     {idp.Token(claims(map[string]any{"nomad_namespace": "prod"})), "", `claim "nomad_namespace" does not match`},
		"no claim":  {idp.Token(claims(map[string]any{"nomad_task": nil})), "", `claim "nomad_task" not found`},
		"role":      {good, "other", `role "other" could not be found`},
		"malformed": {good[1:], "", "error validating token"},
		"cut":       {good[:len(good)-9], "", "error validating token"},
	} {
		before := len(v.Faults())
		_, err := login(t, v, c.jwt, c.role)
		refused(t, name, err, 400, c.want)
		faults := v.Faults()[before:]
		if len(faults) != 1 || strings.Contains(faults[0], c.jwt) {
			t.Errorf("%s: faults = %q", name, faults)
		}
	}
	v.Expect("/login: ")
	if got := v.Tokens(); len(got) > 0 {
		t.Errorf("%d tokens", len(got))
	}
}

// TestPolicy checks that a token reads the secrets of its own job only, and that other calls are faults.
func TestPolicy(t *testing.T) {
	v := testvault.Start(t, testvault.Config{})
	idp := workloads(t, v, nil)
	root := client(t, v, v.Root())
	for _, job := range []string{"web", "api"} {
		write(t, root, "secret/data/default/"+job+"/db", map[string]any{"data": map[string]any{"k": job}})
	}
	s, err := login(t, v, idp.Token(claims(nil)), "")
	must(t, err)
	c := client(t, v, s.Auth.ClientToken)
	kv, err := c.KVv2("secret").Get(t.Context(), "default/web/db")
	if must(t, err); kv.Data["k"] != "web" {
		t.Errorf("data = %v", kv.Data)
	}
	v.Expect("permission denied")
	v.Expect("missing client token")
	_, err = c.KVv2("secret").Get(t.Context(), "default/api/db")
	refused(t, "another job", err, 403, "permission denied")
	_, err = c.Logical().Write("secret/data/default/web/db", map[string]any{"data": map[string]any{}})
	refused(t, "write", err, 403, "permission denied")
	_, err = c.Logical().Read("sys/auth/jwt-nomad")
	refused(t, "system", err, 403, "permission denied")
	_, err = client(t, v, "").Logical().Read("kv/app")
	refused(t, "no token", err, 403, "permission denied")
	for _, f := range v.Faults() {
		if strings.Contains(f, s.Auth.ClientToken) {
			t.Errorf("fault %q has a token", f)
		}
	}
}

// TestStrict checks the calls that are faults.
func TestStrict(t *testing.T) {
	v := testvault.Start(t, testvault.Config{Namespace: "team"})
	root := client(t, v, v.Root())
	root.SetNamespace("team")
	for name, call := range map[string]func() error{
		"unexpected call": func() error { _, err := root.Logical().Read("sys/unknown"); return err },
		"no/mount":        func() error { _, err := root.Logical().Read("no/mount"); return err },
		"unknown field": func() error {
			_, err := root.Logical().Write("auth/token/create", map[string]any{"x": 1})
			return err
		},
		"a token where none belongs": func() error { _, err := root.Sys().SealStatus(); return err },
		`namespace ""`:               func() error { _, err := client(t, v, v.Root()).Logical().Read("kv/app"); return err },
	} {
		before := len(v.Faults())
		_ = call() // the library has no error for status 404
		if faults := v.Faults()[before:]; len(faults) != 1 || !strings.Contains(faults[0], name) {
			t.Errorf("%s: faults = %q", name, faults)
		}
		v.Expect(name)
	}
}

// TestBatch checks that batch tokens end, whatever their owner does.
func TestBatch(t *testing.T) {
	v := testvault.Start(t, testvault.Config{})
	idp := workloads(t, v, map[string]any{"token_type": "batch", "token_period": 0, "token_ttl": "1m"})
	s, err := login(t, v, idp.Token(claims(nil)), "")
	must(t, err)
	if s.Auth.Renewable || s.Auth.LeaseDuration != 60 || s.Auth.Accessor != "" {
		t.Errorf("auth = %+v", s.Auth)
	}
	v.Expect("batch tokens cannot be")
	c := client(t, v, s.Auth.ClientToken)
	_, err = c.Auth().Token().RenewSelf(0)
	refused(t, "renewal", err, 400, "cannot be renewed")
	refused(t, "revocation", c.Auth().Token().RevokeSelf(""), 400, "cannot be revoked")
	v.Advance(time.Minute)
	if left := v.Tokens(); len(left) > 0 {
		t.Errorf("%d tokens remain", len(left))
	}
}

// TestLeases checks leases until they end: by time, at their limit, and with their token.
func TestLeases(t *testing.T) {
	v := testvault.Start(t, testvault.Config{})
	v.Dynamic("database/creds/app", testvault.Dynamic{TTL: time.Minute, Max: 90 * time.Second, Renewable: true})
	v.Dynamic("database/creds/fixed", testvault.Dynamic{TTL: time.Hour})
	root := client(t, v, v.Root())
	app, err := root.Logical().Read("database/creds/app")
	must(t, err)
	v.Advance(50 * time.Second)
	renewed, err := root.Sys().Renew(app.LeaseID, 0)
	if must(t, err); !app.Renewable || app.LeaseDuration != 60 || renewed.LeaseDuration != 40 {
		t.Errorf("lease %d s, then %d s", app.LeaseDuration, renewed.LeaseDuration)
	}
	fixed, err := root.Logical().Read("database/creds/fixed")
	must(t, err)
	v.Expect("lease is not renewable")
	v.Expect("lease not found")
	_, err = root.Sys().Renew(fixed.LeaseID, 0)
	refused(t, "fixed", err, 400, "lease is not renewable")
	v.Advance(40 * time.Second)
	_, err = root.Sys().Renew(app.LeaseID, 0)
	refused(t, "ended", err, 400, "lease not found")
	must(t, root.Sys().PutPolicy("db", `path "database/creds/*" { capabilities = ["read"] }`))
	child, err := root.Auth().Token().Create(&api.TokenCreateRequest{Policies: []string{"db"}, TTL: "10m"})
	must(t, err)
	c := client(t, v, child.Auth.ClientToken)
	_, err = c.Logical().Read("database/creds/fixed")
	if must(t, err); len(v.Leases()) != 2 {
		t.Errorf("leases = %q", v.Leases())
	}
	must(t, c.Auth().Token().RevokeSelf(""))
	if got := v.Leases(); len(got) != 1 || got[0] != fixed.LeaseID {
		t.Errorf("leases = %q, want %q", got, fixed.LeaseID)
	}
}

// TestSeal checks what a sealed Vault answers.
func TestSeal(t *testing.T) {
	v := testvault.Start(t, testvault.Config{})
	root, anonymous := client(t, v, v.Root()), client(t, v, "")
	v.Seal()
	_, err := root.Logical().Read("kv/app")
	refused(t, "read", err, 503, "Vault is sealed")
	status, err := anonymous.Sys().SealStatus()
	if must(t, err); !status.Sealed || status.ClusterID != "" || status.Version != "1.21.1" {
		t.Errorf("status = %+v", status)
	}
	health, err := anonymous.Sys().Health()
	if must(t, err); !health.Sealed {
		t.Errorf("health = %+v", health)
	}
	v.Unseal()
	status, err = anonymous.Sys().SealStatus()
	if must(t, err); status.Sealed || status.ClusterID == "" {
		t.Errorf("status = %+v", status)
	}
	if s, err := root.Logical().Read("kv/app"); s != nil || err != nil {
		t.Errorf("Read() = %v, %v", s, err)
	}
	must(t, root.Sys().Seal())
	if status, err = anonymous.Sys().SealStatus(); err != nil || !status.Sealed {
		t.Errorf("after sys/seal: %+v, %v", status, err)
	}
}

// TestModes checks the ways in which requests fail.
func TestModes(t *testing.T) {
	v := testvault.Start(t, testvault.Config{})
	root := client(t, v, v.Root())
	write(t, root, "kv/app", map[string]any{"k": "v"})
	read := func() error {
		_, err := root.Logical().Read("kv/app")
		return err
	}
	for _, status := range []int{429, 500, 502} {
		must(t, v.Set(testvault.Mode{Status: status}))
		refused(t, http.StatusText(status), read(), status, "")
	}
	must(t, v.Set(testvault.Mode{Refuse: true}))
	if read() == nil {
		t.Error("refused: no error")
	}
	must(t, v.Set(testvault.Mode{}))
	must(t, read())
	must(t, v.Restart())
	must(t, read())
	for _, m := range []testvault.Mode{{Hang: true}, {Slow: time.Hour}} {
		must(t, v.Set(m))
		root.SetClientTimeout(50 * time.Millisecond)
		if err := read(); err == nil || !strings.Contains(err.Error(), "deadline exceeded") {
			t.Errorf("%+v: %v", m, err)
		}
	}
	root.SetClientTimeout(time.Minute)
	must(t, v.Set(testvault.Mode{Hang: true}))
	done := make(chan error, 1)
	go func() { done <- read() }()
	must(t, v.Set(testvault.Mode{}))
	must(t, <-done)
	if got := v.Calls("GET /v1/kv/app"); got != 8 {
		t.Errorf("calls = %d, want 8", got)
	}
}
