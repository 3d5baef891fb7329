package token_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestLogin checks the token of a task, and that an agent that starts again uses it without a login.
func TestLogin(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.setup(t, nil)
		a := alloc("web", "idle")
		g := w.start(t, a)
		if n := w.vault.Calls(loginCall); n != 0 {
			t.Errorf("%d logins before a task starts", n)
		}
		tokens, stop := g.Watch("web")
		defer stop()
		first := next(t, tokens)
		if got := g.Secret("web")(); got != first.Secret.Reveal() || got == "" || !slices.Equal(w.vault.Tokens(), []string{got}) {
			t.Error("Secret() has another token than Watch, or Vault")
		}
		if text := fmt.Sprintf("%v %+v %#v", first, first, &first); first.Accessor == "" || strings.Contains(text, first.Secret.Reveal()) {
			t.Errorf("accessor %q, printed %s", first.Accessor, text)
		}
		if g.Secret("idle")() != "" || g.Secret("unknown")() != "" {
			t.Error("a token of a task that does not run")
		}
		pass(time.Hour)
		none(t, tokens)
		g.stop()
		again := w.resume(t, a)
		tokens, stop = again.Watch("web")
		defer stop()
		if got := next(t, tokens); got.Secret.Reveal() != first.Secret.Reveal() {
			t.Error("the restarted agent has another token")
		}
		pass(24 * time.Hour)
		none(t, tokens)
		if n := w.vault.Calls(loginCall); n != 1 {
			t.Errorf("%d logins, want 1", n)
		}
		if got := w.reported(); len(got) > 0 {
			t.Errorf("events %q", got)
		}
		again.end(t)
		if got := w.vault.Tokens(); len(got) != 0 || w.stored(t) != 0 {
			t.Errorf("%d tokens in Vault after the end, %d stored", len(got), w.stored(t))
		}
	})
}

// TestNothing checks an allocation without vault blocks, and a node without Vault.
func TestNothing(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		a := alloc("web")
		a.Job.TaskGroups[0].Tasks[0].Vault = nil
		m := w.manager(a)
		if m.Prepare() || m.Update(a) {
			t.Error("an allocation without a vault block needs Run")
		}
		m.End(t.Context())
		w.node = nil
		w.node.Leftovers(nil)
		m = w.manager(alloc("web"))
		if m.Enabled() || m.Prepare() || m.Update(alloc("web")) || m.Rejected(t.Context(), "web", "x") || m.Status() != nil {
			t.Error("tokens on a node without Vault")
		}
		if secret, namespace := m.Current("web")(); secret != "" || namespace != "" {
			t.Errorf("a token %q in %q", secret, namespace)
		}
		must(t, m.Run(t.Context()))
		must(t, m.Confirm(t.Context(), "web"))
		_, stop := m.Watch("web")
		stop()
		m.EndTask("web")
		m.End(t.Context())
	})
}

// TestCurrentNamespace checks that a token keeps the namespace of its login after a reload with another one.
func TestCurrentNamespace(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.setup(t, nil)
		g := w.start(t, alloc("web"))
		tokens, stop := g.Watch("web")
		defer stop()
		first := next(t, tokens)
		s := w.cluster.Settings()
		s.Namespace = "team"
		must(t, w.cluster.Replace(s))
		if secret, namespace := g.Current("web")(); secret != first.Secret.Reveal() || namespace != "" {
			t.Errorf("the token is in %q, want the root namespace", namespace)
		}
		if secret, namespace := g.Current("unknown")(); secret != "" || namespace != "" {
			t.Errorf("an unknown task has a token %q in %q", secret, namespace)
		}
		s.Namespace = ""
		must(t, w.cluster.Replace(s))
		g.end(t)
		g.stop()
	})
}

// TestTarget checks the role and the namespace of a login.
func TestTarget(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.setup(t, nil)
		w.role(t, "block", map[string]any{"token_period": "1h"})
		w.role(t, "agent", map[string]any{"token_period": "2h"})
		lease := func(role string) time.Duration {
			t.Helper()
			a := alloc("web")
			a.Job.TaskGroups[0].Tasks[0].Vault.Role = role
			g := w.start(t, a)
			tokens, stop := g.Watch("web")
			defer stop()
			next(t, tokens)
			got := g.Status()
			g.end(t)
			g.stop()
			if len(got) != 1 || got[0].Task != "web" || got[0].AllocID != a.ID || got[0].Cluster != "default" {
				t.Fatalf("Status() = %+v", got)
			}
			return got[0].Lease
		}
		if got := lease("block"); got != time.Hour {
			t.Errorf("lease %s with the role of the block, want 1h", got)
		}
		if got := lease(""); got != 30*time.Minute {
			t.Errorf("lease %s with the default role, want 30m", got)
		}
		s := w.cluster.Settings()
		s.Role, s.Namespace = "agent", "team"
		must(t, w.cluster.Replace(s))
		w.vault.Expect(`namespace "team", want ""`)
		g := w.start(t, alloc("web"))
		_, stop := g.Watch("web")
		defer stop()
		pass(time.Second)
		if got := w.reported(); len(got) != 1 || !strings.Contains(got[0], "does not accept the namespace") {
			t.Errorf("events %q for a wrong namespace", got)
		}
		if secret, namespace := g.Current("web")(); secret != "" || namespace != "team" {
			t.Errorf("token %q in %q before the login", secret, namespace)
		}
		g.end(t)
		g.stop()
		s.Namespace = ""
		must(t, w.cluster.Replace(s))
		if got := lease(""); got != 2*time.Hour {
			t.Errorf("lease %s with the role of the agent, want 2h", got)
		}
	})
}
