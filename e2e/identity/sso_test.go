package identity_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	sdk "github.com/hashicorp/nomad/api"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/e2e/cluster"
	"github.com/open-nomad/open-nomad/e2e/harness"
	"github.com/open-nomad/open-nomad/internal/testidp"
	"github.com/open-nomad/open-nomad/internal/testnet"
)

// loginAgent is an agent with ACLs, and an SDK client with a management token.
type loginAgent struct {
	*sdk.Client
	a *cluster.Agent
}

func newLoginAgent(t *testing.T) *loginAgent {
	t.Helper()
	dir := harness.TempDir(t)
	for _, d := range []string{dir, filepath.Dir(dir)} { // tasks pass through
		if err := os.Chmod(d, 0o711); err != nil {
			t.Fatal(err)
		}
	}
	cfg := filepath.Join(dir, "acl.hcl")
	harness.WriteFile(t, cfg, "acl {\n  enabled = true\n}\n"+harness.TestDrivers)
	a := harness.Start(t, cluster.Options{Dir: dir,
		Args: []string{"-server", "-client", "-bootstrap-expect=1", "-bind=127.0.0.1", "-data-dir=" + filepath.Join(dir, "data"),
			"-config=" + cfg}, Secret: "5d9a1f9c-5d8e-4b0e-9c7e-0f6f3a1c2b3d"})
	c, err := sdk.NewClient(&sdk.Config{Address: a.Address(), SecretID: a.Secret})
	if err != nil {
		t.Fatal(err)
	}
	d := &loginAgent{Client: c, a: a}
	for _, name := range []string{"readers", "deployers"} {
		if _, err := c.ACLPolicies().Upsert(&sdk.ACLPolicy{Name: name, Rules: `namespace "default" { policy = "read" }`}, nil); err != nil {
			t.Fatal(err)
		}
	}
	return d
}

// admit writes an auth method and a binding rule for it.
func (d *loginAgent) admit(t *testing.T, m *sdk.ACLAuthMethod, r *sdk.ACLBindingRule) {
	t.Helper()
	made, _, err := d.ACLAuthMethods().Create(m, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.AuthMethod = made.Name
	if _, _, err := d.ACLBindingRules().Create(r, nil); err != nil {
		t.Fatal(err)
	}
}

// nomad returns a command without a token.
func (d *loginAgent) nomad(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "nomad", args...)
	cmd.Env = append(slices.DeleteFunc(os.Environ(), func(v string) bool {
		return strings.HasPrefix(v, "DISPLAY=") || strings.HasPrefix(v, "WAYLAND_DISPLAY=")
	}),
		"NOMAD_ADDR="+d.a.Address(), "NOMAD_TOKEN=")
	return cmd
}

// loginToken decodes the output of login -json.
func loginToken(t *testing.T, out []byte) *api.ACLToken {
	t.Helper()
	var token api.ACLToken
	if err := json.Unmarshal(out, &token); err != nil {
		t.Fatalf("login prints %q: %v", out, err)
	}
	return &token
}

func TestLoginOfMachines(t *testing.T) {
	d, p := newLoginAgent(t), testidp.New(t)
	d.admit(t, &sdk.ACLAuthMethod{Name: "ci", Type: sdk.ACLAuthMethodTypeJWT, TokenLocality: sdk.ACLAuthMethodTokenLocalityLocal,
		MaxTokenTTL: time.Hour, Default: true,
		Config: &sdk.ACLAuthMethodConfig{JWKSURL: p.URL + "/keys", JWKSCACert: p.CA, BoundAudiences: []string{"nomad"},
			ClockSkewLeeway: time.Second, ClaimMappings: map[string]string{"repo": "repo"}}},
		&sdk.ACLBindingRule{BindType: sdk.ACLBindingRuleBindTypePolicy, BindName: "${value.repo}", Selector: `value.repo != "x"`})
	token := p.Token(map[string]any{"aud": "nomad", "repo": "deployers", "exp": time.Now().Add(time.Minute).Unix()})

	got, _, err := d.ACLAuth().Login(&sdk.ACLLoginRequest{AuthMethodName: "ci", LoginToken: token}, nil)
	if err != nil || got.ExpirationTTL != time.Hour || fmt.Sprint(got.Policies) != "[deployers]" {
		t.Fatalf("through the SDK: %+v, %v", got, err)
	}

	login := d.nomad(t.Context(), "login", "-json", "-login-token", "-")
	login.Stdin = strings.NewReader(token + "\n")
	out, err := login.Output()
	if err != nil {
		t.Fatalf("nomad login: %v\n%s", err, loginStderr(err))
	}
	secret := loginToken(t, out).SecretID
	self := d.nomad(t.Context(), "acl", "token", "self")
	self.Env = append(self.Env, "NOMAD_TOKEN="+secret)
	if out, err := self.CombinedOutput(); err != nil || !strings.Contains(string(out), "JWT-ci") {
		t.Errorf("nomad acl token self: %v\n%s", err, out)
	}

	bad := p.Token(map[string]any{"aud": "vault", "repo": "deployers", "exp": time.Now().Add(time.Minute).Unix()})
	for _, args := range [][]string{{"-login-token", bad}, {"-method", "none", "-login-token", token}, {"-type", "OIDC"}, {}} {
		out, err := d.nomad(t.Context(), append([]string{"login"}, args...)...).CombinedOutput()
		if code := loginExit(err); code != 1 || strings.Contains(string(out), bad) {
			t.Errorf("nomad login %.40q exits with %d: %s", args, code, out)
		}
	}
}

