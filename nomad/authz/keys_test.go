package authz_test

import (
	"log/slog"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/acl"
	"github.com/open-nomad/open-nomad/nomad/authz"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// The right to Consul keys follows the mode at once, also for cached rights.
func TestConsulKeysOfWorkloads(t *testing.T) {
	g, native := guard(t), true
	g.Authority = authz.New(authz.Config{Enforce: true, Store: func() *state.Store { return g.store }, Tokens: g.issued,
		Keys: func(*state.Snapshot) bool { return native }, Now: func() time.Time { return g.now }, Log: slog.New(slog.DiscardHandler)})
	token := g.workload("apps", "api", "g", "t")
	key := acl.OfVariable("apps", "consul/a", acl.VariableRead)
	for _, native = range []bool{true, false, true} {
		if got := g.allows(token, key); got != native {
			t.Errorf("native = %t: reads the key: %t", native, got)
		}
	}
	if g.allows(token, acl.OfVariable("other", "consul/a", acl.VariableRead)) || g.allows(token, acl.OfVariable("apps", "consul/a", acl.VariableWrite)) ||
		g.allows("", key) {
		t.Error("a workload reads keys of another namespace or writes one, or an anonymous caller reads one")
	}
}
