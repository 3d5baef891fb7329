package token_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestRenewal checks that a token of any life is renewed in time, and how often.
func TestRenewal(t *testing.T) {
	for _, c := range []struct {
		ttl        string
		during     time.Duration
		atLeast    int
		atMost     int
		neverAsked bool
	}{
		{"5s", time.Minute, 15, 30, false},
		{"30m", 10 * time.Hour, 30, 42, false},
		{"32d", 40 * 24 * time.Hour, 1, 3, false},
	} {
		t.Run(c.ttl, func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world) {
				ttl := c.ttl
				if ttl == "32d" {
					ttl = "768h"
				}
				w.setup(t, map[string]any{"token_period": ttl})
				g := w.start(t, alloc("web"))
				tokens, stop := g.Watch("web")
				defer stop()
				first := next(t, tokens)
				before := g.Status()[0]
				if !before.Renewable || before.Expires.IsZero() || before.NextRenewal.Before(time.Now().Add(before.Lease/2)) || before.Error != "" {
					t.Errorf("Status() = %+v", before)
				}
				pass(c.during)
				none(t, tokens)
				if n := w.vault.Calls(renewCall); n < c.atLeast || n > c.atMost {
					t.Errorf("%d renewals in %s, want %d to %d", n, c.during, c.atLeast, c.atMost)
				}
				if got := w.vault.Tokens(); !slices.Equal(got, []string{first.Secret.Reveal()}) {
					t.Errorf("%d tokens in Vault, want the first one", len(got))
				}
				g.EndTask("web")
				if pass(time.Second); len(w.vault.Tokens()) != 0 {
					t.Error("the token of a dead task is not revoked")
				}
				n := w.vault.Calls(renewCall)
				if pass(c.during); w.vault.Calls(renewCall) != n || w.vault.Calls(loginCall) != 1 {
					t.Error("a renewal or a login after the end of the task")
				}
				none(t, tokens)
			})
		})
	}
}

// TestRenewal_Outage checks that renewals are tried until the end of the token, with one token before and after.
func TestRenewal_Outage(t *testing.T) {
	for _, fault := range []string{"refuse", "hang", "503 * {\"errors\":[\"Vault is sealed\"]}", "429 * {\"errors\":[\"quota\"]}", "500 * x", "200 * {}"} {
		t.Run(fault[:3], func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world) {
				w.setup(t, map[string]any{"token_period": "1h"})
				g := w.start(t, alloc("web"))
				tokens, stop := g.Watch("web")
				defer stop()
				first := next(t, tokens)
				w.set(fault)
				if pass(39 * time.Minute); len(w.reported()) != 0 || strings.Count(w.log.String(), "level=WARN") != 1 {
					t.Errorf("an event while more than a third of the life remains, or not one warning: %s", w.log)
				}
				if pass(16 * time.Minute); g.Status()[0].Error == "" {
					t.Error("Status() has no error")
				}
				if got := w.reported(); len(got) != 1 || !strings.HasPrefix(got[0], "web: Renewal of the token of Vault fails: ") {
					t.Errorf("events %q, want one about the end of the token", got)
				}
				w.set("")
				if pass(70 * time.Second); g.Status()[0].Error != "" {
					t.Errorf("Status() has error %q after a success", g.Status()[0].Error)
				}
				pass(3 * time.Hour)
				none(t, tokens)
				if g.Secret("web")() != first.Secret.Reveal() {
					t.Error("another token after an outage that was shorter than the lease")
				}
				if got := w.reported(); !slices.Equal(got, []string{"web: Renewal of the token of Vault succeeded"}) {
					t.Errorf("events %q, want one about the success", got)
				}
				if n := strings.Count(w.log.String(), "level=INFO msg=\"Vault answers again\""); n != 1 || strings.Count(w.log.String(), "level=WARN") != 1 {
					t.Errorf("%d lines about the recovery, or not one warning: %s", n, w.log)
				}
			})
		})
	}
}

