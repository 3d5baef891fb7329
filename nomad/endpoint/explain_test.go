package endpoint

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/acl"
	"github.com/open-nomad/open-nomad/drivers"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/authz"
	"github.com/open-nomad/open-nomad/nomad/endpoint/handler"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rbac"
	"github.com/open-nomad/open-nomad/nomad/rpc"
	"github.com/open-nomad/open-nomad/nomad/state"
	"github.com/open-nomad/open-nomad/plugins/schema"
)

// alone is the only server of its cluster.
type alone struct{ handler.Cluster }

func (alone) Contact() (bool, time.Duration) { return true, 0 }

// The objects of the tests.
const (
	deployer = "11111111-1111-4111-8111-111111111111"
	auditor  = "22222222-2222-4222-8222-222222222222"
	manager  = "33333333-3333-4333-8333-333333333333"
	ended    = "44444444-4444-4444-8444-444444444444"
	broken   = "55555555-5555-4555-8555-555555555555"
	viewers  = "66666666-6666-4666-8666-666666666666"
)

// newExplainer returns a service with policies, tokens, roles and a job in its state.
func newExplainer(t *testing.T) (*Service, *state.Store) {
	t.Helper()
	store := state.New(slog.New(slog.DiscardHandler))
	now := time.Now()
	past := now.Add(-time.Hour)
	check := func(_ *state.Changes, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	check(store.UpsertACLPolicies(10, &message.ACLPolicyUpsertRequest{Policies: []*rbac.Policy{
		{Name: "deploy", Rules: "namespace \"prod\" {\n  policy = \"write\"\n}\nnamespace \"default\" { policy = \"read\" }"},
		{Name: "view", Rules: `namespace "*" { policy = "read" }`},
		{Name: "secrets", Rules: `namespace "default" { variables { path "shared/*" { capabilities = ["read"] } } }`,
			JobACL: &rbac.JobACL{Namespace: "default", JobID: "web", Group: "api"}},
		{Name: "broken", Rules: `namespace {`},
		{Name: "anonymous", Rules: `namespace "default" { capabilities = ["list-jobs"] }`},
	}}))
	check(store.UpsertACLRoles(11,
		&message.ACLRolesUpsertRequest{ACLRoles: []*rbac.Role{{ID: viewers, Name: "viewers",
			Policies: []*rbac.RolePolicyLink{{Name: "view"}}}}}))
	check(store.UpsertACLTokens(12, &message.ACLTokenUpsertRequest{Tokens: []*rbac.Token{
		{AccessorID: deployer, SecretID: nomad.NewID(), Name: "deployer", Type: "client", Policies: []string{"deploy"}},
		{AccessorID: auditor, SecretID: nomad.NewID(), Type: "client", Roles: []*rbac.TokenRoleLink{{ID: viewers}}},
		{AccessorID: manager, SecretID: nomad.NewID(), Type: "management"},
		{AccessorID: ended, SecretID: nomad.NewID(), Type: "management", ExpirationTime: &past},
		{AccessorID: broken, SecretID: nomad.NewID(), Type: "client", Policies: []string{"broken", "deploy"}},
	}}))
	job := &nomad.Job{ID: "web", Name: "web", Namespace: "default", Type: "service",
		TaskGroups: []*nomad.TaskGroup{{Name: "api", Tasks: []*nomad.Task{
			{Name: "server", Driver: "exec2", Identities: []*nomad.WorkloadIdentity{{Name: "vault", Audience: []string{"vault.example"}}}}}},
			{Name: "side", Tasks: []*nomad.Task{{Name: "raw", Driver: "raw_exec"}}}}}
	check(store.RegisterJob(13, &message.JobRegisterRequest{Job: job}))
	return New(Config{Core: handler.Config{Kinds: drivers.Table(), Schemas: schema.NewSet(drivers.Table()),
		Store: func() *state.Store { return store }, Cluster: alone{}, Now: func() time.Time { return now },
		Log: slog.New(slog.DiscardHandler)}}), store
}

func callAs(rights *acl.ACL, w *acl.Workload) *rpc.Call {
	return &rpc.Call{Identity: &rbac.AuthenticatedIdentity{}, Access: &rpc.Access{Rights: rights, Workload: w}}
}

// reasonOf formats an explanation as one line: the decision, the reasons and the policies.
func reasonOf(a *message.ACLExplanation) string {
	var out []string
	for _, d := range a.Decisions {
		out = append(out, d.Reason)
		for _, r := range d.Rules {
			out = append(out, fmt.Sprintf("%s:%d", r.Policy, r.Line))
		}
	}
	return fmt.Sprint(a.Allowed, " ", strings.Join(out, " "))
}

func TestExplainOne(t *testing.T) {
	s, _ := newExplainer(t)
	web := &rbac.JobACL{Namespace: "default", JobID: "web", Group: "api", Task: "server"}
	for name, c := range map[string]struct {
		req  message.ACLExplainRequest
		want string
	}{
		"granted": {message.ACLExplainRequest{AccessorID: deployer, Kind: "job", Right: "run", QueryOptions: in("prod")},
			"true granted deploy:2"},
		"not granted": {message.ACLExplainRequest{AccessorID: deployer, Kind: "job", Right: "run"}, "false not granted deploy:4"},
		"by a role": {message.ACLExplainRequest{AccessorID: auditor, Kind: "namespace", Right: "read-job", Name: "x"},
			"true granted view:1"},
		"management": {message.ACLExplainRequest{AccessorID: manager, Kind: "variable", Right: "write", Name: "a"},
			"true management token"},
		"ended": {message.ACLExplainRequest{AccessorID: ended, Kind: "node", Right: "read"}, "false ACL token expired"},
		"unreadable": {message.ACLExplainRequest{AccessorID: broken, Kind: "job", Right: "run", QueryOptions: in("prod")},
			`false policy "broken" cannot be parsed`},
		"anonymous":  {message.ACLExplainRequest{AccessorID: "anonymous", Kind: "job", Right: "list"}, "true granted anonymous:1"},
		"no rule":    {message.ACLExplainRequest{AccessorID: deployer, Kind: "operator", Right: "snapshot-save"}, "false no rule"},
		"role":       {message.ACLExplainRequest{Role: "viewers", Kind: "job", Right: "read"}, "true granted view:1"},
		"role by ID": {message.ACLExplainRequest{Role: viewers, Kind: "job", Right: "run"}, "false not granted view:1"},
		"policy": {message.ACLExplainRequest{Policy: "deploy", Kind: "job", Right: "exec", QueryOptions: in("prod")},
			"true granted deploy:2"},
		"own path": {message.ACLExplainRequest{Workload: web, Kind: "variable", Right: "read", Name: "nomad/jobs/web/api"},
			"true workload's own path"},
		"another's path": {message.ACLExplainRequest{Workload: web, Kind: "variable", Right: "read", Name: "nomad/jobs/we"}, "false no rule"},
		"policy of a group": {message.ACLExplainRequest{Workload: web, Kind: "variable", Right: "read", Name: "shared/db"},
			"true granted secrets:1"},
		"another group": {message.ACLExplainRequest{Workload: &rbac.JobACL{JobID: "web", Group: "ap"}, Kind: "variable", Right: "read",
			Name: "shared/db"}, "false no rule"},
		"mints": {message.ACLExplainRequest{Workload: web, Kind: "audience", Right: "mint", Name: "vault.example"},
			`true identity "vault" of web/api/server`},
		"mints not": {message.ACLExplainRequest{Workload: web, Kind: "audience", Right: "mint", Name: "other"},
			"false the workload has no identity"},
		"mints not there": {message.ACLExplainRequest{Workload: &rbac.JobACL{Namespace: "prod", JobID: "web", Group: "api", Task: "server"},
			Kind: "audience", Right: "mint", Name: "vault.example"}, "false the workload has no identity"},
		"may run what mints": {message.ACLExplainRequest{Policy: "deploy", Kind: "audience", Right: "mint", Name: "vault.example",
			QueryOptions: in("prod")}, "true granted deploy:2"},
		"exec sees the node": {message.ACLExplainRequest{Policy: "deploy", Kind: "job", Right: "exec", Name: "web"},
			"false not granted deploy:4"},
		"method for all": {message.ACLExplainRequest{Policy: "deploy", Method: "Status.Leader"}, "true "},
		"for management": {message.ACLExplainRequest{Policy: "deploy", Method: "System.GarbageCollect"}, "false not a management token"},
	} {
		t.Run(name, func(t *testing.T) {
			out, err := s.explain.Explain(t.Context(), callAs(acl.New(true), nil), &c.req)
			if err != nil {
				t.Fatal(err)
			}
			if len(out.Answers) != 1 || !strings.HasPrefix(reasonOf(out.Answers[0]), c.want) {
				t.Errorf("answers %v, want %q", reasonOf(out.Answers[0]), c.want)
			}
		})
	}
}

func in(namespace string) message.QueryOptions { return message.QueryOptions{Namespace: namespace} }

// The kind of a driver that is not built-in is that of the nodes.
func TestExplainExecByKindOfInstance(t *testing.T) {
	for kind, want := range map[string]int{"raw_exec": 2, "exec2": 1, "docker": 1} {
		s, store := newExplainer(t)
		node := &nomad.Node{ID: nomad.NewID(), SecretID: nomad.NewID(), Drivers: map[string]*nomad.DriverInfo{"open": {Detected: true}},
			Attributes: map[string]string{"driver.open.backend": kind}}
		if _, err := store.RegisterNode(14, &message.NodeRegisterRequest{Node: node}); err != nil {
			t.Fatal(err)
		}
		job := &nomad.Job{ID: "x", Namespace: "default", Type: "service",
			TaskGroups: []*nomad.TaskGroup{{Name: "g", Tasks: []*nomad.Task{{Name: "t", Driver: "open"}}}}}
		if _, err := store.RegisterJob(15, &message.JobRegisterRequest{Job: job}); err != nil {
			t.Fatal(err)
		}
		out, err := s.explain.Explain(t.Context(), callAs(acl.New(true), nil),
			&message.ACLExplainRequest{AccessorID: manager, Kind: "job", Right: "exec", Name: "x"})
		if err != nil || len(out.Needs) != want {
			t.Errorf("%s: needs %v, %v, want %d rights", kind, out.Needs, err, want)
		}
	}
}

// Actions that put a job with a privileged task into effect require an additional right.
func TestExplainPrivilegedTask(t *testing.T) {
	s, store := newExplainer(t)
	job := &nomad.Job{ID: "x", Namespace: "default", Type: "service",
		TaskGroups: []*nomad.TaskGroup{{Name: "g", Tasks: []*nomad.Task{{Name: "t", Driver: "raw_exec", Privileged: true}}}}}
	if _, err := store.RegisterJob(15, &message.JobRegisterRequest{Job: job}); err != nil {
		t.Fatal(err)
	}
	for right, want := range map[string]bool{"run": true, "plan": true, "dispatch": true, "force": true, "revert": true, "scale": true,
		"stable": true, "read": false, "stop": false, "restart": false, "evaluate": false} {
		for _, id := range []string{"x", "web"} { // a task of "web" needs privilege without having it
			out, err := s.explain.Explain(t.Context(), callAs(acl.New(true), nil),
				&message.ACLExplainRequest{AccessorID: manager, Kind: "job", Right: right, Name: id})
			if got := slices.Contains(out.Needs, `privileged-execution in namespace "default"`); err != nil || got != want {
				t.Errorf("%s of %s: needs %v, %v", right, id, out.Needs, err)
			}
		}
	}
}

// A request that submits a job is explained with that job, not with the registered one.
func TestExplainSubmittedJob(t *testing.T) {
	s, store := newExplainer(t)
	job := func(driver string) *nomad.Job {
		return &nomad.Job{ID: "web", TaskGroups: []*nomad.TaskGroup{{Name: "g", Tasks: []*nomad.Task{{Name: "t", Driver: driver}}}}}
	}
	needs := func(driver string) bool {
		out, err := s.explain.Explain(t.Context(), callAs(acl.New(true), nil),
			&message.ACLExplainRequest{AccessorID: manager, Kind: "job", Right: "run", Name: "web", Job: job(driver)})
		if err != nil {
			t.Fatal(err)
		}
		return slices.Contains(out.Needs, `privileged-execution in namespace "default"`)
	}
	if needs("exec2") || !needs("raw_exec") {
		t.Errorf("exec2 needs the right: %t, raw_exec: %t, want only raw_exec", needs("exec2"), needs("raw_exec"))
	}
	legacy := &nomad.Node{ID: nomad.NewID(), Drivers: map[string]*nomad.DriverInfo{"raw_exec": {Detected: true}},
		Attributes: map[string]string{"driver.raw_exec.backend": "raw_exec", "driver.raw_exec.privileged.legacy": "true"}}
	if _, err := store.RegisterNode(15, &message.NodeRegisterRequest{Node: legacy}); err != nil {
		t.Fatal(err)
	}
	if needs("raw_exec") {
		t.Error("raw_exec needs the right, though a node has the legacy behaviour")
	}
}

// An action that can put an older version into effect requires the right if a version has a privileged task.
func TestExplainPrivilegedVersion(t *testing.T) {
	s, store := newExplainer(t)
	for i, driver := range []string{"raw_exec", "exec2"} {
		job := &nomad.Job{ID: "x", Namespace: "default", Type: "service",
			TaskGroups: []*nomad.TaskGroup{{Name: "g", Tasks: []*nomad.Task{{Name: "t", Driver: driver, Privileged: driver == "raw_exec"}}}}}
		if _, err := store.RegisterJob(uint64(15+i), &message.JobRegisterRequest{Job: job}); err != nil {
			t.Fatal(err)
		}
	}
	for right, want := range map[string]bool{"revert": true, "stable": true, "scale": false, "dispatch": false} {
		out, err := s.explain.Explain(t.Context(), callAs(acl.New(true), nil),
			&message.ACLExplainRequest{AccessorID: manager, Kind: "job", Right: right, Name: "x"})
		if got := slices.Contains(out.Needs, `privileged-execution in namespace "default"`); err != nil || got != want {
			t.Errorf("%s: needs %v, %v, want privileged-execution: %t", right, out.Needs, err, want)
		}
	}
}

// Exec into a job with a task that can access the node's files requires an additional right.
func TestExplainExecOfARawTask(t *testing.T) {
	s, _ := newExplainer(t)
	out, err := s.explain.Explain(t.Context(), callAs(acl.New(true), nil),
		&message.ACLExplainRequest{AccessorID: manager, Kind: "job", Right: "exec", Name: "web"})
	if err != nil || !slices.Equal(out.Needs, []string{`alloc-exec in namespace "default"`, `alloc-node-exec in namespace "default"`}) {
		t.Errorf("needs %v, %v", out.Needs, err)
	}
}

// Every caller may ask about itself. Only management tokens may ask about others.
func TestExplainIsForOneself(t *testing.T) {
	s, store := newExplainer(t)
	rights, err := authz.RightsIn(store.Snapshot()).OfPolicies("deploy")
	if err != nil {
		t.Fatal(err)
	}
	me := callAs(rights, nil)
	me.Identity.ACLToken = &rbac.Token{AccessorID: deployer}
	for name, c := range map[string]struct {
		req   message.ACLExplainRequest
		fault string
	}{
		"own":         {message.ACLExplainRequest{Kind: "job", Right: "read"}, ""},
		"own by name": {message.ACLExplainRequest{Kind: "job", Right: "read", AccessorID: deployer}, ""},
		"another":     {message.ACLExplainRequest{Kind: "job", Right: "read", AccessorID: manager}, "needs a management token"},
		"nobody":      {message.ACLExplainRequest{Kind: "job", Right: "read", AccessorID: nomad.NewID()}, "needs a management token"},
		"role":        {message.ACLExplainRequest{Kind: "job", Right: "read", Role: "viewers"}, "needs a management token"},
		"policy":      {message.ACLExplainRequest{Kind: "job", Right: "read", Policy: "view"}, "needs a management token"},
		"workload":    {message.ACLExplainRequest{Kind: "job", Right: "read", Workload: &rbac.JobACL{JobID: "web"}}, "needs a management token"},
		"all":         {message.ACLExplainRequest{Kind: "job", Right: "read", Everybody: true}, "needs a management token"},
	} {
		me.Access = &rpc.Access{Rights: rights}
		out, err := s.explain.Explain(t.Context(), me, &c.req)
		switch {
		case c.fault != "":
			if err == nil || !strings.Contains(err.Error(), c.fault) {
				t.Errorf("%s: %v, want %q", name, err, c.fault)
			}
		case err != nil:
			t.Errorf("%s: %v", name, err)
		case out.Answers[0].Subject.Kind != "self" || out.Answers[0].Subject.ID != deployer ||
			reasonOf(out.Answers[0]) != "true granted deploy:4":
			t.Errorf("%s: %+v %s", name, out.Answers[0].Subject, reasonOf(out.Answers[0]))
		}
	}
	// A workload can list only its own identities.
	for task, want := range map[string]int{"web": 1, "other": 0} {
		c := callAs(acl.New(false), &acl.Workload{Namespace: "default", Job: task, Group: "api", Task: "server"})
		out, err := s.explain.Explain(t.Context(), c, &message.ACLExplainRequest{Kind: "audience", Right: "mint", Name: "vault.example"})
		if err != nil || len(out.Identities) != want || out.Answers[0].Allowed != (want == 1) {
			t.Errorf("a workload of %s gets %v, %v", task, out, err)
		}
	}
}

// who lists the allowed subjects page by page.
func who(t *testing.T, s *Service, req message.ACLExplainRequest, perPage int32) (all []string) {
	t.Helper()
	req.Everybody, req.PerPage = true, perPage
	for range 50 {
		out, err := s.explain.Explain(context.Background(), callAs(acl.New(true), nil), &req)
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range out.Answers {
			name := a.Subject.ID
			if w := a.Subject.Workload; w != nil {
				name = strings.TrimRight(strings.Join([]string{w.Namespace, w.JobID, w.Group, w.Task}, "/"), "/")
			}
			all = append(all, a.Subject.Kind+" "+name)
		}
		if req.NextToken = out.NextToken; req.NextToken == "" {
			return all
		}
	}
	t.Fatal("the pages have no end")
	return nil
}

func TestExplainEverybody(t *testing.T) {
	s, _ := newExplainer(t)
	for name, c := range map[string]struct {
		req  message.ACLExplainRequest
		want []string
	}{
		"read jobs": {message.ACLExplainRequest{Kind: "job", Right: "read"},
			[]string{"role " + viewers, "token " + deployer, "token " + auditor, "token " + manager}},
		"list jobs": {message.ACLExplainRequest{Kind: "job", Right: "list"},
			[]string{"token anonymous", "role " + viewers, "token " + deployer, "token " + auditor, "token " + manager}},
		"own variable": {message.ACLExplainRequest{Kind: "variable", Right: "read", Name: "nomad/jobs/web/side"},
			[]string{"token " + manager, "workload default/web/side"}},
		"of all jobs": {message.ACLExplainRequest{Kind: "variable", Right: "list", Name: "nomad/jobs"},
			[]string{"token " + manager, "workload default", "workload default/web/api"}},
		"by a policy": {message.ACLExplainRequest{Kind: "variable", Right: "read", Name: "shared/db"},
			[]string{"token " + manager, "workload default/web/api"}},
		"mint": {message.ACLExplainRequest{Kind: "audience", Right: "mint", Name: "vault.example"},
			[]string{"token " + manager, "workload default/web/api/server"}},
	} {
		for _, perPage := range []int32{0, 1, 2} {
			if got := who(t, s, c.req, perPage); !slices.Equal(got, c.want) {
				t.Errorf("%s, %d to a page: %q, want %q", name, perPage, got, c.want)
			}
		}
	}
}

func TestExplainRefuses(t *testing.T) {
	s, _ := newExplainer(t)
	for want, req := range map[string]message.ACLExplainRequest{
		`unknown kind "x"`:                    {Kind: "x", Right: "read"},
		`unknown right "red" on variable`:     {Kind: "variable", Right: "red", Name: "a"},
		"missing name of the node_pool":       {Kind: "node_pool", Right: "read"},
		`remove the name "x"`:                 {Kind: "node", Right: "read", Name: "x"},
		`unknown right "eat" on job`:          {Kind: "job", Right: "eat"},
		"missing name of the audience":        {Kind: "audience", Right: "mint"},
		`unknown right "make" on audience`:    {Kind: "audience", Right: "make", Name: "a"},
		"specify one namespace":               {Kind: "job", Right: "read", QueryOptions: in("*")},
		`unknown method "X.Y"`:                {Method: "X.Y"},
		"not both":                            {Method: "Status.Leader", Kind: "job"},
		"for nodes and servers":               {Method: "Node.UpdateAlloc"},
		"Unknown allocation":                  {Kind: "allocation", Right: "read", Name: nomad.NewID()},
		"ACL token not found":                 {Kind: "node", Right: "read", AccessorID: nomad.NewID()},
		"ACL role not found":                  {Kind: "node", Right: "read", Role: "x"},
		"ACL policy not found":                {Kind: "node", Right: "read", Policy: "x"},
		"one token, role, policy or workload": {Kind: "node", Right: "read", Policy: "deploy", Everybody: true},
		"a group requires a job":              {Kind: "node", Right: "read", Workload: &rbac.JobACL{Group: "x"}},
	} {
		if _, err := s.explain.Explain(t.Context(), callAs(acl.New(true), nil), &req); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", req, err, want)
		}
	}
}

