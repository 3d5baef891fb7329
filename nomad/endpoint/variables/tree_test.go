package variables_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/server/servertest"
	"github.com/open-nomad/open-nomad/nomad/variable"
)

// A tree has only what the caller may read, and nothing shows that there is more.
func TestTree(t *testing.T) {
	g := servertest.StartACL(t, nil)
	n := servertest.Join(t, g.Server.RPCAddr())
	for _, path := range []string{"consul/b", "consul/a/x", "consul/a/secret", "other"} {
		g.Must("Variables.Apply", &message.VariablesApplyRequest{Op: variable.OpSet, Var: servertest.Variable(path, "value of "+path)}, nil)
	}
	g.Must("Variables.Apply", &message.VariablesApplyRequest{Op: variable.OpLockAcquire, Var: servertest.Variable("consul/b", "")}, nil)
	reader := g.TokenWith(`namespace "default" { variables {
		path "consul/*" { capabilities = ["read"] }
		path "consul/a/secret" { capabilities = ["list"] }
	} }`)
	tree := func(secret string, q message.QueryOptions) (string, *message.VariablesTreeResponse) {
		var out message.VariablesTreeResponse
		if err := g.Call(secret, "Variables.Tree", &message.VariablesTreeRequest{QueryOptions: q}, &out); err != nil {
			return err.Error(), nil
		}
		var paths []string
		for _, v := range out.Data {
			paths = append(paths, v.Path)
			servertest.Equal(t, "item of "+v.Path, v.Items["k"], "value of "+v.Path)
			if secret == reader && v.LockID() != "" {
				t.Errorf("a reader gets the ID of the lock on %s", v.Path)
			}
		}
		return strings.Join(paths, " "), &out
	}
	for _, c := range []struct{ who, secret, ns, prefix, want string }{
		{"root", g.Root, "default", "consul/", "consul/a/secret consul/a/x consul/b"},
		{"reader", reader, "default", "consul/", "consul/a/x consul/b"},
		{"reader", reader, "default", "", "consul/a/x consul/b"},
		{"reader", reader, "default", "other", ""},
		{"reader", reader, "unknown", "", ""},
		{"nobody", "", "default", "", ""},
		{"node", n.JWT, "default", "", ""},
	} {
		if got, _ := tree(c.secret, message.QueryOptions{Namespace: c.ns, Prefix: c.prefix}); got != c.want {
			t.Errorf("%s reads %q in %s: %q, want %q", c.who, c.prefix, c.ns, got, c.want)
		}
	}
	if got, _ := tree(g.Root, message.QueryOptions{Namespace: "*"}); !strings.Contains(got, "in one namespace") {
		t.Errorf("all namespaces: %q", got)
	}
	if got, out := tree(reader, message.QueryOptions{PerPage: 1}); got != "consul/a/x" || out.NextToken != "default.consul/b" {
		t.Errorf("the first page has %q, the next token is %q", got, out.NextToken)
	}
}

// The size of a tree is limited. The limit counts only what the caller may read.
func TestTree_Large(t *testing.T) {
	g := servertest.StartACL(t, nil)
	value := strings.Repeat("v", variable.MaxSize-1)
	for i := range 130 {
		g.Must("Variables.Apply", &message.VariablesApplyRequest{Op: variable.OpSet, Var: servertest.Variable(fmt.Sprint("a/", i), value)}, nil)
	}
	read := func(secret string, q message.QueryOptions) error {
		return g.Call(secret, "Variables.Tree", &message.VariablesTreeRequest{QueryOptions: q}, &message.VariablesTreeResponse{})
	}
	var coded *apierror.Coded
	if err := read(g.Root, message.QueryOptions{}); !errors.As(err, &coded) || !strings.Contains(err.Error(), "8 MiB") {
		t.Errorf("a tree of 8.2 MiB: %v", err)
	}
	for name, err := range map[string]error{"a page": read(g.Root, message.QueryOptions{PerPage: 50}),
		"a longer prefix": read(g.Root, message.QueryOptions{Prefix: "a/1"}),
		"a reader of one": read(g.TokenWith(`namespace "default" { variables { path "a/7" { capabilities = ["read"] } } }`), message.QueryOptions{}),
	} {
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
