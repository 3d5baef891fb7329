package replication_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/codec"
	"github.com/open-nomad/open-nomad/nomad/fsm"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/quota"
	"github.com/open-nomad/open-nomad/nomad/rbac"
	"github.com/open-nomad/open-nomad/nomad/replication"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// region has a state and answers as the authoritative region.
type region struct {
	testing.TB
	mu      sync.Mutex
	machine *fsm.FSM
	index   uint64
	typ     string // type of the token
	broken  error
	refuse  string // the name of a namespace that cannot be stored
	lacks   string // a method that the region does not have
}

func newRegion(t testing.TB) *region {
	log := slog.New(slog.DiscardHandler)
	return &region{TB: t, machine: fsm.New(state.New(log), nil, log), index: 10, typ: rbac.ManagementToken}
}

func (r *region) snap() *state.Snapshot { return r.machine.State().Snapshot() }

// apply writes a log entry.
func (r *region) apply(_ context.Context, number message.CommandType, payload any) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if req, ok := payload.(*message.NamespaceUpsertRequest); ok &&
		slices.ContainsFunc(req.Namespaces, func(n *nomad.Namespace) bool { return n.Name == r.refuse }) {
		return errors.New("refused")
	}
	data, err := codec.EncodeCommand(number, payload)
	if err != nil {
		return err
	}
	r.index++
	if err, ok := r.machine.Apply(&raft.Log{Index: r.index, Type: raft.LogCommand, Data: data}).(error); ok {
		return err
	}
	return nil
}

func (r *region) must(number message.CommandType, payload any) {
	r.Helper()
	if err := r.apply(context.Background(), number, payload); err != nil {
		r.Fatal(err)
	}
}

// set changes the answers of the region.
func (r *region) set(typ string, broken error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.typ, r.broken = typ, broken
}

// refusing sets the namespace that cannot be stored.
func (r *region) refusing(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.refuse = name
}

