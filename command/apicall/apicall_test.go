package apicall

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// seen is the last request that a server got.
type seen struct{ method, uri, token, body, accept string }

// agent starts a server that records requests.
func agent(t *testing.T) (*httptest.Server, *seen) {
	t.Helper()
	last := &seen{}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		*last = seen{r.Method, r.URL.RequestURI(), r.Header.Get("X-Nomad-Token"), string(body), r.Header.Get("Accept")}
		switch r.URL.Path {
		case "/v1/missing":
			http.Error(w, "job not found", http.StatusNotFound)
		case "/v1/moved":
			http.Redirect(w, r, "/v1/jobs", http.StatusTemporaryRedirect)
		default:
			w.Write([]byte(`{"ok":true}`))
		}
	}))
	t.Cleanup(s.Close)
	t.Setenv("NOMAD_ADDR", s.URL)
	for _, name := range []string{"NOMAD_TOKEN", "NOMAD_NAMESPACE", "NOMAD_REGION", "NOMAD_HTTP_AUTH"} {
		t.Setenv(name, "")
	}
	return s, last
}

// run runs the command.
func run(in string, args ...string) (code int, out, errs string) {
	var o, e bytes.Buffer
	code = Commands()[0].Adapt(strings.NewReader(in), &o, &e).Run(args)
	return code, o.String(), e.String()
}

func TestCall(t *testing.T) {
	s, last := agent(t)
	t.Setenv("NOMAD_TOKEN", "canary-token")
	for _, c := range []struct {
		name, in string
		args     []string
		want     seen
	}{
		{"path", "", []string{"jobs"}, seen{method: "GET", uri: "/v1/jobs"}},
		{"whole path", "", []string{"/v1/jobs?prefix=a"}, seen{method: "GET", uri: "/v1/jobs?prefix=a"}},
		{"well known", "", []string{"/.well-known/jwks.json"}, seen{method: "GET", uri: "/.well-known/jwks.json"}},
		{"URL", "", []string{s.URL + "/v1/nodes"}, seen{method: "GET", uri: "/v1/nodes"}},
		{"body", `{"a":1}`, []string{"/v1/jobs"}, seen{method: "POST", uri: "/v1/jobs", body: `{"a":1}`}},
		{"method", `{"a":1}`, []string{"-X", "PUT", "/v1/jobs"}, seen{method: "PUT", uri: "/v1/jobs", body: `{"a":1}`}},
		{"GET ignores input", `{"a":1}`, []string{"-X=GET", "/v1/jobs"}, seen{method: "GET", uri: "/v1/jobs"}},
		{"filter", "", []string{"-filter", `A == "x y"`, "/v1/jobs?prefix=a"},
			seen{method: "GET", uri: "/v1/jobs?filter=A+%3D%3D+%22x+y%22&prefix=a"}},
		{"namespace", "", []string{"-namespace=n", "-region=r", "jobs"}, seen{method: "GET", uri: "/v1/jobs?namespace=n&region=r"}},
		{"namespace of the path", "", []string{"-namespace=n", "jobs?namespace=m"}, seen{method: "GET", uri: "/v1/jobs?namespace=m"}},
		{"header", "", []string{"-H", "Accept: text/plain", "jobs"}, seen{method: "GET", uri: "/v1/jobs", accept: "text/plain"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			code, out, errs := run(c.in, c.args...)
			c.want.token = "canary-token"
			if code != 0 || out != `{"ok":true}` || errs != "" || *last != c.want {
				t.Errorf("exit code %d, %q, %q, the agent got %+v, want %+v", code, out, errs, *last, c.want)
			}
		})
	}
}

func TestCallFailures(t *testing.T) {
	agent(t)
	for want, args := range map[string][]string{
		"404 Not Found job not found":   {"missing"},
		"307 Temporary Redirect":        {"moved"},
		"Invalid -H":                    {"-H", "nothing", "jobs"},
		"Invalid URL":                   {"ftp://x/v1/jobs"},
		"without a user":                {"http://u:p@127.0.0.1/v1/jobs"},
		"exclude each other":            {"-address=http://127.0.0.1:1", "http://127.0.0.1:1/v1/jobs"},
		"invalid method":                {"-X", "A B", "jobs"},
		"This command takes <path or U": {},
	} {
		if code, out, errs := run("", args...); code != 1 || out != "" || !strings.Contains(errs, want) {
			t.Errorf("%q: exit code %d, %q, %q, want %q", args, code, out, errs, want)
		}
	}
}

// Neither -dryrun nor -verbose prints a secret. The curl command sends the same request.
func TestSecretsAreNotPrinted(t *testing.T) {
	_, last := agent(t)
	t.Setenv("NOMAD_TOKEN", "canary-token")
	t.Setenv("NOMAD_HTTP_AUTH", "user:canary-password")
	_, dry, errs := run(`{}`, "-dryrun", "-token=canary-flag", "-H", "Cookie: canary-cookie", "-H", "X-A: it's", "-namespace=a b", "/v1/jobs")
	_, _, verbose := run("", "-verbose", "-H", "Authorization: Bearer canary-bearer", "jobs")
	if text := dry + errs + verbose; strings.Contains(text, "canary") || !strings.Contains(verbose, "> X-Nomad-Token: <redacted>\n") {
		t.Errorf("a secret is printed:\n%s", text)
	}
	sh := exec.Command("sh", "-c", dry)
	sh.Stdin = strings.NewReader(`{"a":1}`)
	if _, err := exec.LookPath("curl"); err != nil {
		t.Skip("curl is not installed")
	}
	if out, err := sh.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", dry, err, out)
	}
	if want := (seen{"POST", "/v1/jobs?namespace=a+b", "canary-token", `{"a":1}`, "*/*"}); *last != want {
		t.Errorf("%s sends %+v, want %+v", dry, *last, want)
	}
}

// The token and the namespace of a context are sent to the address of the context only.
func TestURLOfAnotherAgentThanTheContext(t *testing.T) {
	s, last := agent(t)
	t.Setenv("NOMAD_ADDR", "")
	contexts := filepath.Join(t.TempDir(), "contexts.hcl")
	t.Setenv("NOMAD_CONTEXTS", contexts)
	for _, c := range []struct{ address, url, uri, token string }{
		{"http://127.0.0.1:1", s.URL + "/v1/nodes", "/v1/nodes", ""},
		{s.URL, s.URL + "/v1/nodes", "/v1/nodes?namespace=shop", "canary-token"},
		{s.URL, "/v1/nodes", "/v1/nodes?namespace=shop", "canary-token"},
	} {
		text := "current = \"a\"\ncontext \"a\" {\n  address = \"" + c.address +
			"\"\n  namespace = \"shop\"\n  token_command = [\"echo\", \"canary-token\"]\n}\n"
		if err := os.WriteFile(contexts, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		*last = seen{}
		if code, _, errs := run("", c.url); code != 0 || last.uri != c.uri || last.token != c.token {
			t.Errorf("%s with the context of %s: exit code %d, %+v\n%s", c.url, c.address, code, *last, errs)
		}
		if _, _, errs := run("", "-context=a", c.url); strings.Contains(errs, "The context \"a\" is not used") != (c.token == "") {
			t.Errorf("%s with -context and the context of %s: %q", c.url, c.address, errs)
		}
	}
}
