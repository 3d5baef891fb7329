package completion

import (
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/posener/complete"

	"github.com/open-nomad/open-nomad/command/term"
)

// contextsFile writes a file of two contexts. The token command of both creates the returned file.
func contextsFile(t *testing.T, address string) (ran string) {
	t.Helper()
	dir := t.TempDir()
	ran = filepath.Join(dir, "ran")
	path := filepath.Join(dir, "contexts.hcl")
	text := "current = \"prod\"\n"
	for _, name := range []string{"prod", "preview"} {
		text += fmt.Sprintf("context %q {\n  address = %q\n  token_command = [\"/usr/bin/touch\", %q]\n}\n", name, address, ran)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"NOMAD_ADDR", "NOMAD_TOKEN", "NOMAD_CONTEXT"} {
		t.Setenv(name, "")
	}
	t.Setenv("NOMAD_CONTEXTS", path)
	return ran
}

func command(name, args string) term.Command {
	return With(term.Command{Name: name, Args: args, Setup: func(*term.Flags) term.Run { return nil }})
}

// The names of contexts complete the flag -context of every command and the arguments of nomad context.
func TestContextNames(t *testing.T) {
	contextsFile(t, "http://127.0.0.1:1")
	flags := command("job stop", "<job>")
	var predict complete.Predictor
	flags.FlagSet().VisitAll(func(f *flag.Flag) {
		if f.Name == "context" {
			predict = flags.PredictFlag(f)
		}
	})
	for last, want := range map[string][]string{"": {"preview", "prod"}, "pro": {"prod"}, "x": nil} {
		if got := predict.Predict(complete.Args{Last: last}); !slices.Equal(got, want) {
			t.Errorf("-context %q offers %q, want %q", last, got, want)
		}
		for name, args := range map[string]string{"context use": "[name]", "context show": "[name]", "context delete": "<name>"} {
			if got := command(name, args).Predict.Predict(complete.Args{Last: last}); !slices.Equal(got, want) {
				t.Errorf("%s %q offers %q, want %q", name, last, got, want)
			}
		}
	}
	t.Setenv("NOMAD_CONTEXTS", filepath.Join(t.TempDir(), "missing"))
	if got := command("context use", "[name]").Predict.Predict(complete.Args{}); len(got) != 0 {
		t.Errorf("offers without a file of contexts: %q", got)
	}
}

// A completion requests IDs from the agent of the context, but runs no token command, and does not wait for an
// agent that never answers.
func TestNoTokenCommand(t *testing.T) {
	asked, release := make(chan string, 8), make(chan struct{})
	srv := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		asked <- r.Header.Get("X-Nomad-Token")
		<-release
	}))
	t.Cleanup(srv.Close)
	t.Cleanup(func() { close(release) })
	ran := contextsFile(t, srv.URL)
	start := time.Now()
	if got := command("job stop", "<job>").Predict.Predict(complete.Args{}); len(got) != 0 {
		t.Errorf("offers of an agent that does not answer: %q", got)
	}
	if took := time.Since(start); took > 10*time.Second {
		t.Errorf("the completion took %v, patience is %v", took, patience)
	}
	select {
	case token := <-asked:
		if token != "" {
			t.Errorf("the completion sent a token")
		}
	default:
		t.Error("the completion did not ask the agent of the context")
	}
	if _, err := os.Stat(ran); err == nil {
		t.Error("the completion ran the token command of the context")
	}
}
