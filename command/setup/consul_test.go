package setup

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/hashicorp/consul/api"

	"github.com/open-nomad/open-nomad/command/term"
	"github.com/open-nomad/open-nomad/internal/testconsul"
	"github.com/open-nomad/open-nomad/internal/testidp"
)

// started returns a stand-in of Consul with ACLs. The environment names it and a token with rules, "" for all rights.
func started(t *testing.T, rules string) *testconsul.Agent {
	t.Helper()
	a := testconsul.Start(t, testconsul.Config{ACL: true, Manual: true})
	token := a.Management()
	if rules != "" {
		token = a.NewToken(t, rules)
	}
	t.Setenv("CONSUL_HTTP_ADDR", a.Addr())
	t.Setenv("CONSUL_HTTP_TOKEN", token)
	return a
}

// command runs "setup consul" with flags, without a terminal.
func command(flags ...string) (code int, out, errs string) {
	var o, e strings.Builder
	code = Commands()[0].Adapt(strings.NewReader(""), &o, &e).Run(flags)
	return code, o.String(), e.String()
}

// marks returns the lines of an output about objects.
func marks(out string) []string {
	return slices.DeleteFunc(strings.Split(out, "\n"), func(line string) bool { return !strings.HasPrefix(line, "[") })
}

// TestCreate checks the calls, their order, the output of a second run, and -destroy.
func TestCreate(t *testing.T) {
	a := started(t, "")
	names := []string{`uth method "nomad-workloads"`, `inding rule for service "${value.nomad_service}"`,
		`inding rule for role "nomad-${value.nomad_namespace}-tasks"`, `olicy "policy-nomad-tasks"`, `ole "nomad-default-tasks"`}
	want := func(before, after string, letters ...string) (lines []string) {
		for i, n := range names {
			lines = append(lines, before+letters[i]+n+after)
		}
		return lines
	}
	small, large := []string{"a", "b", "b", "p", "r"}, []string{"A", "B", "B", "P", "R"}
	deleted := want("[✔] Deleted ", ".", small...)
	slices.Reverse(deleted)
	for _, run := range []struct {
		flags string
		lines []string
	}{
		{"", want("[✔] Created ", ".", small...)},
		{"", want("[✔] ", " already exists.", large...)},
		{"-destroy", deleted},
		{"-destroy", nil},
		{"", want("[✔] Created ", ".", small...)},
	} {
		flags := append(strings.Fields(run.flags), "-y")
		code, out, errs := command(flags...)
		if code != 0 || errs != "" || !slices.Equal(marks(out), run.lines) {
			t.Fatalf("%q: exit code %d, %q\n%s\nwant\n%s", flags, code, errs, out, strings.Join(run.lines, "\n"))
		}
		if nothing := strings.Contains(out, "Nothing to delete."); nothing != (run.lines == nil) {
			t.Errorf("%q: %s", flags, out)
		}
		if config := strings.Contains(out, "service_identity {"); config != (run.flags == "") {
			t.Errorf("%q: %s", flags, out)
		}
	}
	acl := adminOf(t, a)
	method, _, err := acl.AuthMethodRead(consulMethodName, nil)
	if err != nil || method.Type != "jwt" || method.TokenLocality != "local" {
		t.Fatalf("AuthMethodRead() = %+v, %v", method, err)
	}
	text, err := json.Marshal(method.Config)
	if err != nil {
		t.Fatal(err)
	}
	const config = `{"BoundAudiences":["consul.io"],"ClaimMappings":{"consul_namespace":"consul_namespace","nomad_job_id":"nomad_job_id",` +
		`"nomad_namespace":"nomad_namespace","nomad_service":"nomad_service","nomad_task":"nomad_task"},` +
		`"JWKSURL":"http://localhost:4646/.well-known/jwks.json","JWTSupportedAlgs":["RS256","EdDSA"]}`
	if string(text) != config {
		t.Errorf("the auth method has\n%s, want\n%s", text, config)
	}
}

