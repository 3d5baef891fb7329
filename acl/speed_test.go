package acl_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/acl"
)

// large returns an ACL of 10 policies with 40 namespaces, 40 globs and 100 paths.
func large(t testing.TB) *acl.ACL {
	var policies []*acl.Policy
	for i := range 10 {
		var b strings.Builder
		for j := range 4 {
			fmt.Fprintf(&b, "namespace \"team-%d-%d\" {\n policy = \"write\"\n variables {\n path \"app/%d/*\" { capabilities = [\"read\"] }\n path \"app/%d\" { capabilities = [\"write\"] }\n }\n}\n", i, j, j, j)
			fmt.Fprintf(&b, "namespace \"stage-%d-%d-*\" {\n policy = \"read\"\n}\n", i, j)
		}
		fmt.Fprintf(&b, "namespace \"ci-%d-*\" {\n variables {\n path \"build/*\" { capabilities = [\"read\"] }\n path \"nomad/*\" { capabilities = [\"list\"] }\n }\n}\n", i)
		fmt.Fprintf(&b, "node_pool \"pool-%d*\" {\n policy = \"read\"\n}\nnode { policy = \"read\" }\n", i)
		policies = append(policies, parse(t, b.String()))
	}
	return acl.New(false, policies...)
}

type decision struct {
	name string
	want bool
	ask  func() bool
}

func decisions(a *acl.ACL) []decision {
	return []decision{
		{"namespace by name", true, func() bool { return a.Ask(acl.InNamespace("team-7-2", acl.SubmitJob)) }},
		{"namespace by two rights", true, func() bool { return a.Ask(acl.InNamespace("team-7-2", acl.PurgeJob, acl.SubmitJob)) }},
		{"namespace by glob", true, func() bool { return a.Ask(acl.InNamespace("stage-3-3-web", acl.ReadJob)) }},
		{"namespace without rule", false, func() bool { return a.Ask(acl.InNamespace("production", acl.ReadJob)) }},
		{"variable by name", true, func() bool { return asks(a, "team-7-2", "app/2", acl.VariableWrite, nil) }},
		{"variable by glob", true, func() bool { return asks(a, "team-7-2", "app/2/db", acl.VariableRead, nil) }},
		{"variable in a glob of namespaces", true, func() bool { return asks(a, "ci-4-main", "build/key", acl.VariableRead, nil) }},
		{"variable without rule", false, func() bool { return asks(a, "production", "db/password", acl.VariableRead, nil) }},
		{"variable of a workload", true, func() bool { return asks(a, "prod", "nomad/jobs/web/api/srv", acl.VariableRead, web) }},
		{"variables at all", true, func() bool { return a.AllowVariableSearch("ci-9-main", nil) }},
		{"node pool", true, func() bool { return a.Ask(acl.OfNodePool("pool-9-gpu", acl.NodePoolRead)) }},
		{"node", true, func() bool { return a.Ask(acl.ToRead(acl.Nodes)) }},
	}
}

func TestDecisionsDoNotAllocate(t *testing.T) {
	for _, d := range decisions(large(t)) {
		if got := d.ask(); got != d.want {
			t.Errorf("%s: %v", d.name, got)
		}
		if n := testing.AllocsPerRun(100, func() { d.ask() }); n != 0 {
			t.Errorf("%s allocates %v times", d.name, n)
		}
	}
}

func BenchmarkDecisions(b *testing.B) {
	for _, d := range decisions(large(b)) {
		b.Run(d.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				d.ask()
			}
		})
	}
}

func BenchmarkParse(b *testing.B) {
	b.SetBytes(int64(len(everything)))
	for b.Loop() {
		if _, err := acl.Parse(everything); err != nil {
			b.Fatal(err)
		}
	}
}
