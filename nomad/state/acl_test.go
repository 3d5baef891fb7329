package state_test

import (
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-memdb"

	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rbac"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// house is a store with helpers for ACL writes.
type house struct {
	*testing.T
	*state.Store
	index uint64
}

func newHouse(t *testing.T) *house {
	return &house{T: t, Store: state.New(slog.New(slog.DiscardHandler)), index: 10}
}

// try writes with the next index.
func (h *house) try(fn func(index uint64) (*state.Changes, error)) error {
	h.index++
	_, err := fn(h.index)
	return err
}

func (h *house) must(fn func(index uint64) (*state.Changes, error)) {
	h.Helper()
	if err := h.try(fn); err != nil {
		h.Fatal(err)
	}
}

func (h *house) policies(policies ...*rbac.Policy) {
	h.Helper()
	h.must(func(i uint64) (*state.Changes, error) {
		return h.UpsertACLPolicies(i, &message.ACLPolicyUpsertRequest{Policies: policies})
	})
}

func (h *house) roles(roles ...*rbac.Role) error {
	return h.try(func(i uint64) (*state.Changes, error) {
		return h.UpsertACLRoles(i, &message.ACLRolesUpsertRequest{ACLRoles: roles})
	})
}

func (h *house) tokens(tokens ...*rbac.Token) error {
	return h.try(func(i uint64) (*state.Changes, error) {
		return h.UpsertACLTokens(i, &message.ACLTokenUpsertRequest{Tokens: tokens})
	})
}

func (h *house) dropRole(id string) error {
	return h.try(func(i uint64) (*state.Changes, error) {
		return h.DeleteACLRoles(i, &message.ACLRolesDeleteByIDRequest{ACLRoleIDs: []string{id}})
	})
}

func roleOf(id, name string, policies ...string) *rbac.Role {
	r := &rbac.Role{ID: id, Name: name}
	for _, p := range policies {
		r.Policies = append(r.Policies, &rbac.RolePolicyLink{Name: p})
	}
	return r
}

// named joins the names of a sequence.
func named[T any](seq iter.Seq[*T], name func(*T) string) string {
	var out []string
	for v := range seq {
		out = append(out, name(v))
	}
	return strings.Join(out, " ")
}

// Links to deleted or renamed objects are corrected when they are read. Watches of a token or role
// fire.
func TestLinksAreAsTheyAreNow(t *testing.T) {
	h := newHouse(t)
	h.policies(&rbac.Policy{Name: "p"}, &rbac.Policy{Name: "q"})
	if err := h.roles(roleOf("1", "one", "p", "q"), roleOf("2", "two", "q")); err != nil {
		t.Fatal(err)
	}
	if err := h.tokens(&rbac.Token{AccessorID: "t", SecretID: "s",
		Roles: []*rbac.TokenRoleLink{{ID: "1", Name: "one"}, {ID: "2"}, nil, {ID: "none"}}}); err != nil {
		t.Fatal(err)
	}
	shown := func() string {
		snap := h.Snapshot()
		out := ""
		for _, l := range snap.ACLToken(nil, "t").Roles {
			out += l.ID + "=" + l.Name + "["
			for _, p := range snap.ACLRole(nil, l.ID).Policies {
				out += p.Name
			}
			out += "] "
		}
		return out
	}
	steps := []struct {
		name string
		do   func() error
		want string
	}{
		{"as made", func() error { return nil }, "1=one[pq] 2=two[q] "},
		{"a policy is deleted", func() error {
			return h.try(func(i uint64) (*state.Changes, error) {
				return h.DeleteACLPolicies(i, &message.ACLPolicyDeleteRequest{Names: []string{"q", "none"}})
			})
		}, "1=one[p] 2=two[] "},
		{"and made again", func() error { h.policies(&rbac.Policy{Name: "q"}); return nil }, "1=one[pq] 2=two[q] "},
		{"a role has another name", func() error { return h.roles(roleOf("2", "three", "q")) }, "1=one[pq] 2=three[q] "},
		{"a role is deleted", func() error { return h.dropRole("1") }, "2=three[q] "},
	}
	for _, step := range steps {
		ws := memdb.NewWatchSet()
		before := h.Snapshot().ACLToken(ws, "t")
		for _, l := range before.Roles {
			h.Snapshot().ACLRole(ws, l.ID)
		}
		if err := step.do(); err != nil {
			t.Fatalf("%s: %v", step.name, err)
		}
		if got := shown(); got != step.want {
			t.Errorf("%s: %q, want %q", step.name, got, step.want)
		}
		limit := time.Minute
		if step.name == "as made" {
			limit = time.Millisecond
		}
		if timeout := ws.Watch(time.After(limit)); timeout != (step.name == "as made") {
			t.Errorf("%s: woken %t", step.name, !timeout)
		}
	}
	if got := h.Snapshot().ACLTokenBySecret(nil, "s"); got == nil || len(got.Roles) != 1 {
		t.Errorf("by its secret the token is %+v", got)
	}
	if h.Snapshot().ACLTokenBySecret(nil, "") != nil || h.Snapshot().ACLTokenBySecret(nil, "s2") != nil {
		t.Error("an unknown secret belongs to a token")
	}
}

// A policy applies to the workloads of exactly its job, or of all jobs of its namespace.
func TestPoliciesOfJobs(t *testing.T) {
	h := newHouse(t)
	h.policies(&rbac.Policy{Name: "all", JobACL: &rbac.JobACL{Namespace: "a"}},
		&rbac.Policy{Name: "job", JobACL: &rbac.JobACL{Namespace: "a", JobID: "j"}},
		&rbac.Policy{Name: "task", JobACL: &rbac.JobACL{Namespace: "a", JobID: "j", Group: "g", Task: "t"}}, &rbac.Policy{Name: "none"},
		&rbac.Policy{Name: "longer", JobACL: &rbac.JobACL{Namespace: "a", JobID: "jj"}},
		&rbac.Policy{Name: "other", JobACL: &rbac.JobACL{Namespace: "aa", JobID: "j"}})
	for at, want := range map[[2]string]string{{"a", "j"}: "job task all", {"a", "jj"}: "longer all", {"a", "x"}: "all", {"a", ""}: "all",
		{"aa", "j"}: "other", {"", ""}: "", {"aa", ""}: ""} {
		name := func(p *rbac.Policy) string { return p.Name }
		if got := named(h.Snapshot().ACLPoliciesByJob(nil, at[0], at[1]), name); got != want {
			t.Errorf("of %q: %q, want %q", at, got, want)
		}
	}
	for what, want := range map[[4]string]bool{{"a", "j", "g", "t"}: true, {"a", "j", "g", "tt"}: false, {"a", "j", "gg", "t"}: false,
		{"a", "jj", "g", "t"}: false, {"aa", "j", "g", "t"}: false} {
		if got := h.Snapshot().ACLPolicy(nil, "task").JobACL.Admits(what[0], what[1], what[2], what[3]); got != want {
			t.Errorf("%q is admitted: %t", what, got)
		}
	}
	if (*rbac.JobACL)(nil).Admits("a", "j", "g", "t") {
		t.Error("a policy for no workload admits one")
	}
}

func TestTokensByTheirEnd(t *testing.T) {
	h := newHouse(t)
	at := func(s int64) *time.Time { v := time.Unix(s, 5).UTC(); return &v }
	if err := h.tokens(&rbac.Token{AccessorID: "late", SecretID: "1", ExpirationTime: at(300)},
		&rbac.Token{AccessorID: "never", SecretID: "2"},
		&rbac.Token{AccessorID: "soon", SecretID: "3", ExpirationTime: at(70), Global: true},
		&rbac.Token{AccessorID: "old", SecretID: "4", ExpirationTime: at(-9)},
		&rbac.Token{AccessorID: "zero", SecretID: "5", ExpirationTime: &time.Time{}}); err != nil {
		t.Fatal(err)
	}
	accessor := func(t *rbac.Token) string { return t.AccessorID }
	for then, want := range map[int64]string{-10: "", 0: "old", 70: "old", 71: "old soon", 1000: "old soon late"} {
		if got := named(h.Snapshot().ACLTokensExpired(time.Unix(then, 0)), accessor); got != want {
			t.Errorf("at %d expired: %q, want %q", then, got, want)
		}
	}
	for global, want := range map[bool]string{true: "soon", false: "late never old zero"} {
		if got := named(h.Snapshot().ACLTokensGlobal(nil, global), accessor); got != want {
			t.Errorf("global %t: %q, want %q", global, got, want)
		}
	}
	// A token keeps its secret and its expiration, and cannot have the secret of another token.
	later := &rbac.Token{AccessorID: "soon", SecretID: "new", ExpirationTime: at(9000), CreateTime: *at(1), Policies: []string{"p"}}
	if err := h.tokens(later); err != nil {
		t.Fatal(err)
	}
	if got := h.Snapshot().ACLToken(nil, "soon"); got.SecretID != "3" || !got.ExpirationTime.Equal(*at(70)) || len(got.Policies) != 1 ||
		got.CreateIndex == got.ModifyIndex {
		t.Errorf("the token is %+v", got.Stub())
	}
	if err := h.tokens(&rbac.Token{AccessorID: "thief", SecretID: "1"}); err == nil || strings.Contains(err.Error(), "secret of token 1") {
		t.Errorf("the secret of another: %v", err)
	}
}

func TestRulesOfRoles(t *testing.T) {
	h := newHouse(t)
	h.policies(&rbac.Policy{Name: "p"})
	if err := h.roles(roleOf("1", "one", "p")); err != nil {
		t.Fatal(err)
	}
	for what, r := range map[string]*rbac.Role{"name of another": roleOf("2", "one", "p"),
		"no policy of that name": roleOf("3", "three", "none"), "no ID": roleOf("", "x", "p")} {
		if err := h.roles(r); err == nil {
			t.Errorf("%s: stored", what)
		}
	}
	if err := h.dropRole("none"); !errors.Is(err, apierror.ErrACLRoleNotFound) {
		t.Errorf("a role that there is none of: %v", err)
	}
	if h.Snapshot().ACLRoleByName(nil, "one").ID != "1" || h.Snapshot().ACLRoleByName(nil, "on") != nil {
		t.Error("roles are not found by their name")
	}
}

func TestMethodsAndTheirRules(t *testing.T) {
	h := newHouse(t)
	method := func(name string, first bool) error {
		return h.try(func(i uint64) (*state.Changes, error) {
			return h.UpsertACLAuthMethods(i,
				&message.ACLAuthMethodUpsertRequest{AuthMethods: []*rbac.AuthMethod{{Name: name, Type: "JWT", Default: first}}})
		})
	}
	rule := func(id, of string) error {
		return h.try(func(i uint64) (*state.Changes, error) {
			return h.UpsertACLBindingRules(i, &message.ACLBindingRulesUpsertRequest{ACLBindingRules: []*rbac.BindingRule{{ID: id, AuthMethod: of}}})
		})
	}
	if err := errors.Join(method("a", true), method("b", false), rule("1", "a"), rule("2", "b"), rule("3", "a")); err != nil {
		t.Fatal(err)
	}
	if method("b", true) == nil || rule("4", "none") == nil {
		t.Error("two defaults of a type, or a rule of no method")
	}
	id := func(r *rbac.BindingRule) string { return r.ID }
	if got := named(h.Snapshot().ACLBindingRulesByMethod(nil, "a"), id); got != "1 3" {
		t.Errorf("rules of a: %q", got)
	}
	if m := h.Snapshot().ACLDefaultAuthMethod(nil, "JWT"); m == nil || m.Name != "a" || h.Snapshot().ACLDefaultAuthMethod(nil, "OIDC") != nil {
		t.Errorf("the default is %v", m)
	}
	drop := func() error {
		return h.try(func(i uint64) (*state.Changes, error) {
			return h.DeleteACLAuthMethods(i, &message.ACLAuthMethodDeleteRequest{Names: []string{"a"}})
		})
	}
	if err := drop(); err != nil {
		t.Fatal(err)
	}
	if got := named(h.Snapshot().ACLBindingRules(nil), id); got != "2" {
		t.Errorf("rules without their method: %q", got)
	}
	if err := drop(); !errors.Is(err, apierror.ErrACLAuthMethodNotFound) {
		t.Errorf("a deleted method: %v", err)
	}
}

func TestTheFirstTokenIsNoted(t *testing.T) {
	h := newHouse(t)
	first := func(accessor string, reset uint64) error {
		return h.try(func(i uint64) (*state.Changes, error) {
			return h.BootstrapACL(i, &message.ACLTokenBootstrapRequest{
				Token:      &rbac.Token{AccessorID: accessor, SecretID: accessor},
				ResetIndex: reset,
			})
		})
	}
	if _, done := h.Snapshot().ACLBootstrapped(); done {
		t.Error("a new store has a first token")
	}
	if err := first("a", 0); err != nil {
		t.Fatal(err)
	}
	at, done := h.Snapshot().ACLBootstrapped()
	if !done || at != h.index {
		t.Errorf("noted at %d, %t", at, done)
	}
	if err := first("b", 0); !errors.Is(err, apierror.ErrACLBootstrapped) ||
		!strings.Contains(err.Error(), fmt.Sprintf("(reset index: %d)", at)) {
		t.Errorf("again: %v", err)
	}
	if err := first("b", at+1); !errors.Is(err, apierror.ErrACLBootstrapReset) {
		t.Errorf("with another index: %v", err)
	}
	if err := first("b", at); err != nil {
		t.Errorf("with the index: %v", err)
	}
	// Only one of two bootstraps in a transaction creates a token.
	h = newHouse(t)
	var errs [2]error
	if h.WriteBatch(20, func() bool {
		for i, accessor := range []string{"a", "b"} {
			errs[i] = first(accessor, 0)
		}
		return true
	}); errs[0] != nil || !errors.Is(errs[1], apierror.ErrACLBootstrapped) {
		t.Errorf("two at once: %v", errs)
	}
}

func TestOneTimeTokens(t *testing.T) {
	h := newHouse(t)
	now := time.Unix(100, 0).UTC()
	make := func(secret, accessor string, ends int64) error {
		return h.try(func(i uint64) (*state.Changes, error) {
			return h.UpsertOneTimeToken(i, &rbac.OneTimeToken{OneTimeSecretID: secret, AccessorID: accessor, ExpiresAt: time.Unix(ends, 0).UTC()})
		})
	}
	use := func(secret string, at time.Time) error {
		return h.try(func(i uint64) (*state.Changes, error) {
			return h.DeleteOneTimeTokens(i, &message.OneTimeTokenDeleteRequest{OneTimeSecretID: secret, Timestamp: at})
		})
	}
	if err := errors.Join(make("1", "a", 200), make("2", "a", 200), make("3", "b", 100), make("4", "c", 99)); err != nil {
		t.Fatal(err)
	}
	for secret, want := range map[string]bool{"1": false, "2": true, "3": true} {
		if got := h.Snapshot().OneTimeToken(nil, secret) != nil; got != want {
			t.Errorf("one-time token %s exists: %t", secret, got)
		}
	}
	if make("2", "z", 200) == nil || make("", "z", 200) == nil {
		t.Error("a secret that is in use, or none, is stored")
	}
	for _, secret := range []string{"1", "3", "none"} { // replaced, over at this moment, unknown
		if err := use(secret, now); !errors.Is(err, apierror.ErrPermissionDenied) {
			t.Errorf("use of %s: %v", secret, err)
		}
	}
	if err := errors.Join(use("2", now)); err != nil {
		t.Errorf("use of 2: %v", err)
	}
	if err := use("2", now); !errors.Is(err, apierror.ErrPermissionDenied) {
		t.Errorf("second use: %v", err)
	}
	secret := func(o *rbac.OneTimeToken) string { return o.OneTimeSecretID }
	if got := named(h.Snapshot().OneTimeTokensExpired(now), secret); got != "4 3" {
		t.Errorf("expired: %q", got)
	}
	h.must(func(i uint64) (*state.Changes, error) {
		return h.ExpireOneTimeTokens(i, &message.OneTimeTokenExpireRequest{Timestamp: time.Unix(99, 0)})
	})
	if got := named(h.Snapshot().OneTimeTokensExpired(now), secret); got != "3" {
		t.Errorf("left: %q", got)
	}
	h.must(func(i uint64) (*state.Changes, error) {
		return h.DeleteACLTokens(i, &message.ACLTokenDeleteRequest{AccessorIDs: []string{"b"}})
	})
	if h.Snapshot().OneTimeToken(nil, "3") != nil {
		t.Error("a one-time token outlives its ACL token")
	}
}