// TestCreate_Completes checks that a run after a failure creates only what is missing, and that a method with other keys
// is reported and not changed.
func TestCreate_Completes(t *testing.T) {
	a := started(t, "")
	if code, _, errs := command("-y"); code != 0 {
		t.Fatal(errs)
	}
	acl := adminOf(t, a)
	role, _, err := acl.RoleReadByName(consulRoleName, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := acl.RoleDelete(role.ID, nil); err != nil {
		t.Fatal(err)
	}
	code, out, errs := command("-y", "-jwks-url=http://127.0.0.2/keys")
	if got := marks(out); code != 0 || len(got) != 5 || got[3] != `[✔] Policy "policy-nomad-tasks" already exists.` ||
		got[4] != `[✔] Created role "nomad-default-tasks".` {
		t.Errorf("exit code %d, %s", code, out)
	}
	if !strings.Contains(errs, "reads the keys from http://localhost:4646/.well-known/jwks.json, not from -jwks-url") {
		t.Errorf("errors: %q", errs)
	}
}

// TestCreate_Algorithms checks the warning about an auth method of Nomad, which accepts one algorithm.
func TestCreate_Algorithms(t *testing.T) {
	for _, algs := range [][]string{{"RS256"}, nil} {
		a := started(t, "")
		config := map[string]any{"JWKSURL": "http://localhost:4646/.well-known/jwks.json"}
		if algs != nil {
			config["JWTSupportedAlgs"] = algs
		}
		if _, _, err := adminOf(t, a).AuthMethodCreate(&api.ACLAuthMethod{Name: consulMethodName, Type: "jwt", Config: config}, nil); err != nil {
			t.Fatal(err)
		}
		const want = "Warning: the auth method does not accept EdDSA: add it to JWTSupportedAlgs for identities with this signature.\n"
		if code, _, errs := command("-y"); code != 0 || errs != want {
			t.Errorf("%q: exit code %d, %q, want %q", algs, code, errs, want)
		}
	}
}

func adminOf(t *testing.T, a *testconsul.Agent) *api.ACL {
	t.Helper()
	c, err := api.NewClient(&api.Config{Address: a.Addr(), Token: a.Management()})
	if err != nil {
		t.Fatal(err)
	}
	return c.ACL()
}

// TestLogin checks that the objects let workloads log in: the token of a service can register it, the token of a task can
// read keys, with signatures of both algorithms.
func TestLogin(t *testing.T) {
	a := started(t, "")
	url, ca, sign := keyring(t)
	file := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(file, []byte(ca), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, _, errs := command("-y", "-jwks-url="+url, "-jwks-ca-file="+file); code != 0 {
		t.Fatal(errs)
	}
	a.PutKey("app/color", "blue")
	for _, alg := range []jose.SignatureAlgorithm{jose.RS256, jose.EdDSA} {
		service := login(t, a, sign(alg, map[string]any{"nomad_service": "web"}))
		if err := service.Agent().ServiceRegister(&api.AgentServiceRegistration{ID: "web", Name: "web", Port: 80}); err != nil {
			t.Errorf("%s: register with the token of a service: %v", alg, err)
		}
		task := login(t, a, sign(alg, map[string]any{"nomad_task": "server"}))
		if pair, _, err := task.KV().Get("app/color", nil); err != nil || pair == nil {
			t.Errorf("%s: read a key with the token of a task: %v, %v", alg, pair, err)
		}
	}
	a.Expect("Permission denied")
	task := login(t, a, sign(jose.RS256, map[string]any{"nomad_task": "server"}))
	if err := task.Agent().ServiceRegister(&api.AgentServiceRegistration{Name: "web"}); err == nil {
		t.Error("a task can register a service")
	}
	if _, err := task.KV().Put(&api.KVPair{Key: "app/color"}, nil); err == nil {
		t.Error("a task can write a key")
	}
}

// keyring serves public keys for both algorithms, and returns a function that signs claims, by default for Consul.
func keyring(t *testing.T) (url, ca string, sign func(jose.SignatureAlgorithm, map[string]any) string) {
	t.Helper()
	idp := testidp.New(t)
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	rsaKey, rsaID := idp.Key()
	idp.Keys = func(w http.ResponseWriter, _ *http.Request) {
		keys := jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: public, KeyID: "ed", Algorithm: "EdDSA", Use: "sig"},
			{Key: rsaKey.Public().(*rsa.PublicKey), KeyID: rsaID, Algorithm: "RS256", Use: "sig"}}}
		if err := json.NewEncoder(w).Encode(keys); err != nil {
			t.Error(err)
		}
	}
	return idp.URL + "/keys", idp.CA, func(alg jose.SignatureAlgorithm, claims map[string]any) string {
		all := map[string]any{"aud": consulAudience, "exp": time.Now().Add(time.Hour).Unix(), "nomad_namespace": "default", "nomad_job_id": "web"}
		maps.Copy(all, claims)
		if alg == jose.EdDSA {
			return testidp.Sign(alg, private, map[string]any{"kid": "ed"}, all)
		}
		return testidp.Sign(alg, rsaKey, map[string]any{"kid": rsaID}, all)
	}
}

