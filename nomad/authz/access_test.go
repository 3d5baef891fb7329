package authz_test

import (
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/acl"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/authz"
	"github.com/open-nomad/open-nomad/nomad/idtoken"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rbac"
	"github.com/open-nomad/open-nomad/nomad/rpc"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// guarded is an authority with ACLs enabled, over a state that the test fills.
type guarded struct {
	*authz.Authority
	t      testing.TB
	store  *state.Store
	index  uint64
	now    time.Time
	issued tokens
}

func guard(t testing.TB) *guarded {
	g := &guarded{t: t, store: state.New(slog.New(slog.DiscardHandler)), index: 10, now: time.Unix(1000, 0), issued: tokens{}}
	g.Authority = authz.New(authz.Config{Enforce: true, Store: func() *state.Store { return g.store }, Tokens: g.issued,
		Now: func() time.Time { return g.now }, Log: slog.New(slog.DiscardHandler)})
	return g
}

func (g *guarded) must(_ *state.Changes, err error) {
	g.t.Helper()
	if g.index++; err != nil {
		g.t.Fatal(err)
	}
}

func (g *guarded) policy(name, rules string, job *rbac.JobACL) {
	g.t.Helper()
	g.must(g.store.UpsertACLPolicies(g.index,
		&message.ACLPolicyUpsertRequest{Policies: []*rbac.Policy{{Name: name, Rules: rules, JobACL: job}}}))
}

// token stores a token with the changes and returns its secret.
func (g *guarded) token(change func(*rbac.Token)) string {
	g.t.Helper()
	t := &rbac.Token{AccessorID: nomad.NewID(), SecretID: nomad.NewID(), Type: rbac.ClientToken}
	change(t)
	g.must(g.store.UpsertACLTokens(g.index, &message.ACLTokenUpsertRequest{Tokens: []*rbac.Token{t}}))
	return t.SecretID
}

// workload stores an allocation and returns the token of its task.
func (g *guarded) workload(namespace, job, group, task string) string {
	g.t.Helper()
	j := &nomad.Job{ID: job, Namespace: namespace, Type: nomad.JobTypeService, TaskGroups: []*nomad.TaskGroup{{Name: group, Count: 1}}}
	a := &nomad.Allocation{ID: nomad.NewID(), Namespace: namespace, JobID: job, Job: j, TaskGroup: group, NodeID: nomad.NewID(),
		DesiredStatus: nomad.AllocDesiredStatusRun, ClientStatus: nomad.AllocClientStatusRunning}
	g.must(g.store.ApplyPlanResults(g.index, &message.ApplyPlanResultsRequest{Job: j, AllocsUpdated: []*nomad.Allocation{a}}))
	g.issued["jwt of "+a.ID] = &idtoken.Claims{WorkloadIdentityClaims: &idtoken.WorkloadIdentityClaims{Namespace: namespace, JobID: job,
		AllocationID: a.ID, TaskName: task}}
	return "jwt of " + a.ID
}

// access returns the rights of the bearer of a token.
func (g *guarded) access(token string) (*rpc.Access, error) {
	id, err := g.Authenticate(g.t.Context(), token, rpc.Token, nil)
	if err != nil {
		return nil, err
	}
	return g.Access(g.t.Context(), id)
}

func (g *guarded) allows(token string, q acl.Question) bool {
	g.t.Helper()
	a, err := g.access(token)
	if err != nil {
		g.t.Fatal(err)
	}
	return a.Allows(q)
}

var (
	readProd  = acl.InNamespace("prod", acl.ReadJob)
	writeProd = acl.InNamespace("prod", acl.SubmitJob)
)

func TestRightsOfTokens(t *testing.T) {
	g := guard(t)
	g.policy("reader", `namespace "prod" { policy = "read" }`, nil)
	g.policy("writer", `namespace "prod" { policy = "write" }`, nil)
	g.policy("denier", `namespace "prod" { policy = "deny" }`, nil)
	g.must(g.store.UpsertACLRoles(g.index,
		&message.ACLRolesUpsertRequest{ACLRoles: []*rbac.Role{{ID: "r1", Name: "ops",
			Policies: []*rbac.RolePolicyLink{{Name: "writer"}}}}}))
	with := func(policies ...string) func(*rbac.Token) {
		return func(t *rbac.Token) { t.Policies = policies }
	}
	soon := g.now.Add(time.Minute)
	for name, c := range map[string]struct {
		token       string
		read, write bool
	}{
		"nobody":         {"", false, false},
		"a policy":       {g.token(with("reader")), true, false},
		"deny wins":      {g.token(with("reader", "denier")), false, false},
		"missing policy": {g.token(with("gone")), false, false},
		"a role":         {g.token(func(t *rbac.Token) { t.Roles = []*rbac.TokenRoleLink{{ID: "r1"}} }), true, true},
		"a role that denies": {g.token(func(t *rbac.Token) {
			t.Policies, t.Roles = []string{"denier"}, []*rbac.TokenRoleLink{{ID: "r1"}}
		}), false, false},
		"management":  {g.token(func(t *rbac.Token) { t.Type = rbac.ManagementToken }), true, true},
		"not expired": {g.token(func(t *rbac.Token) { t.Policies, t.ExpirationTime = []string{"reader"}, &soon }), true, false},
	} {
		for range 2 { // the second result is cached
			if g.allows(c.token, readProd) != c.read || g.allows(c.token, writeProd) != c.write {
				t.Errorf("%s: want read %v, write %v", name, c.read, c.write)
			}
		}
	}
	id, err := g.Authenticate(t.Context(), g.token(with("reader")), rpc.Token, nil)
	if err != nil || id.ACLToken.SecretID != "" {
		t.Errorf("the identity contains the secret, or error %v", err)
	}
}

func TestBadSecretsAreRejected(t *testing.T) {
	g := guard(t)
	past := g.now.Add(-time.Second)
	over := g.token(func(t *rbac.Token) { t.Type, t.ExpirationTime = rbac.ManagementToken, &past })
	for name, token := range map[string]string{"unknown": nomad.NewID(), "expired": over, "not a token": "x",
		"an accessor": rbac.AnonymousAccessor} {
		if _, err := g.access(token); !errors.Is(err, apierror.ErrPermissionDenied) || err.Error() != apierror.ErrPermissionDenied.Error() {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A change of a policy or a role takes effect at once for all holders.
func TestRightsFollowPolicies(t *testing.T) {
	g := guard(t)
	g.policy("p", `namespace "prod" { policy = "read" }`, nil)
	g.must(g.store.UpsertACLRoles(g.index,
		&message.ACLRolesUpsertRequest{ACLRoles: []*rbac.Role{{ID: "r1", Name: "ops", Policies: []*rbac.RolePolicyLink{{Name: "p"}}}}}))
	direct := g.token(func(t *rbac.Token) { t.Policies = []string{"p"} })
	byRole := g.token(func(t *rbac.Token) { t.Roles = []*rbac.TokenRoleLink{{ID: "r1"}} })
	want := func(when string, read bool, holders ...string) {
		t.Helper()
		for _, token := range holders {
			if g.allows(token, readProd) != read {
				t.Errorf("%s: read = %v", when, !read)
			}
		}
	}
	want("initially", true, direct, byRole)
	want("nobody", false, "")
	g.policy(rbac.PolicyAnonymous, `namespace "prod" { policy = "read" }`, nil)
	want("with the anonymous policy", true, "")
	g.policy("p", `namespace "prod" { policy = "deny" }`, nil)
	want("the policy denies", false, direct, byRole)
	g.policy("p", `namespace "prod" { policy = "write" }`, nil)
	want("the policy grants again", true, direct, byRole)
	g.must(g.store.UpsertACLRoles(g.index, &message.ACLRolesUpsertRequest{ACLRoles: []*rbac.Role{{ID: "r1", Name: "ops"}}}))
	want("role without the policy", false, byRole)
	g.must(g.store.DeleteACLPolicies(g.index, &message.ACLPolicyDeleteRequest{Names: []string{"p"}}))
	want("the policy is deleted", false, direct)
}

func TestRightsOfWorkloads(t *testing.T) {
	const rules = `namespace "prod" { policy = "read" }`
	for name, c := range map[string]struct {
		policy *rbac.JobACL
		want   map[string]bool
	}{
		"none":         {nil, map[string]bool{}},
		"namespace":    {&rbac.JobACL{Namespace: "apps"}, map[string]bool{"api": true, "evil": true, "group": true, "task": true}},
		"job":          {&rbac.JobACL{Namespace: "apps", JobID: "api"}, map[string]bool{"api": true, "group": true, "task": true}},
		"group":        {&rbac.JobACL{Namespace: "apps", JobID: "api", Group: "g"}, map[string]bool{"api": true, "task": true}},
		"task":         {&rbac.JobACL{Namespace: "apps", JobID: "api", Group: "g", Task: "t"}, map[string]bool{"api": true}},
		"a prefix":     {&rbac.JobACL{Namespace: "apps", JobID: "ap"}, map[string]bool{}},
		"another one":  {&rbac.JobACL{Namespace: "other", JobID: "api"}, map[string]bool{"other": true}},
		"task, prefix": {&rbac.JobACL{Namespace: "apps", JobID: "api", Group: "g", Task: "t-"}, map[string]bool{}},
	} {
		g := guard(t)
		g.policy(rbac.PolicyAnonymous, rules, nil) // not for workloads
		g.policy("p", rules, c.policy)
		for who, token := range map[string]string{
			"api": g.workload("apps", "api", "g", "t"), "evil": g.workload("apps", "api-evil", "g", "t"),
			"group": g.workload("apps", "api", "g2", "t"), "task": g.workload("apps", "api", "g", "t2"),
			"other": g.workload("other", "api", "g", "t"),
		} {
			if got := g.allows(token, readProd); got != c.want[who] {
				t.Errorf("policy for %s: workload %q reads: %v", name, who, got)
			}
		}
	}
}

func TestOwnVariablesOfWorkloads(t *testing.T) {
	g := guard(t)
	token := g.workload("apps", "api", "g", "t")
	for path, want := range map[string]bool{
		"nomad/jobs": true, "nomad/jobs/api": true, "nomad/jobs/api/g": true, "nomad/jobs/api/g/t": true,
		"nomad/jobs/api-evil": false, "nomad/jobs/api/g/t/x": false, "nomad/jobs/api/g2": false, "other": false,
	} {
		if got := g.allows(token, acl.OfVariable("apps", path, acl.VariableRead)); got != want {
			t.Errorf("reads %s: %v", path, got)
		}
		if g.allows(token, acl.OfVariable("apps", path, acl.VariableWrite)) || g.allows(token, acl.OfVariable("other", path, acl.VariableRead)) {
			t.Errorf("writes %s, or reads it in another namespace", path)
		}
	}
	g.policy("p", `namespace "apps" { variables { path "nomad/jobs/api" { capabilities = ["deny"] } } }`,
		&rbac.JobACL{Namespace: "apps", JobID: "api"})
	if g.allows(token, acl.OfVariable("apps", "nomad/jobs/api", acl.VariableRead)) {
		t.Error("reads its own variable, which a policy denies")
	}
}

// A policy that this version cannot parse, for example from a snapshot, may contain a denial. Its
// holders have no rights until it is written again.
func TestUnparsablePolicy(t *testing.T) {
	g := guard(t)
	g.policy("good", `namespace "prod" { policy = "write" }`, nil)
	g.policy("odd", "namespace \"prod\" { policy = \"read\" }\nnamespace \"prod\" { policy = \"deny\" }", nil)
	token := g.token(func(t *rbac.Token) { t.Policies = []string{"good", "odd"} })
	if a, err := g.access(token); !errors.Is(err, apierror.ErrPermissionDenied) {
		t.Errorf("Access() = %v, %v", a, err)
	}
	if a, err := g.access(g.token(func(t *rbac.Token) { t.Policies = []string{"good"} })); err != nil || !a.Allows(writeProd) {
		t.Errorf("a token without the policy: %v, %v", a, err)
	}
}

func TestRightsOfNodes(t *testing.T) {
	g := guard(t)
	g.issued["node"] = nodeClaims("default", 0)
	g.must(g.store.RegisterNode(g.index,
		&message.NodeRegisterRequest{Node: &nomad.Node{ID: node, SecretID: secret, Status: nomad.NodeStatusReady}}))
	for _, token := range []string{"node", secret} {
		for _, q := range []acl.Question{acl.ToRead(acl.Nodes), acl.ToWrite(acl.Nodes), acl.ToRead(acl.Agents), acl.ToRead(acl.Operators),
			readProd,
			acl.OfVariable("default", "nomad/jobs", acl.VariableRead)} {
			if g.allows(token, q) {
				t.Errorf("%s: a node has the right %+v", token, q)
			}
		}
	}
	leader, end := g.Lead()
	defer end()
	if !g.allows(leader, writeProd) {
		t.Error("the leader lacks a right")
	}
}

// BenchmarkAuthorize measures a request with a cached token: authentication, rights and one check
// (at most 5 µs).
func BenchmarkAuthorize(b *testing.B) {
	g := guard(b)
	var names []string
	for i := range 5 {
		names = append(names, fmt.Sprintf("p%d", i))
		g.policy(names[i], fmt.Sprintf("namespace \"team-%d-*\" { policy = \"write\" }\nnamespace \"prod\" { policy = \"read\" }", i), nil)
	}
	workloads := map[string]string{"token": g.token(func(t *rbac.Token) { t.Policies = names }),
		"workload": g.workload("apps", "api", "g", "t"), "nobody": ""}
	for range 10_000 {
		g.token(func(t *rbac.Token) { t.Policies = names })
	}
	g.policy("own", `namespace "prod" { policy = "read" }`, &rbac.JobACL{Namespace: "apps", JobID: "api"})
	for name, token := range workloads {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				a, err := g.access(token)
				if err != nil || a.Allows(readProd) != (name != "nobody") {
					b.Fatal(err)
				}
			}
		})
	}
}
