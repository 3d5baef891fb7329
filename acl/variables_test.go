package acl_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/acl"
)

// vars returns a namespace block with paths, given as alternating paths and capabilities.
func vars(namespace string, paths ...string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "namespace %q {\n variables {\n", namespace)
	for i := 0; i < len(paths); i += 2 {
		fmt.Fprintf(&b, " path %q { capabilities = [%q] }\n", paths[i], paths[i+1])
	}
	return b.String() + " }\n}\n"
}

var variableRights = []string{"list", "read", "write", "destroy"}

func TestClosestPath(t *testing.T) {
	deny := "namespace \"prod\" {\n policy = \"deny\"\n variables {\n path \"*\" { capabilities = [\"read\"] }\n }\n}\n"
	tests := []struct {
		name, src, path, want string
	}{
		{"exact", vars("prod", "app/db", "read"), "app/db", "list read"},
		{"below", vars("prod", "app/db", "read"), "app/db/x", ""},
		{"glob", vars("prod", "app/*", "write"), "app/db/x", "write"},
		{"exact before glob", vars("prod", "app/*", "write", "app/db", "list"), "app/db", "list"},
		{"deny by name", vars("prod", "*", "read", "app/db", "deny"), "app/db", ""},
		{"deny of a glob", vars("prod", "*", "read", "app/*", "deny"), "app/db", ""},
		{"closest glob", vars("prod", "a*", "write", "app/*", "read"), "app/db", "list read"},
		{"glob of namespaces", vars("*", "app/db", "read"), "app/db", "list read"},
		{"namespace by name before its globs", vars("*", "app/db", "write") + vars("prod", "app/db", "read"), "app/db", "list read"},
		{"namespace and path count together", vars("*", "app/db", "write") + vars("prod", "app/*", "read"), "app/db", "list read"},
		{"globs of both", vars("p*", "app/*", "read") + vars("*", "*", "write"), "app/db", "list read"},
		{"tie", vars("*d", "app/*", "read") + vars("p*", "app/*", "deny"), "app/db", ""},
		{"tie of rights", vars("*d", "app/*", "read") + vars("p*", "app/*", "list"), "app/db", "list"},
		{"another namespace", vars("dev", "*", "read"), "app/db", ""},
		{"rights in the namespace do not apply to variables", `namespace "prod" { policy = "write" }`, "app/db", ""},
		{"a denied namespace", deny, "app/db", ""},
		{"denied by a glob, not by name", `namespace "*" { policy = "deny" }` + "\n" + vars("prod", "*", "read"), "app/db", "list read"},
		{"a deny is not hidden by a block that denies paths", `namespace "pr*" { policy = "deny" }` + "\n" + vars("prod", "x", "deny") +
			vars("*", "*", "read"), "app/db", ""},
		{"a deny as close as the path", `namespace "pr*" { policy = "deny" }` + "\n" + vars("*od", "*", "read"), "app/db", ""},
		{"one of two equally close blocks denies", `namespace "pr*" { policy = "deny" }` + "\n" + `namespace "*od" { policy = "read" }` + "\n" +
			vars("*", "*", "read"), "app/db", ""},
		{"a deny between the namespaces of a tie", `namespace "pr*" { policy = "deny" }` + "\n" + vars("pro*", "*", "read") +
			vars("*", "app*", "read"), "app/db", ""},
		{"a denied glob of namespaces", `namespace "pr*" { policy = "deny" }` + "\n" + vars("*", "*", "read"), "app/db", ""},
		{"empty path", vars("prod", "*", "read"), "", ""},
		{"pattern as a path", vars("prod", "*", "read"), "*", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := granted(acl.New(false, parse(t, tt.src)), acl.Variables, "prod", tt.path, variableRights); got != tt.want {
				t.Errorf("%q on %q, want %q", got, tt.path, tt.want)
			}
		})
	}
	if a := acl.New(false, parse(t, vars("*", "*", "read"))); asks(a, "", "x", acl.VariableRead, nil) ||
		asks(a, "*", "x", acl.VariableRead, nil) || a.AllowVariableSearch("*", nil) || a.AllowVariableSearch("", nil) {
		t.Error("a namespace without a name is allowed")
	}
}

// web is the task of the tests.
var web = &acl.Workload{Namespace: "prod", Job: "web", Group: "api", Task: "srv"}

func TestWorkloadReadsItsOwnPaths(t *testing.T) {
	own := []string{"nomad/jobs", "nomad/jobs/web", "nomad/jobs/web/api", "nomad/jobs/web/api/srv"}
	others := []string{
		"nomad", "nomad/job", "nomad/jobs/", "nomad/jobsweb", "nomad/jobs/we", "nomad/jobs/web-evil", "nomad/jobs/web/", "nomad/jobs/web/ap",
		"nomad/jobs/web/api2", "nomad/jobs/web/api/", "nomad/jobs/web/api/srv2", "nomad/jobs/web/api/srv/x", "nomad/jobs/web/other",
		"nomad/jobs/other", "nomad/job-templates/x", "app/db", "/nomad/jobs/web", "nomad//jobs/web", "nomad/jobs//web",
	}
	for _, a := range []*acl.ACL{acl.New(false), {}, acl.New(false, parse(t, `namespace "prod" { policy = "read" }`))} {
		for _, path := range own {
			for _, op := range []acl.VariableCapability{acl.VariableRead, acl.VariableList, acl.VariableWrite, acl.VariableDestroy} {
				want := op == acl.VariableRead || op == acl.VariableList
				if got := asks(a, "prod", path, op, web); got != want {
					t.Errorf("%s of %s: %v, want %v", op, path, got, want)
				}
				if asks(a, "dev", path, op, web) {
					t.Errorf("%s of %s in another namespace is allowed", op, path)
				}
				if asks(a, "prod", path, op, nil) {
					t.Errorf("%s of %s is allowed to everyone", op, path)
				}
			}
		}
		for _, path := range others {
			if asks(a, "prod", path, acl.VariableList, web) {
				t.Errorf("list of %s is allowed", path)
			}
		}
		if !a.AllowVariableSearch("prod", web) || a.AllowVariableSearch("dev", web) {
			t.Error("AllowVariableSearch() of a workload is not limited to its own namespace")
		}
	}
	var none *acl.ACL
	if asks(none, "prod", "nomad/jobs/web", acl.VariableRead, web) || none.AllowVariableSearch("prod", web) {
		t.Error("nil ACL allows something")
	}
}

