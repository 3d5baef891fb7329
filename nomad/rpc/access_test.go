package rpc_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/acl"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rbac"
	"github.com/open-nomad/open-nomad/nomad/rpc"
)

// rights is an authenticator whose callers have the rights of the stored policy.
type rights struct{ now *atomic.Pointer[acl.ACL] }

func granted(t *testing.T, text string) *acl.ACL {
	t.Helper()
	p, err := acl.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return acl.New(false, p)
}

func (rights) Authenticate(context.Context, string, rpc.Rule, *rpc.Conn) (*rbac.AuthenticatedIdentity, error) {
	return &rbac.AuthenticatedIdentity{}, nil
}

func (r rights) Access(context.Context, *rbac.AuthenticatedIdentity) (*rpc.Access, error) {
	return &rpc.Access{Rights: r.now.Load()}, nil
}

func readNode(name string) *message.SingleNodeResponse {
	return &message.SingleNodeResponse{Node: &nomad.Node{ID: name}}
}

func TestCheck_Callers(t *testing.T) {
	answer := func(_ context.Context, c *rpc.Call, _ *message.NodeSpecificRequest) (*message.SingleNodeResponse, error) {
		return readNode("n"), nil
	}
	asking := func(_ context.Context, c *rpc.Call, _ *message.NodeSpecificRequest) (*message.SingleNodeResponse, error) {
		return readNode("n"), c.Access.Need(acl.InNamespace("prod", acl.ReadJob))
	}
	inProd := acl.InNamespace("", acl.ReadJob)
	cfg := rights{now: &atomic.Pointer[acl.ACL]{}}
	s, _ := serve(t, func(c *rpc.Config) {
		c.Auth = cfg
		c.Methods = []rpc.Method{
			rpc.Handle("Test.Ns", rpc.Token, rpc.Here, answer).Needs(rpc.InNamespace(acl.ReadJob, acl.SubmitJob)),
			rpc.Handle("Test.One", rpc.Token, rpc.Here, answer).Needs(rpc.InOneNamespace(acl.ReadJob)),
			rpc.Handle("Test.Node", rpc.Token, rpc.Here, answer).Needs(rpc.Needs(acl.ToRead(acl.Nodes))),
			rpc.Handle("Test.Good", rpc.Token, rpc.Here, answer).Needs(rpc.AnyToken),
			rpc.Handle("Test.Named", rpc.Token, rpc.Here, asking).
				Needs(rpc.On("prod", inProd).Before(rpc.InOneNamespace(acl.ReadJob))),
			rpc.Handle("Test.Some", rpc.Token, rpc.Here, answer).Needs(rpc.InSomeNamespace(acl.ReadJob)),
			rpc.Handle("Test.Caller", rpc.Token, rpc.Here, asking).Needs(rpc.CheckedByHandler("the caller itself")),
			rpc.Handle("Test.Somewhere", rpc.Token, rpc.Here, answer).Needs(rpc.Somewhere(acl.ToWrite(acl.NodePools))),
			rpc.Handle("Test.All", rpc.Management, rpc.Here, answer),
			rpc.Handle("Test.Asking", rpc.Token, rpc.Here, asking).Needs(rpc.On("prod", inProd)),
			rpc.Handle("Test.Forgot", rpc.Token, rpc.Here, answer).Needs(rpc.CheckedByHandler("something")),
			rpc.Handle("Test.Off", rpc.Management, rpc.Here, answer).Requires(func() error { return errors.New("feature is off") }),
			rpc.Handle("Test.On", rpc.Token, rpc.Here, answer).Needs(rpc.AnyToken).Requires(func() error { return nil }),
		}
	})
	for _, c := range []struct{ method, namespace, policy, want string }{
		{"Test.Ns", "prod", `namespace "prod" { policy = "read" }`, ""},
		{"Test.Ns", "prod", `namespace "prod" { capabilities = ["submit-job"] }`, ""},
		{"Test.Ns", "*", ``, ""},
		{"Test.Ns", "", `namespace "default" { policy = "read" }`, ""},
		{"Test.Ns", "prod", `namespace "default" { policy = "read" }`, `needs read-job or submit-job in namespace "prod": Permission denied`},
		{"Test.Ns", "prod", ``, `needs read-job or submit-job in namespace "prod": Permission denied`},
		{"Test.One", "", `namespace "default" { policy = "read" }`, ""},
		{"Test.One", "prod", `namespace "default" { policy = "read" }`, `needs read-job in namespace "prod": Permission denied`},
		{"Test.One", "*", `namespace "*" { policy = "read" }`, `needs read-job in namespace "*": Permission denied`},
		{"Test.Node", "", `node { policy = "read" }`, ""},
		{"Test.Node", "", `node { policy = "deny" }`, "needs read of node: Permission denied"},
		{"Test.Named", "prod", `namespace "prod" { policy = "read" }`, ""},
		{"Test.Named", "prod", `namespace "other" { policy = "read" }`, `needs read-job in namespace "prod": Permission denied`},
		{"Test.Named", "", `namespace "other" { policy = "read" }`, `needs read-job in namespace "prod": Permission denied`},
		{"Test.Named", "", `namespace "prod" { policy = "read" }`, ""},
		{"Test.Some", "*", `namespace "other" { policy = "read" }`, ""},
		{"Test.Some", "*", `node { policy = "read" }`, `needs read-job in any namespace: Permission denied`},
		{"Test.Caller", "", `namespace "prod" { policy = "read" }`, "internal error in Test.Caller: its access rule was not checked"},
		{"Test.Named", "", `namespace "other" { policy = "deny" }`, `needs read-job in any namespace: Permission denied`},
		{"Test.Somewhere", "", `node_pool "gpu*" { policy = "write" }`, ""},
		{"Test.Somewhere", "", `node_pool "gpu*" { policy = "read" }`, `needs write of any node_pool: Permission denied`},
		{"Test.Good", "", ``, ""},
		{"Test.Off", "", `operator { policy = "write" }`, "needs a management token: Permission denied"},
		{"Test.Off", "", "management", "feature is off"},
		{"Test.On", "", ``, ""},
		{"Test.All", "", `operator { policy = "write" }`, "needs a management token: Permission denied"},
		{"Test.Asking", "other", `namespace "prod" { policy = "read" }`, ""},
		{"Test.Asking", "prod", ``, `needs read-job in namespace "prod": Permission denied`},
		{"Test.Forgot", "", ``, "internal error in Test.Forgot: its access rule was not checked"},
	} {
		switch c.policy {
		case "", "management":
			cfg.now.Store(acl.New(c.policy != ""))
		default:
			cfg.now.Store(granted(t, c.policy))
		}
		req := ask("n", "")
		req.Namespace = c.namespace
		var out message.SingleNodeResponse
		err := s.Call(within(t), c.method, req, &out)
		if got := errText(err); got != c.want || (out.Node == nil) != (c.want != "") {
			t.Errorf("%s in %q with %q: %v, %q, want %q", c.method, c.namespace, c.policy, out.Node, got, c.want)
		}
		if strings.HasSuffix(c.want, "Permission denied") && !errors.Is(err, apierror.ErrPermissionDenied) {
			t.Errorf("%s: %v is not ErrPermissionDenied", c.method, err)
		}
	}
	cfg.now.Store(nil)
	if err := s.Call(within(t), "Test.Ns", ask("n", ""), nil); !errors.Is(err, apierror.ErrPermissionDenied) {
		t.Errorf("without rights: %v", err)
	}
	cfg.now.Store(acl.New(true))
	if err := s.Call(within(t), "Test.All", ask("n", ""), nil); err != nil {
		t.Errorf("with every right: %v", err)
	}
}