// login returns a client with the token of a login.
func login(t *testing.T, a *testconsul.Agent, jwt string) *api.Client {
	t.Helper()
	token, _, err := adminOf(t, a).Login(&api.ACLLoginParams{AuthMethod: consulMethodName, BearerToken: jwt}, nil)
	if err != nil {
		t.Fatal(err)
	}
	c, err := api.NewClient(&api.Config{Address: a.Addr(), Token: token.SecretID})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestQuestions checks the answers at a terminal, and that nothing changes after a no.
func TestQuestions(t *testing.T) {
	a := started(t, "")
	for _, step := range []struct {
		destroy       bool
		answer, shown string
		objects       int
	}{
		{false, "n\n", "Create them? [y/N] Nothing changed.", 0},
		{false, "\n", "These objects will be created in Consul:\n  * auth method", 0},
		{false, "y\n", `[✔] Created role "nomad-default-tasks".`, 5},
		{false, "", `[✔] Role "nomad-default-tasks" already exists.`, 5}, // no question
		{true, "n\n", "the tokens of all workloads end:\n  * role", 5},
		{true, "yes\n", "[✔] Deleted auth method", 0},
		{true, "", "Nothing to delete.", 0},
	} {
		var out, errs strings.Builder
		run := term.Command{Name: "setup consul", Setup: func(*term.Flags) term.Run {
			return func(ctx context.Context, e *term.Env) error {
				return setupConsul(ctx, e, &options{url: "http://localhost/keys", destroy: step.destroy, terminal: true})
			}
		}}
		if code := run.Adapt(strings.NewReader(step.answer), &out, &errs).Run(nil); code != 0 || !strings.Contains(out.String(), step.shown) {
			t.Errorf("answer %q: exit code %d\n%s%s, want %q", step.answer, code, out.String(), errs.String(), step.shown)
		}
		if got := count(t, a); got != step.objects {
			t.Errorf("answer %q: %d objects, want %d", step.answer, got, step.objects)
		}
	}
}

// count returns the number of objects in Consul.
func count(t *testing.T, a *testconsul.Agent) (n int) {
	t.Helper()
	for _, o := range consulObjects(&options{}, adminOf(t, a)) {
		e, err := o.find(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if e != nil {
			n++
		}
	}
	return n
}

// TestFailures checks errors, their remedies, and that none contains a token or the body of an answer.
func TestFailures(t *testing.T) {
	bad := filepath.Join(t.TempDir(), "bad.pem")
	if err := os.WriteFile(bad, []byte("no certificate"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		flags, want string
	}{
		"no terminal": {"", "This command requires -y option when running in non-interactive mode"},
		"not a URL":   {"-y -jwks-url=nomad:4646", "-jwks-url must be a URL"},
		"a user":      {"-y -jwks-url=https://canary:canary@host/keys", "without a user"},
		"no file":     {"-y -jwks-ca-file=nowhere.pem", "Error reading -jwks-ca-file"},
		"no PEM":      {"-y -jwks-url=https://host/keys -jwks-ca-file=" + bad, "has no certificate"},
		"without TLS": {"-y -jwks-ca-file=" + bad, "requires a -jwks-url that begins with https"},
	} {
		if code, out, errs := command(strings.Fields(c.flags)...); code != 1 || !strings.Contains(errs, c.want) || strings.Contains(out+errs, "canary") {
			t.Errorf("%s: exit code %d, %q, want %q", name, code, errs, c.want)
		}
	}
	a := started(t, `acl = "read"`)
	a.Expect("Permission denied")
	if code, _, errs := command("-y"); code != 1 || !strings.Contains(errs, `Failed to create auth method "nomad-workloads": unexpected status 403: the token does not have the right acl:write: set CONSUL_HTTP_TOKEN`) {
		t.Errorf("a weak token: exit code %d, %q", code, errs)
	}
	t.Setenv("CONSUL_HTTP_TOKEN", "canary-0000")
	a.Expect("ACL not found")
	if code, _, errs := command("-y"); code != 1 || !strings.Contains(errs, "403") || strings.Contains(errs, "canary") {
		t.Errorf("an unknown token: exit code %d, %q", code, errs)
	}
	t.Setenv("CONSUL_HTTP_TOKEN", "")
	open := testconsul.Start(t, testconsul.Config{Manual: true})
	t.Setenv("CONSUL_HTTP_ADDR", open.Addr())
	if code, _, errs := command("-y"); code != 1 || !strings.Contains(errs, "ACLs are not enabled in Consul") {
		t.Errorf("without ACLs: exit code %d, %q", code, errs)
	}
	if err := open.Set(testconsul.Mode{Refuse: true}); err != nil {
		t.Fatal(err)
	}
	if code, _, errs := command("-y"); code != 1 || !strings.Contains(errs, "set CONSUL_HTTP_ADDR to an agent of Consul") {
		t.Errorf("Consul is down: exit code %d, %q", code, errs)
	}
}

// TestEnterprise checks the question about an Enterprise build.
func TestEnterprise(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/v1/operator/license" {
			t.Errorf("unexpected call %s", r.URL.Path)
		}
		_, _ = w.Write([]byte(`{"Valid":true}`)) // the client reports a failure
	}))
	defer s.Close()
	t.Setenv("CONSUL_HTTP_ADDR", s.Listener.Addr().String())
	var out strings.Builder
	run := term.Command{Name: "setup consul", Setup: func(*term.Flags) term.Run {
		return func(ctx context.Context, e *term.Env) error {
			return setupConsul(ctx, e, &options{url: "http://localhost/keys", terminal: true})
		}
	}}
	if code := run.Adapt(strings.NewReader("n\n"), &out, &strings.Builder{}).Run(nil); code != 0 ||
		!strings.Contains(out.String(), "namespace of CONSUL_NAMESPACE") || !strings.HasSuffix(out.String(), "Nothing changed.\n") {
		t.Errorf("exit code %d, %q", code, out.String())
	}
}

// TestExposed checks which URLs get a warning.
func TestExposed(t *testing.T) {
	for url, want := range map[string]bool{"http://localhost:4646/x": false, "http://127.0.0.1/x": false, "http://[::1]:4646/x": false,
		"https://nomad.example.com/x": false, "http://nomad.example.com/x": true, "http://10.0.0.1:4646/x": true} {
		if got := (&options{url: url}).exposed(); got != want {
			t.Errorf("exposed(%s) = %t, want %t", url, got, want)
		}
	}
}
