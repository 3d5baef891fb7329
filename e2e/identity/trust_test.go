package identity_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/e2e/cluster"
	"github.com/open-nomad/open-nomad/e2e/harness"
	"github.com/open-nomad/open-nomad/internal/testnet"
)

// front is the reverse proxy at the public address of the issuer.
type front struct {
	*httptest.Server
	agent   atomic.Pointer[cluster.Agent]
	fetched atomic.Int64 // number of key fetches
}

func newFront(t *testing.T, serve func(http.Handler) *httptest.Server) *front {
	t.Helper()
	f := &front{}
	f.Server = serve(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if strings.HasSuffix(req.URL.Path, "/jwks.json") {
			f.fetched.Add(1)
		}
		to, err := url.Parse(f.agent.Load().Address())
		if err != nil {
			t.Error(err)
			return
		}
		httputil.NewSingleHostReverseProxy(to).ServeHTTP(w, req)
	}))
	t.Cleanup(f.Close)
	return f
}

// issuing starts an agent whose tokens name the front as issuer.
func issuing(t *testing.T, f *front) *cluster.Agent {
	t.Helper()
	dir := harness.TempDir(t)
	for _, d := range []string{dir, filepath.Dir(dir)} { // tasks pass through
		if err := os.Chmod(d, 0o711); err != nil {
			t.Fatal(err)
		}
	}
	cfg := filepath.Join(dir, "issuer.hcl")
	text := fmt.Sprintf("server {\n  oidc_issuer = %q\n}\n", f.URL) + harness.TestDrivers
	if os.Geteuid() != 0 {
		text += "plugin \"exec2\" {\n  config {\n    allow_unprivileged = true\n  }\n}\n"
	}
	harness.WriteFile(t, cfg, text)
	a := harness.Start(t, cluster.Options{Dir: dir,
		Args: []string{"-server", "-client", "-bootstrap-expect=1", "-bind=127.0.0.1", "-data-dir=" + filepath.Join(dir, "data"),
			"-config=" + cfg}})
	f.agent.Store(a)
	t.Cleanup(func() { harness.PurgeAll(t, a) })
	return a
}

// Third-party libraries find the keys by the issuer alone and accept tokens of tasks, EdDSA and
// RS256. They accept a new key after a rotation, and reject tokens for another audience.
func TestTrustedByThirdParties(t *testing.T) {
	f := newFront(t, httptest.NewTLSServer)
	a := issuing(t, f)
	ids := []*api.WorkloadIdentity{
		{Name: "ed", Audience: []string{"vault.example"}, File: true, TTL: 12 * time.Second},
		{Name: "rsa", Audience: []string{"vault.example", "other.example"}, Alg: "RS256", File: true, TTL: time.Hour},
		{Name: "foreign", Audience: []string{"other.example"}, File: true, TTL: time.Hour},
	}
	al := harness.Register(t, a, rawTask("trusted", ids, "/bin/sleep", "600"), "running")
	token := func(name string) string {
		return harness.Content(t, filepath.Join(secretsOf(a, al), "nomad_"+name+".jwt"))
	}

	ctx := oidc.ClientContext(t.Context(), f.Client())
	provider, err := oidc.NewProvider(ctx, f.URL)
	if err != nil {
		t.Fatal(err)
	}
	checkDiscovery(t, provider)
	verifier := provider.Verifier(&oidc.Config{ClientID: "vault.example"})
	for _, name := range []string{"ed", "rsa"} {
		got, err := verifier.Verify(ctx, token(name))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		var claims struct {
			Job string `json:"nomad_job_id"`
		}
		if err := got.Claims(&claims); err != nil || claims.Job != "trusted" || got.Subject != "global:default:trusted:trusted:t:"+name {
			t.Errorf("%s: subject %s, claims %+v, %v", name, got.Subject, claims, err)
		}
	}
	if _, err := verifier.Verify(ctx, token("foreign")); err == nil || !strings.Contains(err.Error(), "audience") {
		t.Errorf("a token for others: %v", err)
	}
	other := provider.VerifierContext(ctx, &oidc.Config{ClientID: "other.example"})
	if _, err := other.Verify(ctx, token("rsa")); err != nil {
		t.Errorf("a token for two: %v", err)
	}
	rotated(t, a, f, verifier, ctx, func() string { return token("ed") })
	checkWithJose(t, f, token)
}

// checkDiscovery checks the discovery document of the issuer.
func checkDiscovery(t *testing.T, p *oidc.Provider) {
	t.Helper()
	var document struct {
		Claims []string `json:"claims_supported"`
		Algs   []string `json:"id_token_signing_alg_values_supported"`
	}
	if err := p.Claims(&document); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"sub", "aud", "exp", "nomad_job_id", "nomad_task", "nomad_allocation_id"} {
		if !strings.Contains(" "+strings.Join(document.Claims, " ")+" ", " "+want+" ") {
			t.Errorf("claims_supported lacks %s: %v", want, document.Claims)
		}
	}
	if len(document.Algs) != 2 {
		t.Errorf("algorithms are %v", document.Algs)
	}
}