// The early check never refuses a caller if some body would make the call allowed.
func TestCheck_Early(t *testing.T) {
	handle := func(_ context.Context, c *rpc.Call, _ *message.NodeSpecificRequest) (*message.SingleNodeResponse, error) {
		return readNode("n"), nil
	}
	token := rpc.Handle("Test.Early", rpc.Token, rpc.Here, handle)
	in := func(ns string) string { return `namespace "` + ns + `" { policy = "read" }` }
	for _, c := range []struct {
		name              string
		method            rpc.Method
		namespace, policy string
		refused           bool
	}{
		{"own namespace", token.Needs(rpc.InNamespace(acl.ReadJob)), "prod", in("prod"), false},
		{"other namespace", token.Needs(rpc.InNamespace(acl.ReadJob)), "prod", in("other"), true},
		{"any namespace", token.Needs(rpc.InNamespace(acl.ReadJob)), "", in("other"), false},
		{"no namespace", token.Needs(rpc.InNamespace(acl.ReadJob)), "", `node { policy = "read" }`, true},
		{"all namespaces", token.Needs(rpc.InNamespace(acl.ReadJob)), "*", `node { policy = "read" }`, false},
		{"handler's own, before it", token.Needs(rpc.CheckedByHandler("x").Before(rpc.Somewhere(acl.ToWrite(acl.NodePools)))), "", in("prod"),
			true},
		{"both", token.Needs(rpc.InNamespace(acl.ReadJob).And(rpc.Needs(acl.ToRead(acl.Nodes)))), "", in("other"), true},
		{"one of two", token.Needs(rpc.Needs(acl.ToRead(acl.Nodes)).Or(rpc.InNamespace(acl.ReadJob))), "", in("other"), false},
		{"management", rpc.Handle("Test.Early", rpc.Management, rpc.Here, handle), "", `operator { policy = "write" }`, true},
	} {
		access := &rpc.Access{Rights: granted(t, c.policy)}
		early, ok := c.method.Early()
		if !ok {
			t.Fatalf("%s: no early check", c.name)
		}
		if err := early.AskEarly(access, message.Envelope{Namespace: c.namespace}); errors.Is(err, apierror.ErrPermissionDenied) != c.refused {
			t.Errorf("%s: %v, want refused %t", c.name, err, c.refused)
		}
	}
	for name, m := range map[string]rpc.Method{"handler's own": token.Needs(rpc.CheckedByHandler("x")),
		"anonymous": rpc.Handle("Test.Early", rpc.Anonymous, rpc.Here, handle)} {
		if _, ok := m.Early(); ok {
			t.Errorf("%s: an early check exists", name)
		}
	}
}