// TestOutage_Long checks that a new login follows an outage that is longer than the lease.
func TestOutage_Long(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.vault.Expect("unknown token")
		w.setup(t, nil)
		g := w.start(t, alloc("web"))
		tokens, stop := g.Watch("web")
		defer stop()
		first := next(t, tokens)
		w.set("refuse")
		if pass(3 * time.Hour); g.Secret("web")() != first.Secret.Reveal() {
			t.Error("the task has no token during the outage")
		}
		w.set("")
		pass(time.Minute + 10*time.Second)
		second := next(t, tokens)
		if got := w.vault.Tokens(); second.Secret.Reveal() == first.Secret.Reveal() || !slices.Equal(got, []string{second.Secret.Reveal()}) {
			t.Errorf("%d tokens in Vault", len(got))
		}
		if got := w.reported(); len(got) != 3 || !strings.HasPrefix(got[0], "web: Renewal of the token of Vault fails: Vault is unreachable. ") ||
			!strings.HasPrefix(got[1], "web: Login to Vault failed: Vault is unreachable") || got[2] != "web: Login to Vault succeeded" {
			t.Errorf("events %q", got)
		}
		if pass(2 * time.Minute); w.stored(t) != 1 {
			t.Errorf("%d tokens are stored, want 1", w.stored(t))
		}
	})
}

// TestLost checks that the loss of a token causes a login at the next renewal, and no logins without a pause after more losses.
func TestLost(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.vault.Expect("unknown token")
		w.setup(t, map[string]any{"token_period": "10s"})
		g := w.start(t, alloc("web"))
		tokens, stop := g.Watch("web")
		defer stop()
		first := next(t, tokens)
		w.vault.Lost(first.Secret.Reveal())
		pass(7 * time.Second)
		if second := next(t, tokens); second.Secret.Reveal() == first.Secret.Reveal() || g.Secret("web")() != second.Secret.Reveal() {
			t.Error("the lost token was not replaced")
		}
		if n := w.stored(t); n != 1 {
			t.Errorf("%d tokens are stored, want 1", n)
		}
		before := w.vault.Calls(loginCall)
		for range 600 {
			for _, id := range w.vault.Tokens() {
				w.vault.Lost(id)
			}
			pass(time.Second)
		}
		if n := w.vault.Calls(loginCall) - before; n < 8 || n > 25 {
			t.Errorf("%d logins in 10 minutes in which each token was lost", n)
		}
	})
}

// TestLost_Exists checks that a token is revoked which Vault has, although an answer was that it does not.
func TestLost_Exists(t *testing.T) {
	const wrong = `403 /renew-self {"errors":["permission denied"]}`
	for name, end := range map[string]func(t *testing.T, w *world, g *agent){
		"login": func(t *testing.T, w *world, g *agent) {
			w.set(wrong)
			pass(20 * time.Minute)
			w.set("")
			if pass(time.Second); !slices.Equal(w.vault.Tokens(), []string{g.Secret("web")()}) {
				t.Errorf("%d tokens in Vault, want the new one", len(w.vault.Tokens()))
			}
		},
		"end of the task": func(t *testing.T, w *world, g *agent) {
			w.role(t, "nomad-workloads", map[string]any{"bound_audiences": "x"}) // no login follows
			w.vault.Expect("(aud)")
			w.set(wrong)
			pass(20 * time.Minute)
			w.set("")
			g.EndTask("web")
			if pass(time.Second); len(w.vault.Tokens()) != 0 || w.stored(t) != 0 {
				t.Errorf("%d tokens in Vault, %d stored", len(w.vault.Tokens()), w.stored(t))
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world) {
				w.setup(t, nil)
				g := w.start(t, alloc("web"))
				_, stop := g.Watch("web")
				defer stop()
				pass(time.Second)
				first := g.Secret("web")()
				end(t, w, g)
				if g.Secret("web")() == first {
					t.Error("the token was not taken for a lost one")
				}
			})
		})
	}
}