// rotated rotates the key: holders of the old keys fetch them once more.
func rotated(t *testing.T, a *cluster.Agent, f *front, verifier *oidc.IDTokenVerifier, ctx context.Context, token func() string) {
	t.Helper()
	old, fetched := kid(t, token()), f.fetched.Load()
	for range 5 {
		if _, err := verifier.Verify(ctx, token()); err != nil {
			t.Fatal(err)
		}
	}
	if n := f.fetched.Load() - fetched; n != 0 {
		t.Errorf("the keys were fetched %d times for a known key", n)
	}
	if out, err := harness.Command(t, a, "operator", "root", "keyring", "rotate", "-now"); err != nil {
		t.Fatalf("rotate: %v\n%s", err, out)
	}
	var next string
	harness.Within(t, harness.Patience, "a token of the new key", func() bool { next = token(); return kid(t, next) != old })
	if _, err := verifier.Verify(ctx, next); err != nil {
		t.Errorf("a token of the new key: %v", err)
	}
	if n := f.fetched.Load() - fetched; n != 1 {
		t.Errorf("the keys were fetched %d times for one new key", n)
	}
	parts := strings.Split(next, ".")
	if _, err := verifier.Verify(ctx, parts[0]+"."+strings.Split(token(), ".")[1]+"x."+parts[2]); err == nil {
		t.Error("a changed token is trusted")
	}
	harness.Within(t, harness.Patience, "the old token is rejected as expired", func() bool {
		_, err := verifier.Verify(ctx, next)
		return err != nil
	})
	resp, err := f.Client().Get(f.URL + "/.well-known/jwks.json")
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	age, err := strconv.Atoi(strings.TrimPrefix(resp.Header.Get("Cache-Control"), "max-age="))
	if half := 15 * 24 * 3600; err != nil || age < half*9/10 || age > half*11/10+1 {
		t.Errorf("Cache-Control is %q, want half of 30 days and a tenth more at most", resp.Header.Get("Cache-Control"))
	}
}

// kid returns the key ID of a token.
func kid(t *testing.T, token string) string {
	t.Helper()
	text, err := base64.RawURLEncoding.DecodeString(strings.Split(token, ".")[0])
	var head struct{ Kid string }
	if err == nil {
		err = json.Unmarshal(text, &head)
	}
	if err != nil || head.Kid == "" {
		t.Fatalf("a token names no key: %v", err)
	}
	return head.Kid
}

// checkWithJose verifies tokens with demo/verify, which uses only go-jose.
func checkWithJose(t *testing.T, f *front, token func(name string) string) {
	t.Helper()
	bin := built(t, "./demo/verify")
	plain := newFront(t, httptest.NewServer)
	plain.agent.Store(f.agent.Load())
	check := func(name, audience string) error {
		cmd := exec.CommandContext(t.Context(), bin, plain.URL+"/.well-known/jwks.json", audience)
		cmd.Stdin = strings.NewReader(token(name))
		out, err := cmd.CombinedOutput()
		if err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		return nil
	}
	for _, name := range []string{"ed", "rsa"} {
		if err := check(name, "vault.example"); err != nil {
			t.Errorf("%s with go-jose: %v", name, err)
		}
	}
	if err := check("foreign", "vault.example"); err == nil || !strings.Contains(err.Error(), "aud") {
		t.Errorf("a token for others with go-jose: %v", err)
	}
}

// built builds a program of the repository.
func built(t *testing.T, pkg string) string {
	t.Helper()
	bin := filepath.Join(harness.TempDir(t), filepath.Base(pkg))
	cmd := exec.CommandContext(t.Context(), "go", "build", "-o", bin, pkg)
	cmd.Dir = "../.."
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build %s: %v\n%s", pkg, err, out)
	}
	return bin
}

// The instructions of the README for trusting tokens elsewhere equal demo/trust, and work.
func TestReadmeTrust(t *testing.T) {
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"issuer.hcl", "main.go", "caller.nomad.hcl"} {
		text, err := os.ReadFile(filepath.Join("../../demo/trust", name))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Contains(readme, append([]byte("\n"), append(text, "```\n"...)...)) {
			t.Errorf("README.md does not have demo/trust/%s as it is", name)
		}
	}
	f := newFront(t, httptest.NewServer)
	a := issuing(t, f)
	addr := serviceOf(t, f.URL)
	if out, err := harness.Command(t, a, "job", "run", "-var", "service="+strings.Replace(addr, ":", "/", 1),
		"../../demo/trust/caller.nomad.hcl"); err != nil {
		t.Fatalf("job run: %v\n%s", err, out)
	}
	harness.Await(t, a, "caller", api.AllocClientStatusComplete, 1)
	if out, err := harness.Command(t, a, "alloc", "logs", "-job", "caller"); err != nil ||
		!strings.Contains(out, "hello task ask of job caller") {
		t.Errorf("alloc logs: %v\n%s", err, out)
	}
	for _, header := range []string{"", "Bearer ", "Bearer e30.e30.AAAA"} {
		resp, _ := harness.Request(t, http.MethodGet, "http://"+addr, "", http.Header{"Authorization": {header}})
		if resp.StatusCode != http.StatusUnauthorized {
			t.Errorf("the service answers %q with %d", header, resp.StatusCode)
		}
	}
	if resp, _ := harness.Request(t, http.MethodGet, "http://"+addr+"/health", "", nil); resp.StatusCode != http.StatusOK {
		t.Errorf("the service answers a check with %d", resp.StatusCode)
	}
}

// serviceOf runs the service of the README until the test ends.
func serviceOf(t *testing.T, issuer string) (addr string) {
	t.Helper()
	addr = testnet.Take(t).Addr(8080)
	cmd := exec.Command(built(t, "./demo/trust"), "-issuer="+issuer, "-listen="+addr)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	var output bytes.Buffer
	cmd.Stdout, cmd.Stderr = &output, &output
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait() // killed
	})
	harness.Within(t, harness.Patience, "the service answers", func() bool {
		resp, err := http.Get("http://" + addr)
		if err == nil {
			resp.Body.Close()
		}
		return err == nil
	})
	return addr
}
