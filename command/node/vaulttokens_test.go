package node

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/command/term"
)

// TestVaultTable checks the rows of tokens, and that texts of a node cannot write escape sequences or lines to a terminal.
func TestVaultTable(t *testing.T) {
	now := time.Now()
	const hostile = "\x1b[2J\nx"
	tokens := []*api.VaultToken{
		{AllocID: "a1", Task: "no-end", LoggedIn: true},
		{AllocID: "a2", Task: "renewed", Role: "r", LoggedIn: true, Lease: time.Hour, Expires: now.Add(time.Hour), NextRenewal: now.Add(time.Minute)},
		{AllocID: "a3" + hostile, Task: "none" + hostile, Role: hostile, Error: "down" + hostile, ErrorAt: now},
	}
	out := vaultTable(tokens, term.Detail(true), now)
	lines := strings.Split(out, "\n")
	if len(lines) != 5 {
		t.Fatalf("%d lines, want 5:\n%s", len(lines), out)
	}
	for i, want := range [][]string{1: {"a1", "no-end", "<default>", "unlimited", "<none>"}, 2: {"a2", "renewed", "1h", "(in 59m", "(in 59s)"},
		3: {"no token", "<none>"}, 4: {"none", "last error, at 2", "down"}} {
		for _, part := range want {
			if !strings.Contains(lines[i], part) {
				t.Errorf("line %q, want the text %q", lines[i], part)
			}
		}
	}
	if strings.Contains(out, "\x1b") {
		t.Errorf("the table has an escape sequence: %q", out)
	}
}

// TestVaultSection checks which nodes have the section: also one with tokens whose agent was restarted while Vault was down.
func TestVaultSection(t *testing.T) {
	const token = `[{"AllocID": "a1", "Task": "web", "LoggedIn": true}]`
	for name, c := range map[string]struct {
		version, answer string
		status          int
		want            string // "" for no output
	}{
		"tokens":                           {"1.20.0", token, http.StatusOK, "web"},
		"tokens of a node without Vault":   {"", token, http.StatusOK, "web"},
		"no tokens":                        {"1.20.0", "[]", http.StatusOK, "No tokens"},
		"no tokens of a node without it":   {"", "[]", http.StatusOK, ""},
		"no method":                        {"1.20.0", "Unknown rpc method", http.StatusNotFound, "unknown: "},
		"no method and node without Vault": {"", "Unknown rpc method", http.StatusNotFound, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(c.status)
				_, _ = w.Write([]byte(c.answer)) // the client reports a failure
			}))
			defer s.Close()
			client, err := api.NewClient(&api.Config{Address: s.URL})
			if err != nil {
				t.Fatal(err)
			}
			run := term.Command{Name: "node status", Setup: func(*term.Flags) term.Run {
				return func(ctx context.Context, e *term.Env) error {
					new(statusOptions).vaultSection(ctx, e, client, &api.Node{ID: "n1", Attributes: map[string]string{"vault.version": c.version}})
					return nil
				}
			}}
			var out, errs strings.Builder
			code := run.Adapt(strings.NewReader(""), &out, &errs).Run(nil)
			if code != 0 || errs.String() != "" || !strings.Contains(out.String(), c.want) || (out.String() == "") != (c.want == "") {
				t.Errorf("exit code %d, %q\n%s\nwant %q", code, errs.String(), out.String(), c.want)
			}
		})
	}
}