// TestFixed checks tokens that renewals do not extend: a new login replaces them before their end, and they are revoked if
// Vault can.
func TestFixed(t *testing.T) {
	for name, c := range map[string]struct {
		role     map[string]any
		fault    string
		logins   [2]int // in 10 hours
		renewals int
		event    string
	}{
		"batch":   {map[string]any{"token_type": "batch", "token_period": nil, "token_ttl": "1h"}, "", [2]int{11, 13}, 0, ""},
		"maximum": {map[string]any{"token_period": nil, "token_ttl": "1h", "token_max_ttl": "90m"}, "", [2]int{7, 9}, 30, ""},
		"no right to renew": {map[string]any{"token_no_default_policy": true, "token_policies": "weak"}, "is not allowed by the policies", [2]int{22, 28}, 30,
			"does not let the token renew itself"},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world) {
				if c.fault != "" {
					w.vault.Expect(c.fault)
				}
				w.setup(t, c.role)
				w.write(t, "sys/policies/acl/weak", map[string]any{"policy": `path "secret/*" { capabilities = ["read"] }`})
				g := w.start(t, alloc("web"))
				tokens, stop := g.Watch("web")
				defer stop()
				first := next(t, tokens)
				if (name == "batch") != (first.Accessor == "") {
					t.Errorf("accessor %q", first.Accessor)
				}
				for range 600 {
					if pass(time.Minute); !slices.Contains(w.vault.Tokens(), g.Secret("web")()) {
						t.Fatal("the current token is not valid")
					}
				}
				if n := w.vault.Calls(loginCall); n < c.logins[0] || n > c.logins[1] {
					t.Errorf("%d logins in 10 hours, want %v", n, c.logins)
				}
				if n := w.vault.Calls(renewCall); n > c.renewals {
					t.Errorf("%d renewals in 10 hours, want at most %d", n, c.renewals)
				}
				if got := w.reported(); c.event == "" && len(got) != 0 || c.event != "" && (len(got) != 1 || !strings.Contains(got[0], c.event)) {
					t.Errorf("events %q, want %q", got, c.event)
				}
				if name == "maximum" && len(w.vault.Tokens()) > 1 { // a login within the last minute
					if pass(2 * time.Minute); len(w.vault.Tokens()) > 1 {
						t.Errorf("%d tokens in Vault, want 1: replaced ones are revoked", len(w.vault.Tokens()))
					}
				}
				g.end(t)
				if n := len(w.vault.Tokens()); name == "maximum" && n != 0 || w.stored(t) != 0 {
					t.Errorf("%d tokens in Vault after the end, %d stored", n, w.stored(t))
				}
			})
		})
	}
}

// TestNoEnd checks a token without an end, which needs no request.
func TestNoEnd(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.setup(t, map[string]any{"token_period": nil, "token_policies": "root", "token_no_default_policy": true})
		a := alloc("web")
		g := w.start(t, a)
		tokens, stop := g.Watch("web")
		defer stop()
		first := next(t, tokens)
		if got := g.Status()[0]; got.Lease != 0 || !got.Expires.IsZero() || got.Renewable || !got.NextRenewal.IsZero() {
			t.Errorf("Status() = %+v", got)
		}
		pass(1000 * time.Hour)
		none(t, tokens)
		g.stop()
		g = w.resume(t, a)
		must(t, g.Confirm(t.Context(), "web"))
		pass(1000 * time.Hour)
		if n, r := w.vault.Calls(loginCall), w.vault.Calls(renewCall); n != 1 || r != 0 || g.Secret("web")() != first.Secret.Reveal() {
			t.Errorf("%d logins, %d renewals", n, r)
		}
		if g.end(t); len(w.vault.Tokens()) != 0 {
			t.Error("the token is not revoked")
		}
	})
}

// TestAllowTokenExpiration checks that such a token is neither renewed nor replaced, and that the next start after its end has
// a valid one, with and without a restart of the agent.
func TestAllowTokenExpiration(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.vault.Expect("unknown token")
		w.setup(t, nil)
		a := alloc("web")
		a.Job.TaskGroups[0].Tasks[0].Vault.AllowTokenExpiration = true
		g := w.start(t, a)
		tokens, stop := g.Watch("web")
		first := next(t, tokens).Secret.Reveal()
		pass(24 * time.Hour)
		none(t, tokens)
		if g.Rejected(t.Context(), "web", first) || !g.Rejected(t.Context(), "web", "an older one") {
			t.Error("Rejected() replaced the token, or has not the current one")
		}
		if n, r := w.vault.Calls(loginCall), w.vault.Calls(renewCall); n != 1 || r != 0 || g.Secret("web")() != first {
			t.Errorf("%d logins, %d renewals", n, r)
		}
		stop()
		g.stop()
		g = w.resume(t, a)
		tokens, stop = g.Watch("web") // of a running task
		defer stop()
		if pass(time.Hour); next(t, tokens).Secret.Reveal() != first || w.vault.Calls(lookupCall) != 0 {
			t.Error("the running task has another token after a restart of the agent")
		}
		must(t, g.Confirm(t.Context(), "web"))
		second := next(t, tokens).Secret.Reveal()
		if second == first || second != g.Secret("web")() {
			t.Error("a new start has the expired token")
		}
		lookups := w.vault.Calls(lookupCall)
		pass(20 * time.Minute)
		must(t, g.Confirm(t.Context(), "web"))
		if none(t, tokens); w.vault.Calls(lookupCall) != lookups {
			t.Error("a token before its end was looked up again")
		}
		pass(20 * time.Minute)
		none(t, tokens)
		must(t, g.Confirm(t.Context(), "web"))
		if got := next(t, tokens).Secret.Reveal(); got == second || got != g.Secret("web")() {
			t.Error("a start after the end of the token has it")
		}
	})
}