func loginStderr(err error) []byte {
	if e, ok := err.(*exec.ExitError); ok {
		return e.Stderr
	}
	return nil
}

func loginExit(err error) int {
	if e, ok := err.(*exec.ExitError); ok {
		return e.ExitCode()
	}
	return -1
}

// Tasks of a cluster log in with their identities, without a configured secret.
func TestLoginWithAWorkloadIdentity(t *testing.T) {
	d := newLoginAgent(t)
	t.Cleanup(func() { harness.PurgeAll(t, d.a) })
	d.admit(t, &sdk.ACLAuthMethod{Name: "here", Type: "JWT", TokenLocality: "local", MaxTokenTTL: time.Minute,
		Config: &sdk.ACLAuthMethodConfig{
			JWKSURL: d.a.Address() + "/.well-known/jwks.json", SigningAlgs: []string{"EdDSA", "RS256"},
			BoundAudiences: []string{"nomad.example.com"},
			ClaimMappings:  map[string]string{"nomad_job_id": "job", "nomad_namespace": "namespace"}}},
		&sdk.ACLBindingRule{BindType: "policy", BindName: "deployers", Selector: `value.namespace == "default" and value.job == "deployer"`})
	ids := []*api.WorkloadIdentity{{Name: "deploy", Audience: []string{"nomad.example.com"}, File: true, TTL: time.Hour},
		{Name: "rsa", Audience: []string{"nomad.example.com"}, Alg: "RS256", File: true, TTL: time.Hour},
		{Name: "other", Audience: []string{"elsewhere"}, File: true, TTL: time.Hour}}
	al := harness.Register(t, d.a, rawTask("deployer", ids, "/bin/sleep", "600"), "running")
	evil := harness.Register(t, d.a, rawTask("deployer-evil", ids, "/bin/sleep", "600"), "running")
	for name, tt := range map[string]struct {
		al   *api.AllocationListStub
		good bool
	}{"deploy": {al, true}, "rsa": {al, true}, "other": {al, false}, "deploy ": {evil, false}} {
		token := harness.Content(t, filepath.Join(secretsOf(d.a, tt.al), "nomad_"+strings.TrimSpace(name)+".jwt"))
		got, _, err := d.ACLAuth().Login(&sdk.ACLLoginRequest{AuthMethodName: "here", LoginToken: token}, nil)
		if (err == nil) != tt.good || tt.good && fmt.Sprint(got.Policies) != "[deployers]" {
			t.Errorf("identity %q of %s: %v, %v", name, tt.al.JobID, got, err)
		}
	}
}

// loginPerson is a user with a browser.
type loginPerson struct{ *http.Client }

func newLoginPerson(p *testidp.Provider) loginPerson {
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM([]byte(p.CA))
	return loginPerson{&http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}, DisableKeepAlives: true}}}
}

func (b loginPerson) open(t *testing.T, at string) (status int, page string) {
	t.Helper()
	resp, err := b.Get(at)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(text)
}

// admitPeople writes an auth method for browsers that return to addr.
func (d *loginAgent) admitPeople(t *testing.T, p *testidp.Provider, addr string) {
	t.Helper()
	p.User = map[string]any{"sub": "alice", "groups": []string{"ops"}}
	d.admit(t, &sdk.ACLAuthMethod{Name: "people", Type: sdk.ACLAuthMethodTypeOIDC, TokenLocality: "global", MaxTokenTTL: time.Hour,
		Default: true, TokenNameFormat: "${value.who}",
		Config: &sdk.ACLAuthMethodConfig{OIDCDiscoveryURL: p.URL, DiscoveryCaPem: []string{p.CA}, OIDCClientID: p.ClientID,
			OIDCClientSecret: p.Secret, OIDCEnablePKCE: true,
			AllowedRedirectURIs: []string{"http://" + addr + "/oidc/callback"}, ClaimMappings: map[string]string{"sub": "who"},
			ListClaimMappings: map[string]string{"groups": "groups"}}},
		&sdk.ACLBindingRule{BindType: "policy", BindName: "readers", Selector: `"ops" in list.groups`})
}