func errText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// A blocking read is answered according to the rights at its end.
func TestRecheck_RightsChange(t *testing.T) {
	cfg := rights{now: &atomic.Pointer[acl.ACL]{}}
	var then *acl.ACL
	s, _ := serve(t, func(c *rpc.Config) {
		c.Auth, c.Recheck = cfg, time.Nanosecond
		c.Methods = []rpc.Method{
			rpc.Handle("Test.List", rpc.Token, rpc.Here,
				func(_ context.Context, c *rpc.Call, _ *message.NodeSpecificRequest) (*message.SingleNodeResponse, error) {
					defer cfg.now.Store(then)
					if c.Access.Allows(acl.InNamespace("prod", acl.ReadJob)) {
						return readNode("of prod"), nil
					}
					return readNode("of nothing"), nil
				}).Needs(rpc.InNamespace(acl.ReadJob)),
			rpc.Handle("Test.Get", rpc.Token, rpc.Here,
				func(_ context.Context, c *rpc.Call, _ *message.NodeSpecificRequest) (*message.SingleNodeResponse, error) {
					defer cfg.now.Store(then)
					return readNode("of prod"), c.Access.Need(acl.InNamespace("prod", acl.ReadJob))
				}).Needs(rpc.On("prod", acl.InNamespace("", acl.ReadJob))),
		}
	})
	prod := granted(t, `namespace "prod" { policy = "read" }`)
	call := func(method string, first, later *acl.ACL) (string, error) {
		cfg.now.Store(first)
		then = later
		req := ask("n", "")
		req.Namespace = nomad.AllNamespacesSentinel
		var out message.SingleNodeResponse
		if err := s.Call(within(t), method, req, &out); err != nil {
			return "", err
		}
		return out.Node.ID, nil
	}
	if got, err := call("Test.List", prod, prod); got != "of prod" || err != nil {
		t.Errorf("unchanged rights: %q, %v", got, err)
	}
	if got, err := call("Test.List", prod, acl.New(false)); got != "of nothing" || err != nil {
		t.Errorf("revoked rights: %q, %v", got, err)
	}
	if got, err := call("Test.Get", prod, acl.New(false)); !errors.Is(err, apierror.ErrPermissionDenied) {
		t.Errorf("a required right was revoked: %q, %v", got, err)
	}
}

// keyReader admits all callers as a workload that reads Consul keys while keys is set.
type keyReader struct {
	rpc.TrustPeer
	keys *atomic.Bool
}

func (r keyReader) Access(context.Context, *rbac.AuthenticatedIdentity) (*rpc.Access, error) {
	return &rpc.Access{Rights: acl.OfNodes, Workload: &acl.Workload{Namespace: "prod", Keys: r.keys.Load()}}, nil
}