// TestIdentity_Renewed checks that a newer identity causes no login, and is used for the next one.
func TestIdentity_Renewed(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.vault.Expect("unknown token")
		w.setup(t, nil)
		g := w.start(t, alloc("web"))
		w.sign("web", map[string]any{"exp": time.Now().Add(time.Hour).Unix()})
		tokens, stop := g.Watch("web")
		defer stop()
		first := next(t, tokens)
		for range 20 {
			pass(30 * time.Minute)
			w.sign("web", map[string]any{"exp": time.Now().Add(time.Hour).Unix()})
		}
		none(t, tokens)
		w.vault.Lost(first.Secret.Reveal())
		pass(20 * time.Minute)
		next(t, tokens)
		if n := w.vault.Calls(loginCall); n != 2 {
			t.Errorf("%d logins, want 2", n)
		}
	})
}

// TestRestart_Lost checks that a restarted agent finds out that the token has ended meanwhile. A start waits for the new one.
func TestRestart_Lost(t *testing.T) {
	for name, c := range map[string]struct{ running bool }{"running": {true}, "starting": {false}} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world) {
				w.vault.Expect("unknown token")
				w.setup(t, nil)
				a := alloc("web")
				g := w.start(t, a)
				tokens, stop := g.Watch("web")
				first := next(t, tokens)
				stop()
				g.stop()
				pass(24 * time.Hour)
				g = w.resume(t, a)
				if !c.running {
					must(t, g.Confirm(t.Context(), "web"))
				}
				tokens, stop = g.Watch("web")
				defer stop()
				got := next(t, tokens)
				if c.running { // the one that the process has, if the login takes long; then the new one
					if got.Secret.Reveal() == first.Secret.Reveal() {
						got = next(t, tokens)
					}
				}
				if got.Secret.Reveal() == first.Secret.Reveal() || !slices.Equal(w.vault.Tokens(), []string{got.Secret.Reveal()}) {
					t.Error("the lost token was not replaced")
				}
			})
		})
	}
}

// TestConfirm_Outage checks that a start with the token of an earlier agent does not wait for a Vault that does not answer,
// and that one without a token does.
func TestConfirm_Outage(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.setup(t, nil)
		a := alloc("web", "db")
		g := w.start(t, a)
		_, stop := g.Watch("web")
		pass(time.Second)
		first := g.Secret("web")()
		stop()
		g.stop()
		w.set("refuse")
		g = w.resume(t, a)
		began := time.Now()
		must(t, g.Confirm(t.Context(), "web"))
		if took := time.Since(began); took > 5*time.Second || g.Secret("web")() != first {
			t.Errorf("Confirm() took %s, or changed the token", took)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
		defer cancel()
		if err := g.Confirm(ctx, "db"); err == nil {
			t.Error("Confirm() did not wait for the first login")
		}
		w.set("")
		must(t, g.Confirm(t.Context(), "db"))
		if g.Secret("db")() == "" {
			t.Error("no token after Confirm()")
		}
	})
}

// TestRejected checks the answer to a request with status 403.
func TestRejected(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.vault.Expect("unknown token")
		w.setup(t, nil)
		g := w.start(t, alloc("web", "idle"))
		if g.Rejected(t.Context(), "idle", "x") || g.Rejected(t.Context(), "unknown", "x") {
			t.Error("Rejected() of a task without a token")
		}
		_, stop := g.Watch("web")
		defer stop()
		pass(time.Minute)
		secret := g.Secret("web")()
		for range 10 {
			if g.Rejected(t.Context(), "web", secret) {
				t.Error("a valid token was replaced")
			}
		}
		if n := w.vault.Calls(lookupCall); n != 1 {
			t.Errorf("%d lookups for 10 refused requests, want 1", n)
		}
		pass(time.Minute)
		w.vault.Lost(secret)
		if !g.Rejected(t.Context(), "web", secret) || g.Secret("web")() == secret {
			t.Error("a lost token was not replaced")
		}
		if !g.Rejected(t.Context(), "web", secret) {
			t.Error("Rejected() does not report that the secret was replaced before")
		}
		pass(time.Minute)
		w.set("hang")
		began := time.Now()
		if g.Rejected(t.Context(), "web", g.Secret("web")()) || time.Since(began) > 5*time.Second {
			t.Errorf("Rejected() took %s without Vault", time.Since(began))
		}
		w.set("")
	})
}