// Call answers an RPC. Tokens other than management tokens get empty lists.
func (r *region) Call(ctx context.Context, method string, req, resp any) error {
	q := req.(interface{ Query() *message.QueryOptions }).Query()
	if q.Region != "home" || q.AuthToken != "secret" || q.AllowStale {
		r.Errorf("%s asks %+v", method, q)
	}
	wait, cancel := context.WithTimeout(ctx, max(q.MaxQueryTime, time.Millisecond))
	defer cancel()
	snap, err := r.machine.State().SnapshotAfter(wait, q.MinQueryIndex+1)
	if err != nil {
		snap = r.snap()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.broken != nil {
		return r.broken
	}
	if method == r.lacks {
		return fmt.Errorf("rpc error: %w", apierror.NoMethod(method, true))
	}
	all := r.typ == rbac.ManagementToken
	switch out := resp.(type) {
	case *message.ACLWhoAmIResponse:
		out.Identity = &rbac.AuthenticatedIdentity{ACLToken: &rbac.Token{Type: r.typ}}
	case *message.NamespaceListResponse:
		out.Namespaces, out.Index = list(all, slices.Collect(snap.Namespaces(nil))), snap.Index()
	case *message.QuotaListResponse:
		out.Quotas, out.Index = list(all, slices.Collect(snap.Quotas(nil))), snap.Index()
	case *message.NodePoolListResponse:
		out.NodePools, out.Index = list(all, slices.Collect(snap.NodePools(nil))), snap.Index()
	case *message.ACLPolicyListResponse:
		for p := range snap.ACLPolicies(nil) {
			out.Policies = append(out.Policies, p.Stub())
		}
		out.Policies, out.Index = list(all, out.Policies), snap.Index()
	case *message.ACLPolicySetResponse:
		out.Policies = chosen(req.(*message.ACLPolicySetRequest).Names, func(id string) *rbac.Policy { return snap.ACLPolicy(nil, id) })
	case *message.ACLRolesListResponse:
		for v := range snap.ACLRoles(nil) {
			out.ACLRoles = append(out.ACLRoles, v.Stub())
		}
		out.ACLRoles, out.Index = list(all, out.ACLRoles), snap.Index()
	case *message.ACLRolesByIDResponse:
		out.ACLRoles = chosen(req.(*message.ACLRolesByIDRequest).ACLRoleIDs, func(id string) *rbac.Role { return snap.ACLRole(nil, id) })
	case *message.ACLTokenListResponse:
		for v := range snap.ACLTokens(nil) { // includes local tokens, which must not be copied
			out.Tokens = append(out.Tokens, v.Stub())
		}
		out.Tokens, out.Index = list(all, out.Tokens), snap.Index()
	case *message.ACLTokenSetResponse:
		out.Tokens = chosen(req.(*message.ACLTokenSetRequest).AccessorIDS, func(id string) *rbac.Token { return snap.ACLToken(nil, id) })
	case *message.ACLAuthMethodListResponse:
		for v := range snap.ACLAuthMethods(nil) {
			out.AuthMethods = append(out.AuthMethods, v.Stub())
		}
		out.AuthMethods, out.Index = list(all, out.AuthMethods), snap.Index()
	case *message.ACLAuthMethodsGetResponse:
		out.AuthMethods = chosen(req.(*message.ACLAuthMethodsGetRequest).Names,
			func(id string) *rbac.AuthMethod { return snap.ACLAuthMethod(nil, id) })
	case *message.ACLBindingRulesListResponse:
		for v := range snap.ACLBindingRules(nil) {
			out.ACLBindingRules = append(out.ACLBindingRules, v.Stub())
		}
		out.ACLBindingRules, out.Index = list(all, out.ACLBindingRules), snap.Index()
	case *message.ACLBindingRulesResponse:
		out.ACLBindingRules = chosen(req.(*message.ACLBindingRulesRequest).ACLBindingRuleIDs,
			func(id string) *rbac.BindingRule { return snap.ACLBindingRule(nil, id) })
	default:
		return fmt.Errorf("%w %s", apierror.ErrUnknownMethod, method)
	}
	return nil
}

func list[T any](all bool, of []*T) []*T {
	if !all {
		return nil
	}
	return of
}

func chosen[T any](ids []string, get func(string) *T) map[string]*T {
	out := map[string]*T{}
	for _, id := range ids {
		if v := get(id); v != nil {
			out[id] = v
		}
	}
	return out
}

// names lists all replicated objects with their versions.
func (r *region) names() string {
	snap := r.snap()
	var out []string
	for n := range snap.Namespaces(nil) {
		out = append(out, "ns "+n.Name+" "+n.Description+" "+n.Privileged)
	}
	for q := range snap.Quotas(nil) {
		out = append(out, "quota "+q.Name+" "+q.Description)
	}
	for p := range snap.NodePools(nil) {
		out = append(out, "pool "+p.Name)
	}
	for p := range snap.ACLPolicies(nil) {
		out = append(out, "policy "+p.Name+" "+p.Description)
	}
	for v := range snap.ACLRoles(nil) {
		out = append(out, fmt.Sprintf("role %s %s %d", v.ID, v.Name, len(v.Policies)))
	}
	for v := range snap.ACLTokensGlobal(nil, true) {
		out = append(out, "token "+v.AccessorID+" "+v.SecretID)
	}
	for v := range snap.ACLAuthMethods(nil) {
		out = append(out, fmt.Sprintf("method %s %t", v.Name, v.Default))
	}
	for v := range snap.ACLBindingRules(nil) {
		out = append(out, "rule "+v.ID)
	}
	return strings.Join(out, "\n")
}

// follow runs a replica of a region with one object of each kind and calls fn with both
// regions.
func follow(t *testing.T, fn func(home, here *region)) {
	t.Helper()
	followWithout(t, "", slog.DiscardHandler, fn)
}

// followWithout is follow at a region that does not have a method, with a log of the replica.
func followWithout(t *testing.T, method string, log slog.Handler, fn func(home, here *region)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		home, here := newRegion(t), newRegion(t)
		home.full()
		home.lacking(method)
		r := replication.New(replication.Config{From: "home", Token: "secret", Access: true, RPC: home, Store: here.machine.State,
			Apply: here.apply, Log: slog.New(log)})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- r.Run(ctx) }()
		fn(home, here)
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("Run() = %v", err)
		}
	})
}