// A job ID can contain a slash, which is not escaped in its variable path. Only in this way
// can two jobs of a namespace have the same path (variables.md).
func TestWorkloadOfAJobWithASlash(t *testing.T) {
	a := acl.New(false)
	slashed := &acl.Workload{Namespace: "prod", Job: "web/api", Group: "g", Task: "t"}
	for path, want := range map[string][2]bool{ // slashed, web
		"nomad/jobs/web/api":     {true, true},
		"nomad/jobs/web":         {false, true},
		"nomad/jobs/web/api/srv": {false, true},
		"nomad/jobs/web/api/g":   {true, false},
		"nomad/jobs/web/api/g/t": {true, false},
		"nomad/jobs/web/other":   {false, false},
	} {
		for i, w := range []*acl.Workload{slashed, web} {
			if got := asks(a, "prod", path, acl.VariableRead, w); got != want[i] {
				t.Errorf("job %s reads %s: %v, want %v", w.Job, path, got, want[i])
			}
			if asks(a, "prod", path, acl.VariableWrite, w) {
				t.Errorf("job %s writes %s", w.Job, path)
			}
		}
	}
}

func TestSearchOfDeniedNamespaces(t *testing.T) {
	deny := `namespace "pr*" { policy = "deny" }` + "\n"
	tests := []struct {
		src  string
		want bool
	}{
		{deny, false},
		{deny + vars("*", "*", "read"), false},
		{deny + vars("p*", "*", "read"), false},
		{deny + vars("*od", "*", "list"), false},
		{deny + vars("pro*", "*", "read"), true},
		{deny + vars("prod", "app/*", "list"), true},
		{`namespace "prod" { policy = "deny" }` + "\n" + vars("prod*", "*", "read"), false},
	}
	for _, tt := range tests {
		a := acl.New(false, parse(t, tt.src))
		for _, w := range []*acl.Workload{nil, web} {
			if got := a.AllowVariableSearch("prod", w); got != tt.want {
				t.Errorf("search by %v is %v, want %v:\n%s", w, got, tt.want, tt.src)
			}
		}
	}
}

func TestIncompleteWorkloads(t *testing.T) {
	a := acl.New(false)
	tests := []struct {
		w    acl.Workload
		path string
		want bool
	}{
		{acl.Workload{}, "nomad/jobs", false},
		{acl.Workload{Job: "web"}, "nomad/jobs/web", false},
		{acl.Workload{Namespace: "prod"}, "nomad/jobs", true},
		{acl.Workload{Namespace: "prod"}, "nomad/jobs/web", false},
		{acl.Workload{Namespace: "prod"}, "nomad/jobs/", false},
		{acl.Workload{Namespace: "prod", Job: "web", Group: "api"}, "nomad/jobs/web/api", true},
		{acl.Workload{Namespace: "prod", Job: "web", Group: "api"}, "nomad/jobs/web/api/srv", false},
		{acl.Workload{Namespace: "prod", Job: "web", Task: "srv"}, "nomad/jobs/web/srv", false},
		{acl.Workload{Namespace: "prod", Job: "web", Task: "srv"}, "nomad/jobs/web//srv", false},
	}
	for _, tt := range tests {
		for _, ns := range []string{"prod", ""} {
			if got := asks(a, ns, tt.path, acl.VariableRead, &tt.w); got != (tt.want && ns == "prod") {
				t.Errorf("%+v reads %s of %q: %v", tt.w, tt.path, ns, got)
			}
		}
	}
}

func TestPoliciesOnOwnPaths(t *testing.T) {
	const own = "nomad/jobs/web"
	tests := []struct {
		name, src, want string
	}{
		{"deny by name", vars("prod", own, "deny"), ""},
		{"deny by name in a glob of namespaces", vars("*", own, "deny"), ""},
		{"the same with a closer glob grant", vars("*", own, "deny") + vars("prod", "nomad/*", "read"), ""},
		{"deny of the namespace", `namespace "prod" { policy = "deny" }`, ""},
		{"deny of a glob of namespaces", `namespace "*" { capabilities = ["deny"] }`, ""},
		{"deny of a glob of paths is weaker", vars("prod", "nomad/*", "deny"), "list read"},
		{"deny of everything is weaker", vars("*", "*", "deny"), "list read"},
		{"deny of another path", vars("prod", "nomad/jobs/other", "deny"), "list read"},
		{"deny of the parent path", vars("prod", "nomad/jobs", "deny"), "list read"},
		{"a grant by name replaces the own rights", vars("prod", own, "write"), "write"},
		{"a grant by glob adds", vars("prod", "nomad/*", "write"), "list read write"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			a := acl.New(false, parse(t, tt.src))
			var got []string
			for _, op := range variableRights {
				if asks(a, "prod", own, acl.VariableCapability(op), web) {
					got = append(got, op)
				}
			}
			if s := strings.Join(got, " "); s != tt.want {
				t.Errorf("%q, want %q", s, tt.want)
			}
		})
	}
}
