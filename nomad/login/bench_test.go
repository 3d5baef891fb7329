package login_test

import (
	"testing"

	"github.com/open-nomad/open-nomad/internal/testidp"
	"github.com/open-nomad/open-nomad/nomad/login"
	"github.com/open-nomad/open-nomad/nomad/rbac"
)

// BenchmarkLogin measures a login with a token whose key is cached, and a hundred rules.
func BenchmarkLogin(b *testing.B) {
	p, clk := testidp.New(b), newClock()
	m := jwtMethod(rbac.AuthMethodConfig{JWKSURL: p.URL + "/keys", JWKSCACert: p.CA,
		ClaimMappings: map[string]string{"team": "team"}, ListClaimMappings: map[string]string{"groups": "groups"}})
	token := p.Token(map[string]any{"exp": clk.at.Unix() + 60, "team": "eng", "groups": []string{"ops", "dev"}})
	desk := login.New(login.Config{Now: clk.now})
	var rules []*rbac.BindingRule
	for range 100 {
		rules = append(rules, rule("policy", "${value.team}", `"ops" in list.groups and value.team != "x"`))
	}
	if _, err := desk.Login(b.Context(), m, token); err != nil {
		b.Fatal(err)
	}
	b.Run("token", func(b *testing.B) {
		for b.Loop() {
			if _, err := desk.Login(b.Context(), m, token); err != nil {
				b.Fatal(err)
			}
		}
	})
	claims, err := desk.Login(b.Context(), m, token)
	if err != nil {
		b.Fatal(err)
	}
	b.Run("rules", func(b *testing.B) {
		for b.Loop() {
			if g := login.Bind(rules, claims, world{}); len(g.Policies) != 1 {
				b.Fatal(g)
			}
		}
	})
}