// same waits for the replication and compares.
func same(t testing.TB, home, here *region) {
	t.Helper()
	time.Sleep(5 * time.Minute) // synthetic time
	synctest.Wait()
	if a, b := home.names(), here.names(); a != b {
		t.Errorf("here is\n%s\nwant\n%s", b, a)
	}
}

// role returns a role with a policy.
func role(id, name string) *rbac.Role {
	return &rbac.Role{ID: id, Name: name, Policies: []*rbac.RolePolicyLink{{Name: "p"}}}
}

func (r *region) roles(roles ...*rbac.Role) {
	r.Helper()
	r.must(message.ACLRolesUpsertRequestType, &message.ACLRolesUpsertRequest{ACLRoles: roles, AllowMissingPolicies: true})
}

func (r *region) token(accessor, secret string, born int64, global bool) {
	r.Helper()
	r.must(message.ACLTokenUpsertRequestType,
		&message.ACLTokenUpsertRequest{Tokens: []*rbac.Token{{AccessorID: accessor, SecretID: secret, Type: "management",
			Global: global, CreateTime: time.Unix(born, 0).UTC()}}})
}

func (r *region) methods(methods ...*rbac.AuthMethod) {
	r.Helper()
	r.must(message.ACLAuthMethodsUpsertRequestType, &message.ACLAuthMethodUpsertRequest{AuthMethods: methods})
}

// full adds one object of each kind to a region.
func (r *region) full() {
	r.Helper()
	r.must(message.ACLPolicyUpsertRequestType, &message.ACLPolicyUpsertRequest{Policies: []*rbac.Policy{{Name: "p", Rules: "r"}}})
	r.roles(role("1", "one"), role("2", "two"))
	r.token("t", "s", 1, true)
	r.token("own", "own", 1, false)
	r.methods(&rbac.AuthMethod{Name: "a", Type: "JWT", Default: true}, &rbac.AuthMethod{Name: "b", Type: "JWT"})
	r.must(message.ACLBindingRulesUpsertRequestType,
		&message.ACLBindingRulesUpsertRequest{ACLBindingRules: []*rbac.BindingRule{{ID: "r", AuthMethod: "a"}}})
	r.must(message.QuotaUpsertRequestType, &message.QuotaUpsertRequest{Quotas: []*quota.Spec{{Name: "q"}}})
	r.must(message.NamespaceUpsertRequestType,
		&message.NamespaceUpsertRequest{Namespaces: []*nomad.Namespace{{Name: "n", Quota: "q", Meta: map[string]string{"a": "b"},
			Privileged: nomad.PrivilegedExplicit}}})
	r.must(message.NodePoolUpsertRequestType, &message.NodePoolUpsertRequest{NodePools: []*nomad.NodePool{{Name: "pool"}}})
}

