package token_test

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// TestFailures checks that a failed login is repeated until it works, with one event for the cause and one for the success.
func TestFailures(t *testing.T) {
	fault := func(f string) func(*testing.T, *world) { return func(_ *testing.T, w *world) { w.set(f) } }
	role := func(fields map[string]any) func(*testing.T, *world) {
		return func(t *testing.T, w *world) { w.role(t, "nomad-workloads", fields) }
	}
	config := func(fields map[string]any) func(*testing.T, *world) {
		return func(t *testing.T, w *world) { w.config(t, fields) }
	}
	const refused = 5 * time.Minute
	for name, c := range map[string]struct {
		fail, mend func(t *testing.T, w *world)
		fault      string // that the stand-in records
		want       string
		within     time.Duration // of the success after the cause is gone
	}{
		"unreachable":  {fault("refuse"), fault(""), "", "Vault is unreachable", time.Minute},
		"hangs":        {fault("hang"), fault(""), "", "Vault does not answer", 100 * time.Second},
		"sealed":       {func(_ *testing.T, w *world) { w.vault.Seal() }, func(_ *testing.T, w *world) { w.vault.Unseal() }, "", "Vault is sealed", time.Minute},
		"fails":        {fault("502 * x"), fault(""), "", "Vault answered with status 502", time.Minute},
		"limits":       {fault(`429 * {"errors":["request path quota"]}`), fault(""), "", "Vault answered with status 429", time.Minute},
		"not of Vault": {fault("200 * <html>"), fault(""), "", "the answer is malformed", time.Minute},
		"no token":     {fault(`200 /login {"auth":{"client_token":"","lease_duration":10}}`), fault(""), "", "the answer is malformed", time.Minute},
		"no auth":      {fault(`200 /login {"data":{}}`), fault(""), "", "the answer is malformed", time.Minute},
		"token of two lines": {fault(`200 /login {"auth":{"client_token":"a\nb","accessor":"c","lease_duration":10}}`), fault(""), "",
			"the answer is malformed", time.Minute},
		"huge token": {fault(`200 /login {"auth":{"client_token":"` + strings.Repeat("a", 20<<10) + `","accessor":"c","lease_duration":10}}`), fault(""), "",
			"the answer is malformed", time.Minute},
		"token as accessor": {fault(`200 /login {"auth":{"client_token":"hvs.canary","accessor":"hvs.canary","lease_duration":10}}`), fault(""), "",
			"the answer is malformed", time.Minute},
		"part of the token as accessor": {fault(`200 /login {"auth":{"client_token":"hvs.0123456789abcdefXYZ","accessor":"0123456789abcdef","lease_duration":10}}`),
			fault(""), "", "the answer is malformed", time.Minute},
		"token in the accessor": {fault(`200 /login {"auth":{"client_token":"hvs.canary","accessor":"a.hvs.canary","lease_duration":10}}`), fault(""), "",
			"the answer is malformed", time.Minute},
		"path as accessor": {fault(`200 /login {"auth":{"client_token":"a","accessor":"../b","lease_duration":10}}`), fault(""), "",
			"the answer is malformed", time.Minute},
		"huge lease":  {fault(`200 /login {"auth":{"client_token":"a","accessor":"c","lease_duration":1e18}}`), fault(""), "", "the answer is malformed", time.Minute},
		"huge answer": {fault(`200 /login {"data":{"x":"` + strings.Repeat("a", 5<<20) + `"}}`), fault(""), "", "the answer is larger than 4 MiB", time.Minute},
		"no auth method": {func(_ *testing.T, w *world) {
			s := w.cluster.Settings()
			s.AuthPath = "other"
			_ = w.cluster.Replace(s) // the settings were valid before
		}, func(_ *testing.T, w *world) {
			s := w.cluster.Settings()
			s.AuthPath = "jwt-nomad"
			_ = w.cluster.Replace(s) // the settings were valid before
		}, "no auth method is mounted there", `auth method "auth/other" does not exist in Vault`, refused},
		"no role":        {config(map[string]any{"default_role": "none"}), config(nil), "could not be found", "the default role of the auth method does not exist", refused},
		"wrong audience": {role(map[string]any{"bound_audiences": "x"}), role(nil), "(aud)", "does not accept the audience", refused},
		"wrong claim": {role(map[string]any{"bound_claims": map[string]any{"nomad_namespace": "prod"}}), role(nil), "bound claim values",
			`claim "nomad_namespace" of the identity does not match bound_claims`, refused},
		"missing claim": {role(map[string]any{"claim_mappings": map[string]any{"team": "team"}}), role(nil), "not found in token",
			`the identity has no claim "team", which user_claim or claim_mappings`, refused},
		"wrong issuer": {config(map[string]any{"bound_issuer": "https://x"}), config(nil), "(iss)", "does not accept the issuer", refused},
		"no keys":      {func(_ *testing.T, w *world) { w.noKeys.Store(true) }, func(_ *testing.T, w *world) { w.noKeys.Store(false) }, "jwks", "cannot get the keys of this cluster", refused},
		// A new identity is tried at once.
		"expired": {func(_ *testing.T, w *world) { w.sign("web", map[string]any{"exp": 1}) }, func(_ *testing.T, w *world) { w.sign("web", nil) },
			"expired", "the identity has expired", time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world) {
				w.setup(t, nil)
				a := alloc("web")
				g := w.start(t, a)
				c.fail(t, w)
				if c.fault != "" {
					w.vault.Expect(c.fault)
				}
				_, stop := g.Watch("web")
				defer stop()
				pass(10 * time.Minute)
				got := w.reported()
				every := "1m0s"
				if c.fault != "" {
					every = "5m0s"
				}
				if len(got) != 1 || !strings.HasPrefix(got[0], "web: Login to Vault failed: ") || !strings.Contains(got[0], c.want) ||
					!strings.HasSuffix(got[0], ". It is tried again, at least every "+every) {
					t.Fatalf("events %.400q, want one with %q", got, c.want)
				}
				if s := g.Status()[0]; !strings.Contains(s.Error, c.want) || s.ErrorAt.IsZero() || !s.Expires.IsZero() {
					t.Errorf("Status() = %+v", s)
				}
				if n := w.vault.Calls(loginCall); c.fault != "" && (n > 8) {
					t.Errorf("%d logins in 10 minutes for a refused identity", n)
				}
				c.mend(t, w)
				if pass(c.within); g.Secret("web")() == "" {
					t.Fatal("no token after the cause is gone")
				}
				if got := w.reported(); len(got) != 1 || got[0] != "web: Login to Vault succeeded" || g.Status()[0].Error != "" {
					t.Errorf("events %q, want one about the success", got)
				}
			})
		})
	}
}

