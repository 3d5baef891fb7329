package acl_test

import (
	"testing"

	"github.com/open-nomad/open-nomad/acl"
)

func TestWorkloadReadsKeys(t *testing.T) {
	keys := *web
	keys.Keys = true
	for _, c := range []struct {
		name, src, namespace, path string
		workload                   *acl.Workload
		want                       acl.Reason
	}{
		{"no policy", "", "prod", "consul/a/b", &keys, acl.ReasonKey},
		{"the region uses Consul", "", "prod", "consul/a/b", web, acl.ReasonNoRule},
		{"another namespace", "", "dev", "consul/a/b", &keys, acl.ReasonNoRule},
		{"not a key", "", "prod", "consul/", &keys, acl.ReasonNoRule},
		{"another root", "", "prod", "consulx/a", &keys, acl.ReasonNoRule},
		{"no workload", "", "prod", "consul/a", nil, acl.ReasonNoRule},
		{"deny by name", vars("prod", "consul/a", "deny"), "prod", "consul/a", &keys, acl.ReasonDenied},
		{"deny below", vars("prod", "consul/a/*", "deny"), "prod", "consul/a/b", &keys, acl.ReasonDenied},
		{"deny in a glob of namespaces", vars("*", "consul/a", "deny"), "prod", "consul/a", &keys, acl.ReasonDenied},
		{"deny elsewhere", vars("prod", "consul/x/*", "deny"), "prod", "consul/a/b", &keys, acl.ReasonKey},
		{"list only", vars("prod", "consul/*", "list"), "prod", "consul/a/b", &keys, acl.ReasonKey},
		{"denied namespace", `namespace "prod" { policy = "deny" }`, "prod", "consul/a", &keys, acl.ReasonNamespaceDenied},
	} {
		a := acl.New(false)
		if c.src != "" {
			a = acl.New(false, parse(t, c.src))
		}
		q := acl.OfVariable(c.namespace, c.path, acl.VariableRead)
		q.Workload = c.workload
		if got := a.Explain(q); got.Reason != c.want {
			t.Errorf("%s: %s, want the reason %q", c.name, got, c.want)
		}
		if asks(a, c.namespace, c.path, acl.VariableWrite, c.workload) || asks(a, c.namespace, c.path, acl.VariableDestroy, c.workload) {
			t.Errorf("%s: the workload writes or destroys", c.name)
		}
	}
}