func TestWhatChangesThereChangesHere(t *testing.T) {
	steps := map[string]func(home *region){
		"nothing more": func(*region) {},
		"policy": func(h *region) {
			h.must(message.ACLPolicyUpsertRequestType, &message.ACLPolicyUpsertRequest{Policies: []*rbac.Policy{{Name: "p", Description: "new"}}})
		},
		"policy deleted": func(h *region) {
			h.must(message.ACLPolicyDeleteRequestType, &message.ACLPolicyDeleteRequest{Names: []string{"p"}})
		},
		"policy deleted and created again": func(h *region) {
			h.must(message.ACLPolicyDeleteRequestType, &message.ACLPolicyDeleteRequest{Names: []string{"p"}})
			h.roles(role("3", "three"))
			time.Sleep(time.Minute)
			h.must(message.ACLPolicyUpsertRequestType, &message.ACLPolicyUpsertRequest{Policies: []*rbac.Policy{{Name: "p"}}})
		},
		"roles exchange names": func(h *region) {
			h.roles(role("1", "three"))
			h.roles(role("2", "one"))
			h.roles(role("1", "two"))
		},
		"another role has the name": func(h *region) {
			h.must(message.ACLRolesDeleteByIDRequestType, &message.ACLRolesDeleteByIDRequest{ACLRoleIDs: []string{"1"}})
			h.roles(role("3", "one"))
		},
		"a token is created again": func(h *region) {
			h.must(message.ACLTokenDeleteRequestType, &message.ACLTokenDeleteRequest{AccessorIDs: []string{"t"}})
			h.token("t", "another", 2, true)
		},
		"another default": func(h *region) {
			h.methods(&rbac.AuthMethod{Name: "a", Type: "JWT"})
			h.methods(&rbac.AuthMethod{Name: "b", Type: "JWT", Default: true})
		},
		"auth method deleted": func(h *region) {
			h.must(message.ACLAuthMethodsDeleteRequestType, &message.ACLAuthMethodDeleteRequest{Names: []string{"a"}})
		},
		"namespace": func(h *region) {
			h.must(message.NamespaceUpsertRequestType,
				&message.NamespaceUpsertRequest{Namespaces: []*nomad.Namespace{{Name: "n", Description: "new"},
					{Name: "default", Description: "ours"}}})
		},
		"privilege of a namespace": func(h *region) {
			h.must(message.NamespaceUpsertRequestType,
				&message.NamespaceUpsertRequest{Namespaces: []*nomad.Namespace{{Name: "n", Quota: "q"}}})
		},
		"namespace and pool deleted": func(h *region) {
			h.must(message.NamespaceDeleteRequestType, &message.NamespaceDeleteRequest{Namespaces: []string{"n"}})
			h.must(message.NodePoolDeleteRequestType, &message.NodePoolDeleteRequest{Names: []string{"pool"}})
		},
		"another quota": func(h *region) {
			h.must(message.QuotaUpsertRequestType, &message.QuotaUpsertRequest{Quotas: []*quota.Spec{{Name: "q2", Description: "d"}}})
			h.must(message.NamespaceUpsertRequestType, &message.NamespaceUpsertRequest{Namespaces: []*nomad.Namespace{{Name: "n", Quota: "q2"}}})
			h.must(message.QuotaDeleteRequestType, &message.QuotaDeleteRequest{Names: []string{"q"}})
		},
		"many": func(h *region) {
			for i := range 200 {
				h.roles(role(fmt.Sprint("many ", i), fmt.Sprint("role ", i)))
			}
		},
	}
	for name, step := range steps {
		t.Run(name, func(t *testing.T) {
			follow(t, func(home, here *region) {
				same(t, home, here)
				step(home)
				same(t, home, here)
				if here.snap().ACLToken(nil, "own") != nil {
					t.Error("a local token was replicated")
				}
			})
		})
	}
}

// Without a management token nothing is removed.
func TestOtherTokensRemoveNothing(t *testing.T) {
	follow(t, func(home, here *region) {
		same(t, home, here)
		had := here.names()
		for what, change := range map[string]func(){
			"a client token":        func() { home.set(rbac.ClientToken, nil) },
			"no answer":             func() { home.set(rbac.ManagementToken, apierror.ErrNoRegionPath) },
			"the token was deleted": func() { home.set(rbac.ManagementToken, apierror.ErrPermissionDenied) },
			"no access control":     func() { home.set(rbac.ManagementToken, apierror.Errorf(400, "%s", apierror.ErrACLDisabled)) },
		} {
			home.set(rbac.ManagementToken, errors.New("between"))
			time.Sleep(5 * time.Minute)
			change()
			home.must(message.ACLPolicyUpsertRequestType,
				&message.ACLPolicyUpsertRequest{Policies: []*rbac.Policy{{Name: "p", Description: what}}})
			time.Sleep(5 * time.Minute)
			if got := here.names(); got != had {
				t.Errorf("%s: here is\n%s, want\n%s", what, got, had)
			}
		}
		home.set(rbac.ManagementToken, nil)
		same(t, home, here)
	})
}