// TestNoIdentity checks the event of a task without an identity for Vault, and that an update with one mends it.
func TestNoIdentity(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.setup(t, nil)
		a := alloc("web")
		a.Job.TaskGroups[0].Tasks[0].Identities = nil
		g := w.resume(t, a)
		_, stop := g.Watch("web")
		defer stop()
		pass(time.Second)
		if got := w.reported(); len(got) != 1 || !strings.Contains(got[0], `has no identity "vault_default": set default_identity in the vault block of the servers`) {
			t.Errorf("events %q", got)
		}
		pass(5 * time.Hour)
		if got := w.reported(); len(got) != 0 || w.vault.Calls(loginCall) != 0 {
			t.Errorf("more events %q, or a login", got)
		}
		if g.Update(alloc("web")) {
			t.Error("Update() asks for a second Run")
		}
		w.sign("web", nil)
		if pass(time.Second); g.Secret("web")() == "" {
			t.Error("no token after the update")
		}
	})
}

// TestHostile checks leases that no Vault gives: the number of requests is limited, and nothing overflows.
func TestHostile(t *testing.T) {
	for name, c := range map[string]struct {
		login, other string
		renewable    bool
	}{
		"negative lease":           {"-5", "", true},
		"very negative":            {"-9223372036854775808", "", true},
		"very long":                {"9223372036854775807", "", true},
		"short":                    {"1", "", true},
		"short, not renewed":       {"1", "", false},
		"renewals without a token": {"10", `{"auth":null}`, true},
		"lookups of another type":  {"10", `{"data":{"ttl":"x","renewable":[]}}`, true},
		"renewals of no time":      {"10", `{"auth":{"client_token":"a","lease_duration":0,"renewable":true}}`, true},
		"renewals of the past":     {"10", `{"auth":{"client_token":"a","lease_duration":-9223372036854775808,"renewable":true}}`, true},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world) {
				h := &hostile{login: fmt.Sprintf(`{"auth":{"client_token":"a","accessor":"b","lease_duration":%s,"renewable":%t}}`, c.login, c.renewable), other: c.other}
				if h.other == "" {
					h.other = h.login
				}
				s := w.cluster.Settings()
				s.Transport = h
				must(t, w.cluster.Replace(s))
				g := w.start(t, alloc("web"))
				tokens, stop := g.Watch("web")
				defer stop()
				for range 60 {
					pass(10 * time.Second)
					g.Rejected(t.Context(), "web", g.Secret("web")())
					g.Status()
				}
				next(t, tokens)
				if n := h.count(); n > 3*600 {
					t.Errorf("%d requests in 10 minutes", n)
				}
				g.end(t)
			})
		})
	}
}