// TestEndTask checks that the token of a dead task is revoked, also by an agent that was restarted meanwhile, and that the task
// logs in again if it runs again.
func TestEndTask(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.setup(t, nil)
		a := alloc("web", "db")
		g := w.start(t, a)
		tokens, stop := g.Watch("web")
		defer stop()
		first := next(t, tokens)
		_, stopDB := g.Watch("db")
		defer stopDB()
		pass(time.Second)
		g.EndTask("web")
		if pass(time.Second); !slices.Equal(w.vault.Tokens(), []string{g.Secret("db")()}) || g.Secret("web")() != "" {
			t.Error("the token of the dead task is not revoked, or another one is")
		}
		again, stopAgain := g.Watch("web")
		defer stopAgain()
		if second := next(t, again); second.Secret.Reveal() == first.Secret.Reveal() || next(t, tokens) != second {
			t.Error("a task that runs again has no new token, or not each subscriber has it")
		}
		g.stop()
		w.restart()
		run(t, w.node.Run)
		w.manager(a).EndTask("web") // Prepare has not been called
		if pass(time.Second); len(w.vault.Tokens()) != 1 || w.stored(t) != 1 {
			t.Errorf("%d tokens in Vault, %d stored, want that of the other task", len(w.vault.Tokens()), w.stored(t))
		}
	})
}

// TestEndTask_DuringLogin checks that a token is revoked which Vault makes for a task that has ended meanwhile.
func TestEndTask_DuringLogin(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.setup(t, nil)
		g := w.start(t, alloc("web"))
		w.set("slow")
		_, stop := g.Watch("web")
		defer stop()
		if pass(time.Second); len(w.vault.Tokens()) != 1 {
			t.Fatal("no login in progress")
		}
		g.end(t)
		w.set("")
		if pass(time.Minute); len(w.vault.Tokens()) != 0 || w.stored(t) != 0 {
			t.Errorf("%d tokens in Vault after the end, %d stored", len(w.vault.Tokens()), w.stored(t))
		}
	})
}

// TestStop_DuringLogin checks that a token is revoked which Vault makes for an agent that stops meanwhile, and that the task
// gets no event.
func TestStop_DuringLogin(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.setup(t, nil)
		a := alloc("web")
		g := w.start(t, a)
		w.set("slow")
		_, stop := g.Watch("web")
		defer stop()
		pass(4500 * time.Millisecond)
		g.stop()
		if got := w.reported(); len(got) != 0 || w.stored(t) != 1 {
			t.Errorf("events %q, %d tokens are stored", got, w.stored(t))
		}
		w.set("")
		g = w.resume(t, a)
		if pass(time.Minute); len(w.vault.Tokens()) != 0 || w.stored(t) != 0 {
			t.Errorf("%d tokens in Vault after the next start, %d stored", len(w.vault.Tokens()), w.stored(t))
		}
		g.end(t)
		g.stop()
		g = w.resume(t, a)
		w.set("hang")
		_, stop = g.Watch("web")
		defer stop()
		pass(time.Second)
		began := time.Now()
		g.stopNode() // first, so that the task still waits
		g.stopAlloc()
		if took := time.Since(began); took > 1100*time.Millisecond || len(w.reported()) != 0 {
			t.Errorf("the stop of an agent took %s, or the task has an event", took)
		}
	})
}

// TestEnd checks that the end of an allocation revokes all its tokens, and takes one second at most.
func TestEnd(t *testing.T) {
	for name, c := range map[string]struct {
		fault string
		after func(t *testing.T, w *world, g *agent)
	}{
		"Vault answers":                 {"", func(*testing.T, *world, *agent) {}},
		"Vault is down for a time":      {"refuse", func(_ *testing.T, w *world, _ *agent) { pass(10 * time.Hour); w.set(""); pass(6 * time.Minute) }},
		"Vault hangs for a time":        {"hang", func(_ *testing.T, w *world, _ *agent) { pass(10 * time.Hour); w.set(""); pass(6 * time.Minute) }},
		"the agent restarts":            {"refuse", func(t *testing.T, w *world, g *agent) { w.leftovers(t, g, false) }},
		"the agent has the allocation":  {"refuse", func(t *testing.T, w *world, g *agent) { w.leftovers(t, g, true) }},
		"Vault fails and then restarts": {"500 * x", func(_ *testing.T, w *world, _ *agent) { pass(time.Hour); w.set(""); pass(6 * time.Minute) }},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world) {
				w.setup(t, map[string]any{"token_period": "40h"}) // longer than the outages
				g := w.start(t, alloc("web", "db"))
				for _, task := range []string{"web", "db"} {
					_, stop := g.Watch(task)
					defer stop()
				}
				if pass(30 * time.Hour); len(w.vault.Tokens()) != 2 {
					t.Fatalf("%d tokens, want 2", len(w.vault.Tokens()))
				}
				w.set(c.fault)
				g.end(t)
				c.after(t, w, g)
				if n := len(w.vault.Tokens()); n != 0 {
					t.Errorf("%d tokens are left in Vault", n)
				}
				if n := w.stored(t); n != 0 {
					t.Errorf("%d tokens are left in the state of the client", n)
				}
			})
		})
	}
}

