package node

import (
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
