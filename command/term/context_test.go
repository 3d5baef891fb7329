package term_test

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/command/term"
)

// asks is a command that prints what a request of it contains.
var asks = term.Command{Name: "asks", Setup: func(*term.Flags) term.Run {
	return func(_ context.Context, e *term.Env) error {
		c, err := e.Client()
		if err != nil {
			return err
		}
		seen, err := c.Status().Leader()
		if err != nil {
			return fmt.Errorf("Error querying leader: %w", err)
		}
		e.Println(seen, e.Namespace(), e.Region())
		return nil
	}
}}

// mirror is an agent that answers with the name, the token and the query of a request.
func mirror(t *testing.T, name string) string {
	t.Helper()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "%q", name+" token="+r.Header.Get("X-Nomad-Token")+" "+r.URL.Query().Encode())
	}))
	t.Cleanup(srv.Close)
	return srv.URL
}

func TestContext(t *testing.T) {
	one, two := mirror(t, "one"), mirror(t, "two")
	dir := t.TempDir()
	file := filepath.Join(dir, "contexts.hcl")
	write := func(name, text string, mode os.FileMode) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(filepath.Join(dir, name), mode); err != nil {
			t.Fatal(err)
		}
	}
	write("contexts.hcl", fmt.Sprintf(`
current = "one"
context "one" {
  address    = %q
  namespace  = "shop"
  region     = "eu"
  token_file = "token"
}
context "two" {
  address       = %q
  token_command = ["sh", "-c", "echo of-two"]
}
context "fails" {
  address       = %q
  token_command = ["sh", "-c", "echo secret; exit 3"]
}
context "gone" {
  address = "http://127.0.0.1:1"
}
context "open" {
  address    = %q
  token_file = "open"
}
`, one, two, two, two), 0o600)
	write("token", "of-one\n", 0o600)
	write("open", "open\n", 0o644)
	for _, c := range []struct {
		name, flags string
		env         map[string]string
		want, fails string
	}{
		{"current", "", nil, "one token=of-one namespace=shop&region=eu shop eu", ""},
		{"by its flag", "-context=two", nil, "two token=of-two  default ", ""},
		{"by its variable", "", map[string]string{"NOMAD_CONTEXT": "two"}, "two token=of-two  default ", ""},
		{"flag before variable", "-context=one", map[string]string{"NOMAD_CONTEXT": "two"}, "one token=of-one namespace=shop&region=eu shop eu",
			""},
		{"flags win", "-namespace=n -region=r -token=t", nil, "one token=t namespace=n&region=r n r", ""},
		{"environment wins", "", map[string]string{"NOMAD_NAMESPACE": "n", "NOMAD_REGION": "r", "NOMAD_TOKEN": "t"},
			"one token=t namespace=n&region=r n r", ""},
		{"no token to another address", "-address=" + two, nil, "two token=  default ", ""},
		{"no token to another address of the environment", "-context=one", map[string]string{"NOMAD_ADDR": two}, "two token=  default ",
			`The context "one" is not used`},
		{"the same address", "-address=" + one + "/", nil, "one token=of-one namespace=shop&region=eu shop eu", ""},
		{"no such context", "-context=three", nil, "", `no context "three": use one of one, two, fails, gone, open`},
		{"command fails", "-context=fails", nil, "", `token_command of context "fails": sh: exit status 3`},
		{"token for all to read", "-context=open", nil, "", "/open has mode 0644, so others can use it: run chmod 600"},
		{"no token needed", "-context=fails -token=t", nil, "two token=t  default ", ""},
		{"not reachable", "-context=gone", nil, "", `The address http://127.0.0.1:1 is of the context "gone" in ` + file},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, name := range []string{"NOMAD_ADDR", "NOMAD_TOKEN", "NOMAD_NAMESPACE", "NOMAD_REGION", "NOMAD_CONTEXT"} {
				t.Setenv(name, c.env[name])
			}
			t.Setenv("NOMAD_CONTEXTS", file)
			var out, errs bytes.Buffer
			code := asks.Adapt(nil, &out, &errs).Run(strings.Fields(c.flags))
			if got := strings.TrimSuffix(out.String(), "\n"); got != c.want || (code == 0) != (c.want != "") {
				t.Errorf("exit %d: %q, want %q\n%s", code, got, c.want, &errs)
			}
			if !strings.Contains(errs.String(), c.fails) || strings.Contains(errs.String(), "secret") || c.fails == "" && errs.Len() > 0 {
				t.Errorf("stderr = %q, want %q", &errs, c.fails)
			}
		})
	}
}