// leftovers starts the next agent after Vault is back. It revokes the tokens of an allocation that it has a minute after their
// end.
func (w *world) leftovers(t *testing.T, g *agent, has bool) {
	g.stop()
	w.set("")
	w.restart()
	w.node.Leftovers(func(string) bool { return has })
	run(t, w.node.Run)
	if pass(time.Second); has {
		pass(time.Minute)
	}
}

// TestReplaced_Restart checks that a restart of the agent neither cuts nor extends the minute of a replaced token.
func TestReplaced_Restart(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.setup(t, map[string]any{"token_type": "service", "token_period": nil, "token_ttl": "1h", "token_max_ttl": "1h"})
		a := alloc("web")
		g := w.start(t, a)
		tokens, stop := g.Watch("web")
		defer stop()
		next(t, tokens)
		for first := g.Secret("web")(); g.Secret("web")() == first; {
			pass(time.Second)
		}
		pass(20 * time.Second)
		g.stop()
		w.resume(t, a)
		if pass(30 * time.Second); len(w.vault.Tokens()) != 2 {
			t.Errorf("%d tokens in Vault within the minute, want the replaced one too", len(w.vault.Tokens()))
		}
		if pass(15 * time.Second); len(w.vault.Tokens()) != 1 {
			t.Errorf("%d tokens in Vault after the minute, want 1", len(w.vault.Tokens()))
		}
	})
}

// TestEnd_AfterRestart checks an allocation that the servers stopped while the agent was not running, and whose hooks the next
// agent runs without Prepare.
func TestEnd_AfterRestart(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.setup(t, nil)
		a := alloc("web", "db")
		g := w.start(t, a)
		_, stop := g.Watch("web")
		defer stop()
		pass(time.Second)
		g.stop()
		w.restart()
		w.node.Leftovers(func(id string) bool { return id == a.ID })
		run(t, w.node.Run)
		if pass(time.Minute); len(w.vault.Tokens()) != 1 {
			t.Fatal("the token of an allocation that the node has was revoked")
		}
		w.manager(a).End(t.Context())
		if n := len(w.vault.Tokens()); n != 0 || w.stored(t) != 0 {
			t.Errorf("%d tokens are left in Vault, %d stored", n, w.stored(t))
		}
	})
}

// TestRevoke_Denied checks that a token which may not revoke itself does not remain in the queue.
func TestRevoke_Denied(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.vault.Expect("is not allowed by the policies")
		w.setup(t, map[string]any{"token_no_default_policy": true, "token_policies": "weak"})
		g := w.start(t, alloc("web"))
		_, stop := g.Watch("web")
		defer stop()
		pass(time.Second)
		g.end(t)
		synctest.Wait()
		if w.stored(t) != 0 || !strings.Contains(w.log.String(), "does not let a token revoke itself") {
			t.Errorf("%d tokens are stored, log %s", w.stored(t), w.log)
		}
	})
}

// TestMany checks that tasks log in at the same time, within a limit.
func TestMany(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.setup(t, nil)
		names := strings.Split("abcdefghijklmnopqrstuvwxyz0123456789", "")
		g := w.start(t, alloc(names...))
		for _, name := range names {
			_, stop := g.Watch(name)
			defer stop()
		}
		pass(time.Second)
		for _, name := range names {
			if g.Secret(name)() == "" {
				t.Errorf("no token of %s", name)
			}
		}
		if got := g.Status(); len(got) != len(names) {
			t.Errorf("Status() has %d tasks, want %d", len(got), len(names))
		}
		if g.end(t); len(w.vault.Tokens()) != 0 {
			t.Errorf("%d tokens are left in Vault", len(w.vault.Tokens()))
		}
	})
}