// An object in use stays and does not block others.
func TestNamespaceInUseStays(t *testing.T) {
	follow(t, func(home, here *region) {
		same(t, home, here)
		here.must(message.JobRegisterRequestType, &message.JobRegisterRequest{Job: &nomad.Job{ID: "j", Namespace: "n", Type: "batch"}})
		home.must(message.NamespaceDeleteRequestType, &message.NamespaceDeleteRequest{Namespaces: []string{"n"}})
		home.must(message.NamespaceUpsertRequestType, &message.NamespaceUpsertRequest{Namespaces: []*nomad.Namespace{{Name: "m"}}})
		time.Sleep(5 * time.Minute)
		if here.snap().Namespace(nil, "n") == nil || here.snap().Namespace(nil, "m") == nil {
			t.Errorf("here is\n%s", here.names())
		}
		here.must(message.JobDeregisterRequestType,
			&message.JobDeregisterRequest{JobID: "j", Purge: true, WriteRequest: message.WriteRequest{Namespace: "n"}})
		same(t, home, here)
	})
}

// Local changes to replicated objects are reverted.
func TestLocalChangesAreReverted(t *testing.T) {
	follow(t, func(home, here *region) {
		same(t, home, here)
		here.token("x", "x", 1, true)
		here.must(message.ACLPolicyUpsertRequestType,
			&message.ACLPolicyUpsertRequest{Policies: []*rbac.Policy{{Name: "p", Description: "here"}, {Name: "q"}}})
		here.token("local", "local", 1, false)
		same(t, home, here)
		if here.snap().ACLToken(nil, "local") == nil {
			t.Error("a local token was removed")
		}
	})
}

// An object that cannot be stored does not block others, and nothing is removed.
func TestInvalidObjectDoesNotBlockOthers(t *testing.T) {
	follow(t, func(home, here *region) {
		same(t, home, here)
		here.refusing("refused")
		home.must(message.NamespaceUpsertRequestType,
			&message.NamespaceUpsertRequest{Namespaces: []*nomad.Namespace{{Name: "n", Description: "new"}, {Name: "refused"}, {Name: "z"}}})
		time.Sleep(5 * time.Minute)
		snap := here.snap()
		if n := snap.Namespace(nil, "n"); n == nil || n.Description != "new" || snap.Namespace(nil, "z") == nil ||
			snap.Namespace(nil, "refused") != nil {
			t.Errorf("here is\n%s", here.names())
		}
		here.refusing("")
		same(t, home, here)
	})
}

// An authoritative region of Nomad CE has no quotas. This is reported once, the quotas here remain, and the other kinds
// are replicated. When the region has quotas, they are replicated too.
func TestRegionWithoutQuotas(t *testing.T) {
	var log strings.Builder
	followWithout(t, "Quota.List", slog.NewTextHandler(&log, nil), func(home, here *region) {
		here.must(message.QuotaUpsertRequestType, &message.QuotaUpsertRequest{Quotas: []*quota.Spec{{Name: "own"}}})
		time.Sleep(time.Hour)
		synctest.Wait()
		home.must(message.NodePoolUpsertRequestType, &message.NodePoolUpsertRequest{NodePools: []*nomad.NodePool{{Name: "later"}}})
		time.Sleep(time.Hour)
		synctest.Wait()
		if here.snap().Quota(nil, "own") == nil || here.snap().Quota(nil, "q") != nil || here.snap().NodePool(nil, "later") == nil {
			t.Errorf("here is\n%s", here.names())
		}
		quotas := slices.DeleteFunc(strings.Split(log.String(), "\n"), func(line string) bool { return !strings.Contains(line, "what=quotas") })
		if len(quotas) != 1 || !strings.Contains(quotas[0], "level=INFO") {
			t.Errorf("lines about quotas in two hours: %q, want one without a warning", quotas)
		}
		home.lacking("")
		time.Sleep(15 * time.Minute) // until the next attempt
		same(t, home, here)
	})
}

// lacking sets the method that the region does not have.
func (r *region) lacking(method string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lacks = method
}
