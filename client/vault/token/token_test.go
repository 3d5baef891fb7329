package token_test

import (
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
		if first.ID == "" || first.Accessor != first.ID || strings.Contains(first.String(), first.Secret.Reveal()) {
			t.Errorf("token %q with ID %q and accessor %q", first, first.ID, first.Accessor)
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
		if got := next(t, tokens); got != first && got.ID != first.ID {
			t.Error("the restarted agent has another token")
		}
		pass(24 * time.Hour)
		none(t, tokens)
		if n := w.vault.Calls(loginCall); n != 1 {
			t.Errorf("%d logins, want 1", n)
		}
		if got := w.told(); len(got) > 0 {
			t.Errorf("events %q", got)
		}
		again.end(t)
		if got := w.vault.Tokens(); len(got) != 0 || w.stored(t) != 0 {
			t.Errorf("%d tokens in Vault after the end, %d stored", len(got), w.stored(t))
		}
	})
}
