package rpc_test

import (
	"testing"

	"github.com/open-nomad/open-nomad/acl"
	"github.com/open-nomad/open-nomad/nomad/rpc"
)

// Without access control, the identity of a task reads the variables that an anonymous caller reads, and writes none.
func TestAccess_Disabled(t *testing.T) {
	task := &acl.Workload{Namespace: "prod", Job: "web", Group: "g", Task: "t"}
	for _, path := range []string{"nomad/jobs/web", "nomad/jobs/other", "app/db"} {
		for _, namespace := range []string{"prod", "other"} {
			for right, want := range map[acl.VariableCapability]struct{ anonymous, task bool }{
				acl.VariableRead: {true, true}, acl.VariableList: {true, true}, acl.VariableWrite: {true, false}, acl.VariableDestroy: {true, false},
			} {
				q := acl.OfVariable(namespace, path, right)
				anonymous := (&rpc.Access{Rights: acl.Everything, Disabled: true}).Allows(q)
				of := (&rpc.Access{Rights: acl.Everything, Disabled: true, Workload: task}).Allows(q)
				if anonymous != want.anonymous || of != want.task {
					t.Errorf("%s of %s in %s: anonymous %t, task %t, want %+v", right, path, namespace, anonymous, of, want)
				}
			}
			if !(&rpc.Access{Rights: acl.Everything, Disabled: true, Workload: task}).AllowsSearch(namespace) {
				t.Errorf("a task cannot search in %s", namespace)
			}
		}
	}
	// With access control, only its own paths.
	if (&rpc.Access{Rights: acl.New(false), Workload: task}).Allows(acl.OfVariable("prod", "app/db", acl.VariableRead)) {
		t.Error("with access control, a task without a policy reads app/db")
	}
}