// A right without a policy can end too, while the policies stay the same.
func TestRecheck_WorkloadChange(t *testing.T) {
	auth, then := keyReader{keys: &atomic.Bool{}}, false
	key := acl.Question{Kind: acl.Variables, Namespace: "prod", Name: "consul/a", Rights: []string{string(acl.VariableRead)}}
	check := rpc.On("the path", acl.Question{Kind: acl.Variables, Rights: key.Rights})
	s, _ := serve(t, func(c *rpc.Config) {
		c.Auth, c.Recheck = auth, time.Nanosecond
		c.Methods = []rpc.Method{
			rpc.Handle("Test.List", rpc.Token, rpc.Here,
				func(_ context.Context, c *rpc.Call, _ *message.NodeSpecificRequest) (*message.SingleNodeResponse, error) {
					defer auth.keys.Store(then)
					if c.Access.Allows(key) {
						return readNode("key"), nil
					}
					return readNode("no key"), nil
				}).Needs(check),
			rpc.Handle("Test.Get", rpc.Token, rpc.Here,
				func(_ context.Context, c *rpc.Call, _ *message.NodeSpecificRequest) (*message.SingleNodeResponse, error) {
					defer auth.keys.Store(then)
					return readNode("key"), c.Access.Need(key)
				}).Needs(check),
		}
	})
	for _, c := range []struct {
		method string
		later  bool
		want   string // "" for a refusal
	}{
		{"Test.List", true, "key"}, {"Test.List", false, "no key"}, {"Test.Get", true, "key"}, {"Test.Get", false, ""},
	} {
		auth.keys.Store(true)
		then = c.later
		var out message.SingleNodeResponse
		err := s.Call(within(t), c.method, ask("n", ""), &out)
		got := ""
		if err == nil {
			got = out.Node.ID
		}
		if got != c.want || errors.Is(err, apierror.ErrPermissionDenied) != (c.want == "") {
			t.Errorf("%s, right kept %t: %q, %v, want %q", c.method, c.later, got, err, c.want)
		}
	}
}

// The zero Check, an unknown scope and an alternative without a need admit no caller, not even with all rights.
func TestCheck_FailsClosed(t *testing.T) {
	everything := &rpc.Access{Rights: acl.New(true)}
	for name, c := range map[string]rpc.Check{
		"zero":            {},
		"unknown scope":   {Any: [][]rpc.Need{{{Scope: 99, Right: acl.ToRead(acl.Nodes)}}}},
		"zero scope":      {Any: [][]rpc.Need{{{Right: acl.ToRead(acl.Nodes)}}}},
		"no needs":        {Any: [][]rpc.Need{{}}},
		"of an object":    rpc.On("the job", acl.InNamespace("", acl.ReadJob)),
		"by handler":      rpc.CheckedByHandler("x"),
		"handler's first": rpc.CheckedByHandler("x").Before(rpc.CheckedByHandler("y")),
	} {
		if err := c.Ask(everything, message.Envelope{}); !errors.Is(err, apierror.ErrPermissionDenied) {
			t.Errorf("%s: Ask() = %v, want permission denied", name, err)
		}
		row := rpc.Handle("A.B", rpc.Token, rpc.Here,
			func(context.Context, *rpc.Call, *message.GenericRequest) (*message.GenericResponse, error) {
				return nil, nil
			}).Needs(c)
		_, err := rpc.NewServer(rpc.Config{Methods: []rpc.Method{row}, Auth: everybody{}})
		if valid := name == "of an object" || name == "by handler"; (err == nil) != valid {
			t.Errorf("%s: NewServer() = %v, want valid %t", name, err, valid)
		}
	}
}

func TestCheck_String(t *testing.T) {
	read, nodes := acl.InNamespace("", acl.ReadJob), acl.ToRead(acl.Nodes)
	for want, c := range map[string]rpc.Check{
		"node:[read]":              rpc.Needs(nodes),
		"ns:[read-job submit-job]": rpc.InNamespace(acl.ReadJob, acl.SubmitJob),
		"ns:[list-jobs], or ns:[read-job] and node:[read]": rpc.InNamespace(acl.ListJobs).Or(rpc.InNamespace(acl.ReadJob).And(rpc.Needs(nodes))),
		"ns:[read-job] of the allocation; more if it runs": rpc.On("the allocation", read).Also("more if it runs"),
		"management, or the token itself":                  rpc.Managers.Or(rpc.CheckedByHandler("the token itself")),
		"node:[read], or any node, or any workload":        rpc.Needs(nodes).Or(rpc.AnyNode).Or(rpc.AnyWorkload),
		"any token": rpc.AnyToken,
	} {
		if got := c.String(); got != want {
			t.Errorf("String() = %q, want %q", got, want)
		}
	}
}
