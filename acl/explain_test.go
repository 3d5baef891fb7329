package acl_test

import (
	"slices"
	"testing"

	"github.com/open-nomad/open-nomad/acl"
)

func TestExplain(t *testing.T) {
	ops := parse(t, `namespace "prod" {
  policy       = "read"
  capabilities = ["submit-job", "alloc-exec"]
  variables {
    path "app/*" { capabilities = ["list"] }
  }
}
namespace "secret-*" { policy = "deny" }
operator { policy = "read" }
`)
	ops.Name = "ops"
	ban := parse(t, "namespace \"pro*\" {\n  capabilities = [\"deny\"]\n}\nnamespace \"*rod-1\" { policy = \"write\" }\nnamespace \"*\" {\n  variables {\n    path \"nomad/jobs/web\" { capabilities = [\"deny\"] }\n  }\n}\n")
	ban.Name = "ban"
	a := acl.New(false, ops, ban)
	ns := func(name string, rights ...string) acl.Question {
		return acl.Question{Kind: acl.Namespaces, Name: name, Rights: rights}
	}
	tests := []struct {
		name string
		q    acl.Question
		want string
	}{
		{"granted by a capability", ns("prod", "alloc-exec"),
			`alloc-exec in namespace "prod": allowed: granted: policy "ops", line 3, column 33: namespace "prod": "alloc-exec"`},
		{"granted by a short form", ns("prod", "read-job"),
			`read-job in namespace "prod": allowed: granted: policy "ops", line 2, column 18: namespace "prod": policy = "read"`},
		{"granted by one of two rights", ns("prod", "purge-job", "submit-job"),
			`purge-job or submit-job in namespace "prod": allowed: granted: policy "ops", line 3, column 19: namespace "prod": "submit-job"`},
		{"denied", ns("product", "read-job"),
			`read-job in namespace "product": refused: denied: policy "ban", line 2, column 19: namespace "pro*": "deny"`},
		{"not granted", ns("prod", "purge-job"),
			`purge-job in namespace "prod": refused: not granted: policy "ops", line 2, column 18: namespace "prod": policy = "read"; ` +
				`policy "ops", line 3, column 19: namespace "prod": "submit-job"; policy "ops", line 3, column 33: namespace "prod": "alloc-exec"`},
		{"silent block", ns("dev", "read-job"),
			`read-job in namespace "dev": refused: not granted: policy "ban", line 5, column 1: namespace "*": no rights set`},
		{"closest glob", ns("prod-1", "submit-job"),
			`submit-job in namespace "prod-1": allowed: granted: policy "ban", line 4, column 31: namespace "*rod-1": policy = "write"`},
		{"no rule", acl.Question{Kind: acl.NodePools, Name: "gpu", Rights: []string{"read"}}, `read of node_pool "gpu": refused: no rule`},
		{"no name", ns("*", "read-job"), `read-job in namespace "*": refused: no such name`},
		{"no right", ns("prod", "fly"), `fly in namespace "prod": refused: no such right`},
		{"operator", acl.Question{Kind: acl.Operators, Rights: []string{"keyring-read"}},
			`keyring-read of operator: allowed: granted: policy "ops", line 9, column 21: operator: policy = "read"`},
		{"variable", acl.Question{Kind: acl.Variables, Namespace: "prod", Name: "app/db", Rights: []string{"read"}},
			`read of variable "app/db" in namespace "prod": refused: not granted: policy "ops", line 5, column 36: namespace "prod" variables path "app/*": "list"`},
		{"variable of a denied namespace", acl.Question{Kind: acl.Variables, Namespace: "secret-x", Name: "a", Rights: []string{"read"}},
			`read of variable "a" in namespace "secret-x": refused: namespace denied: policy "ops", line 8, column 33: namespace "secret-*": policy = "deny"`},
		{"own path", acl.Question{Kind: acl.Variables, Namespace: "prod", Name: "nomad/jobs/web/api", Rights: []string{"read"}, Workload: web},
			`read of variable "nomad/jobs/web/api" in namespace "prod": allowed: workload's own path`},
		{"own path denied", acl.Question{Kind: acl.Variables, Namespace: "prod", Name: "nomad/jobs/web", Rights: []string{"read"}, Workload: web},
			`read of variable "nomad/jobs/web" in namespace "prod": refused: denied: policy "ban", line 7, column 45: namespace "*" variables path "nomad/jobs/web": "deny"`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := a.Explain(tt.q).String(); got != tt.want {
				t.Errorf("Explain() =\n %s\nwant\n %s", got, tt.want)
			}
		})
	}
	if got := acl.New(true, ops).Explain(ns("x", "read-job")); !got.Allowed || got.Reason != acl.ReasonManagement {
		t.Errorf("management: %s", got)
	}
	var none *acl.ACL
	if got := none.Explain(ns("x", "read-job")); got.Allowed || got.Reason != acl.ReasonNoRule {
		t.Errorf("no ACL: %s", got)
	}
}

func TestRights(t *testing.T) {
	if got := acl.Rights(acl.Variables); !slices.Equal(got, []string{"destroy", "list", "read", "write"}) {
		t.Errorf("Rights(variables) = %v", got)
	}
	if got := acl.Rights(acl.Operators); !slices.Contains(got, "read") || !slices.Contains(got, "snapshot-save") {
		t.Errorf("Rights(operator) = %v", got)
	}
	if got := acl.Rights("x"); got != nil {
		t.Errorf("Rights(x) = %v", got)
	}
}

// A question without a name is about a kind without names, or about any object of the kind.
func TestQuestion_String(t *testing.T) {
	for _, c := range []struct {
		q    acl.Question
		want string
	}{
		{acl.InNamespace("prod", acl.AllocExec), `alloc-exec in namespace "prod"`},
		{acl.InNamespace("", acl.AllocExec), `alloc-exec in any namespace`},
		{acl.InNamespace("", acl.ReadJob, acl.SubmitJob), `read-job or submit-job in any namespace`},
		{acl.OfNodePool("gpu", acl.NodePoolWrite), `write of node_pool "gpu"`},
		{acl.OfNodePool("", acl.NodePoolWrite), `write of any node_pool`},
		{acl.OfHostVolume("data", acl.MountReadWrite), `mount-readwrite of host_volume "data"`},
		{acl.OfHostVolume("", acl.MountReadWrite), `mount-readwrite of any host_volume`},
		{acl.OfVariable("prod", "app/db", acl.VariableRead), `read of variable "app/db" in namespace "prod"`},
		{acl.ToRead(acl.Nodes), `read of node`},
		{acl.ToWrite(acl.Agents), `write of agent`},
		{acl.OfOperator(acl.SnapshotSave), `snapshot-save of operator`},
	} {
		if got := c.q.String(); got != c.want {
			t.Errorf("String() = %s, want %s", got, c.want)
		}
	}
}