// BenchmarkExplainEverybody lists which of 10,000 tokens may read a variable.
func BenchmarkExplainEverybody(b *testing.B) {
	store := state.New(slog.New(slog.DiscardHandler))
	policies, tokens := &message.ACLPolicyUpsertRequest{}, &message.ACLTokenUpsertRequest{}
	for i := range 200 {
		policies.Policies = append(policies.Policies,
			&rbac.Policy{Name: fmt.Sprint("p", i),
				Rules: fmt.Sprintf(`namespace "n%d-*" { variables { path "*" { capabilities = ["read"] } } }`, i)})
	}
	for i := range 9_000 {
		tokens.Tokens = append(tokens.Tokens,
			&rbac.Token{AccessorID: nomad.NewID(), SecretID: nomad.NewID(), Type: "client",
				Policies: []string{fmt.Sprint("p", i%200), fmt.Sprint("p", i%7)}})
	}
	if _, err := store.UpsertACLPolicies(10, policies); err != nil {
		b.Fatal(err)
	}
	if _, err := store.UpsertACLTokens(11, tokens); err != nil {
		b.Fatal(err)
	}
	s := New(Config{Core: handler.Config{Kinds: drivers.Table(), Schemas: schema.NewSet(drivers.Table()),
		Store: func() *state.Store { return store }, Cluster: alone{}, Now: time.Now, Log: slog.New(slog.DiscardHandler)}})
	req := &message.ACLExplainRequest{Everybody: true, Kind: "variable", Right: "read", Name: "a",
		QueryOptions: message.QueryOptions{Namespace: "n150-x", PerPage: 1000}}
	for b.Loop() {
		out, err := s.explain.Explain(b.Context(), callAs(acl.New(true), nil), req)
		if err != nil || len(out.Answers) != 45 || out.NextToken != "" {
			b.Fatalf("%d answers, %v", len(out.Answers), err)
		}
	}
}