var loginPage = regexp.MustCompile(`https://\S+`)

// loginURL reads until the URL that login prints.
func loginURL(t *testing.T, r io.Reader) *url.URL {
	t.Helper()
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		if found := loginPage.FindString(lines.Text()); found != "" {
			u, err := url.Parse(found)
			if err != nil {
				t.Fatal(err)
			}
			go io.Copy(io.Discard, r) // it ends with the command
			return u
		}
	}
	t.Fatalf("login prints no URL: %v", lines.Err())
	return nil
}

func TestLoginOfPeople(t *testing.T) {
	d, p := newLoginAgent(t), testidp.New(t)
	addr := testnet.Take(t).Addr(4649)
	d.admitPeople(t, p, addr)
	b := newLoginPerson(p)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	login := d.nomad(ctx, "login", "-json", "-oidc-callback-addr", addr)
	said, err := login.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	login.Stdout = &out
	if err := login.Start(); err != nil {
		t.Fatal(err)
	}
	at := loginURL(t, said)
	for _, q := range []string{"state=other&code=x", "code=x", "state=&error=access_denied", ""} { // requests of other pages
		if code, _ := b.open(t, "http://"+addr+"/oidc/callback?"+q); code != http.StatusBadRequest {
			t.Errorf("a return with %q is answered with %d", q, code)
		}
	}
	if code, page := b.open(t, at.String()); code != http.StatusOK || !strings.Contains(page, "Login successful") {
		t.Errorf("the browser sees %d %q", code, page)
	}
	if err := login.Wait(); err != nil {
		t.Fatalf("nomad login: %v", err)
	}
	token := loginToken(t, out.Bytes())
	if token.Name != "alice" || !token.Global || fmt.Sprint(token.Policies) != "[readers]" {
		t.Errorf("token %+v", token)
	}
	d.SetSecretID(token.SecretID)
	if _, _, err := d.Jobs().List(nil); err != nil {
		t.Errorf("the token reads no jobs: %v", err)
	}
	if _, _, err := d.ACLTokens().List(nil); err == nil {
		t.Error("the token lists tokens")
	}
}

// On a machine without a browser the user pastes the redirect URL of another machine's browser.
func TestLoginWithoutABrowser(t *testing.T) {
	d, p := newLoginAgent(t), testidp.New(t)
	addr := testnet.Take(t).Addr(4649) // no listener there
	d.admitPeople(t, p, addr)
	b := newLoginPerson(p)
	b.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	for name, tt := range map[string]struct {
		paste func(back *url.URL) string
		good  bool
	}{
		"URL":           {func(back *url.URL) string { return back.String() }, true},
		"code":          {func(back *url.URL) string { return back.Query().Get("code") }, true},
		"another state": {func(back *url.URL) string { return strings.Replace(back.String(), "state=", "state=x", 1) }, false},
		"an error": {func(back *url.URL) string {
			return back.Scheme + "://x/?error=access_denied&state=" + back.Query().Get("state")
		}, false},
		"something else": {func(*url.URL) string { return "yes" }, false},
		"nothing":        {func(*url.URL) string { return "" }, false},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			login := d.nomad(ctx, "login", "-no-browser", "-oidc-callback-addr", addr, "-t", "{{ .Name }} {{ .SecretID }}")
			said, err := login.StderrPipe()
			if err != nil {
				t.Fatal(err)
			}
			in, err := login.StdinPipe()
			if err != nil {
				t.Fatal(err)
			}
			var out bytes.Buffer
			login.Stdout = &out
			if err := login.Start(); err != nil {
				t.Fatal(err)
			}
			resp, err := b.Get(loginURL(t, said).String())
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			back, err := resp.Location()
			if err != nil {
				t.Fatal(err)
			}
			fmt.Fprintln(in, tt.paste(back))
			in.Close()
			err = login.Wait()
			if (err == nil) != tt.good || tt.good != strings.HasPrefix(out.String(), "alice ") {
				t.Errorf("nomad login: %v, prints %q", err, out.String())
			}
		})
	}
}
