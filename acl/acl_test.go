package acl_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/acl"
)

var namespaceCapabilities = []string{
	"list-jobs", "parse-job", "read-job", "csi-list-volume", "csi-read-volume", "read-job-scaling", "list-scaling-policies",
	"read-scaling-policy", "host-volume-read", "scale-job", "submit-job", "dispatch-job", "read-logs", "read-fs", "alloc-exec",
	"alloc-lifecycle", "csi-mount-volume", "csi-write-volume", "submit-recommendation", "host-volume-create", "alloc-node-exec",
	"sentinel-override", "csi-register-plugin", "host-volume-register", "host-volume-write", "host-volume-delete", "register-job",
	"revert-job", "deregister-job", "purge-job", "evaluate-job", "plan-job", "tag-job-version", "stable-job", "fail-deployment",
	"pause-deployment", "promote-deployment", "unblock-deployment", "cancel-deployment", "set-alloc-health-deployment",
	"gc-allocation", "pause-allocation", "force-periodic-job", "delete-service-registration", "privileged-execution", "alloc-port-forward",
}

// granted returns the rights of all that the ACL grants on a name.
func granted(a *acl.ACL, kind acl.Kind, namespace, name string, all []string) string {
	var has []string
	for _, word := range all {
		if a.Explain(acl.Question{Kind: kind, Namespace: namespace, Name: name, Rights: []string{word}}).Allowed {
			has = append(has, word)
		}
	}
	return strings.Join(has, " ")
}

func TestImpliedCapabilities(t *testing.T) {
	const (
		nsRead  = "list-jobs parse-job read-job csi-list-volume csi-read-volume read-job-scaling list-scaling-policies read-scaling-policy host-volume-read"
		nsWrite = nsRead + " scale-job submit-job dispatch-job read-logs read-fs alloc-exec alloc-lifecycle csi-mount-volume csi-write-volume submit-recommendation host-volume-create"
	)
	vars := []string{"list", "read", "write", "destroy"}
	pool := []string{"read", "write", "delete"}
	volume := []string{"mount-readonly", "mount-readwrite"}
	operator := []string{"read", "write", "snapshot-save", "license-read", "keyring-rotate", "keyring-read", "keyring-delete"}
	type test struct {
		kind acl.Kind
		body string
		all  []string
		want string
	}
	tests := []test{
		{acl.Namespaces, `policy = "read"`, namespaceCapabilities, nsRead},
		{acl.Namespaces, `policy = "write"`, namespaceCapabilities, nsWrite},
		{acl.Namespaces, `policy = "scale"`, namespaceCapabilities,
			"read-job read-job-scaling list-scaling-policies read-scaling-policy scale-job submit-recommendation"},
		{acl.Namespaces, `policy = "deny"`, namespaceCapabilities, ""},
		{acl.Namespaces, "policy = \"write\"\n capabilities = [\"deny\"]", namespaceCapabilities, ""},
		{acl.Namespaces, "policy = \"deny\"\n capabilities = [\"read-job\"]", namespaceCapabilities, ""},
		{acl.Namespaces, "policy = \"read\"\n capabilities = [\"purge-job\"]", namespaceCapabilities, nsRead + " purge-job"},
		{acl.Namespaces, `capabilities = ["host-volume-create"]`, namespaceCapabilities, "host-volume-read host-volume-create"},
		{acl.Namespaces, `capabilities = ["host-volume-register"]`, namespaceCapabilities,
			"host-volume-read host-volume-create host-volume-register"},
		{acl.Namespaces, `capabilities = ["host-volume-write"]`, namespaceCapabilities,
			"host-volume-read host-volume-create host-volume-register host-volume-write host-volume-delete"},
		{acl.Namespaces, `variables { path "*" { capabilities = ["write"] } }`, namespaceCapabilities, ""},
		{acl.Variables, `capabilities = ["list"]`, vars, "list"},
		{acl.Variables, `capabilities = ["read"]`, vars, "list read"},
		{acl.Variables, `capabilities = ["write"]`, vars, "write"},
		{acl.Variables, `capabilities = ["destroy"]`, vars, "destroy"},
		{acl.Variables, `capabilities = ["read", "write", "destroy", "deny"]`, vars, ""},
		{acl.NodePools, `policy = "read"`, pool, "read"},
		{acl.NodePools, `policy = "write"`, pool, "read write delete"},
		{acl.NodePools, `policy = "deny"`, pool, ""},
		{acl.NodePools, `capabilities = ["delete"]`, pool, "delete"},
		{acl.HostVolumes, `policy = "read"`, volume, "mount-readonly"},
		{acl.HostVolumes, `policy = "write"`, volume, "mount-readonly mount-readwrite"},
		{acl.HostVolumes, `policy = "deny"`, volume, ""},
		{acl.HostVolumes, `capabilities = ["mount-readwrite"]`, volume, "mount-readwrite"},
		{acl.Operators, `policy = "read"`, operator, "read license-read keyring-read"},
		{acl.Operators, `policy = "write"`, operator, strings.Join(operator, " ")},
		{acl.Operators, `policy = "deny"`, operator, ""},
		{acl.Operators, `capabilities = ["keyring-rotate"]`, operator, "keyring-rotate"},
		{acl.Operators, "policy = \"write\"\n capabilities = [\"deny\"]", operator, ""},
		{acl.Plugins, `policy = "list"`, pluginRights, "list"},
		{acl.Plugins, `policy = "read"`, pluginRights, "list read"},
		{acl.Plugins, `policy = "write"`, pluginRights, "list read write"},
		{acl.Plugins, `policy = "deny"`, pluginRights, ""},
	}
	for _, capability := range namespaceCapabilities {
		if !strings.HasPrefix(capability, "host-volume-") {
			tests = append(tests, test{acl.Namespaces, fmt.Sprintf("capabilities = [%q]", capability), namespaceCapabilities, capability})
		}
	}
	for _, kind := range []acl.Kind{acl.Nodes, acl.Agents, acl.Quotas, acl.Sentinels} {
		all := []string{"read", "write"}
		tests = append(tests, test{kind, `policy = "read"`, all, "read"}, test{kind, `policy = "write"`, all, "read write"},
			test{kind, `policy = "deny"`, all, ""})
	}
	for _, tt := range tests {
		t.Run(fmt.Sprintf("%s %s", tt.kind, tt.body), func(t *testing.T) {
			src, namespace, name := fmt.Sprintf("%s \"x\" {\n %s\n}", tt.kind, tt.body), "", "x"
			switch tt.kind {
			case acl.Variables:
				src, namespace = fmt.Sprintf("namespace \"n\" {\n variables {\n path \"x\" {\n %s\n}\n}\n}", tt.body), "n"
			case acl.Namespaces, acl.NodePools, acl.HostVolumes:
			default:
				src, name = fmt.Sprintf("%s {\n %s\n}", tt.kind, tt.body), ""
			}
			a := acl.New(false, parse(t, src))
			if got := granted(a, tt.kind, namespace, name, tt.all); got != tt.want {
				t.Errorf("grants %q, want %q", got, tt.want)
			}
			if got := granted(acl.New(true, parse(t, src)), tt.kind, namespace, name, tt.all); got != strings.Join(tt.all, " ") {
				t.Errorf("management grants %q", got)
			}
		})
	}
}

var pluginRights = []string{"list", "read", "write"}

func TestQuestionConstructors(t *testing.T) {
	tests := []struct {
		rule string
		want string
	}{
		{`node { policy = "read" }`, "NodeRead"},
		{`node { policy = "write" }`, "NodeRead NodeWrite"},
		{`agent { policy = "read" }`, "AgentRead"},
		{`agent { policy = "write" }`, "AgentRead AgentWrite"},
		{`operator { policy = "read" }`, "OperatorRead"},
		{`operator { policy = "write" }`, "OperatorRead OperatorWrite SnapshotSave"},
		{`operator { capabilities = ["snapshot-save"] }`, "SnapshotSave"},
		{`quota { policy = "read" }`, "QuotaRead"},
		{`quota { policy = "write" }`, "QuotaRead QuotaWrite"},
		{`plugin { policy = "list" }`, "PluginList"},
		{`plugin { policy = "read" }`, "PluginRead PluginList"},
		{`node_pool "x" { capabilities = ["write"] }`, "NodePool NodePoolWrite"},
		{`node_pool "x" { policy = "deny" }`, ""},
		{`host_volume "x" { policy = "read" }`, "MountReadOnly"},
		{`namespace "x" { policy = "read" }`, "Namespace ReadJob"},
		{`namespace "x" { capabilities = ["submit-job"] }`, "Namespace SubmitJob"},
		{`namespace "x" { policy = "deny" }`, ""},
		{"namespace \"x\" {\n variables {\n path \"x\" { capabilities = [\"list\"] }\n}\n}", "VariableList VariableSearch"},
		{"namespace \"x\" {\n variables {\n path \"x\" { capabilities = [\"write\"] }\n}\n}", ""},
		{"namespace \"x\" {\n variables {\n path \"x\" { capabilities = [\"deny\", \"list\"] }\n}\n}", ""},
		{"namespace \"*\" {\n variables {\n path \"a/*\" { capabilities = [\"list\"] }\n}\n}", "VariableSearch"},
		{"namespace \"x\" {\n policy = \"deny\"\n variables {\n path \"*\" { capabilities = [\"list\"] }\n}\n}", ""},
		{"namespace \"y\" {\n variables {\n path \"*\" { capabilities = [\"list\"] }\n}\n}", ""},
	}
	for _, tt := range tests {
		if got := may(acl.New(false, parse(t, tt.rule))); got != tt.want {
			t.Errorf("%s: allowed methods %q, want %q", tt.rule, got, tt.want)
		}
	}
	all := may(acl.New(true))
	for _, tt := range tests {
		for _, word := range strings.Fields(tt.want) {
			if !slices.Contains(strings.Fields(all), word) {
				t.Errorf("management does not allow %s", word)
			}
		}
	}
	var none *acl.ACL
	if got := may(none) + may(&acl.ACL{}) + may(acl.New(false)) + may(acl.New(false, nil)); got != "" {
		t.Errorf("nil ACL allows %q", got)
	}
	if none.IsManagement() || !acl.New(true).IsManagement() || acl.New(false).IsManagement() {
		t.Error("IsManagement is wrong")
	}
}

// may returns the names of the methods that allow something on x.
func may(a *acl.ACL) string {
	var names []string
	for _, m := range []struct {
		name string
		ok   bool
	}{
		{"NodeRead", a.Ask(acl.ToRead(acl.Nodes))}, {"NodeWrite", a.Ask(acl.ToWrite(acl.Nodes))},
		{"AgentRead", a.Ask(acl.ToRead(acl.Agents))}, {"AgentWrite", a.Ask(acl.ToWrite(acl.Agents))},
		{"OperatorRead", a.Ask(acl.ToRead(acl.Operators))}, {"OperatorWrite", a.Ask(acl.ToWrite(acl.Operators))},
		{"SnapshotSave", a.Ask(acl.OfOperator(acl.SnapshotSave))},
		{"QuotaRead", a.Ask(acl.ToRead(acl.Quotas))}, {"QuotaWrite", a.Ask(acl.ToWrite(acl.Quotas))},
		{"PluginRead", a.Ask(acl.ToRead(acl.Plugins))}, {"PluginList", a.Ask(acl.Question{Kind: acl.Plugins, Rights: []string{"list"}})},
		{"NodePool", a.Ask(acl.InAny(acl.NodePools, "x"))}, {"NodePoolWrite", a.Ask(acl.OfNodePool("x", acl.NodePoolWrite))},
		{"MountReadOnly", a.Ask(acl.OfHostVolume("x", acl.MountReadOnly))},
		{"Namespace", a.Ask(acl.InAny(acl.Namespaces, "x"))},
		{"ReadJob", a.Ask(acl.InNamespace("x", acl.ReadJob))},
		{"SubmitJob", a.Ask(acl.InNamespace("x", acl.RegisterJob, acl.SubmitJob))},
		{"VariableList", asks(a, "x", "x", acl.VariableList, nil)},
		{"VariableSearch", a.AllowVariableSearch("x", nil)},
	} {
		if m.ok {
			names = append(names, m.name)
		}
	}
	return strings.Join(names, " ")
}

func TestClosestName(t *testing.T) {
	block := func(name, capability string) string {
		return fmt.Sprintf("namespace %q { capabilities = [%q] }\n", name, capability)
	}
	tests := []struct {
		name, src, ask, want string
	}{
		{"exact", block("prod", "read-job"), "prod", "read-job"},
		{"another", block("prod", "read-job"), "prod-1", ""},
		{"prefix of a name", block("prod", "read-job"), "pro", ""},
		{"glob", block("prod*", "read-job"), "prod", "read-job"},
		{"all", block("*", "read-job"), "anything", "read-job"},
		{"exact before glob", block("*", "submit-job") + block("prod", "read-job"), "prod", "read-job"},
		{"exact before a glob with an empty match", block("prod*", "submit-job") + block("prod", "read-job"), "prod", "read-job"},
		{"deny by name in an allowed glob", block("*", "submit-job") + block("prod", "deny"), "prod", ""},
		{"allowed by name in a denied glob", block("*", "deny") + block("prod", "read-job"), "prod", "read-job"},
		{"long glob before short", block("prod-*", "read-job") + block("p*", "submit-job"), "prod-api", "read-job"},
		{"long suffix before short prefix", block("p*", "submit-job") + block("*-api", "read-job"), "prod-api", "read-job"},
		{"two stars", block("*rod-a*", "read-job") + block("prod*", "submit-job"), "prod-api", "read-job"},
		{"tie allows what both allow", block("pro*", "read-job") + block("*pro", "read-job"), "pro-pro", "read-job"},
		{"tie denies what only one allows", block("pro*", "read-job") + block("*pro", "submit-job"), "pro-pro", ""},
		{"tie with a deny", block("pro*", "read-job") + block("*pro", "deny"), "pro-pro", ""},
		{"middle", block("a*b*c", "read-job"), "a1b2c", "read-job"},
		{"parts of a glob do not overlap", block("ab*ba", "read-job"), "aba", ""},
		{"parts in another order", block("*a*b*", "read-job"), "ba", ""},
		{"variables alone hide a glob", block("*", "read-job") +
			"namespace \"prod\" {\n variables {\n path \"x\" { capabilities = [\"read\"] }\n}\n}", "prod", ""},
		{"empty name", block("*", "read-job"), "", ""},
		{"pattern as a name", block("*", "read-job"), "*", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			a := acl.New(false, parse(t, tt.src))
			if got := granted(a, acl.Namespaces, "", tt.ask, namespaceCapabilities); got != tt.want {
				t.Errorf("%q in %q, want %q", got, tt.ask, tt.want)
			}
		})
	}
}

func TestSeveralPolicies(t *testing.T) {
	read, submit := parse(t, `namespace "prod" { policy = "read" }`), parse(t, `namespace "prod" { capabilities = ["submit-job"] }`)
	deny := parse(t, `namespace "prod" { policy = "deny" }`)
	both := acl.New(false, read, submit)
	if !both.Ask(acl.InNamespace("prod", acl.ReadJob)) || !both.Ask(acl.InNamespace("prod", acl.SubmitJob)) {
		t.Error("grants of two policies are not combined")
	}
	if acl.New(false, read, deny, submit).Ask(acl.InAny(acl.Namespaces, "prod")) {
		t.Error("a deny does not override the grants")
	}
}

func TestUnknownRights(t *testing.T) {
	a := acl.New(true)
	if a.Ask(acl.InNamespace("x")) || a.Ask(acl.InNamespace("x", "fly")) || a.Ask(acl.InNamespace("x", "deny")) ||
		asks(a, "x", "x", "deny", nil) || a.Ask(acl.OfOperator("fly")) {
		t.Error("an unknown right is allowed")
	}
	if d := a.Explain(acl.Question{Kind: "moon", Rights: []string{"read"}}); d.Allowed || d.Reason != acl.ReasonNoRight {
		t.Errorf("%s", d)
	}
}

// asks asks for a right on a variable. w is nil if the caller is not a workload.
func asks(a *acl.ACL, namespace, path string, op acl.VariableCapability, w *acl.Workload) bool {
	q := acl.OfVariable(namespace, path, op)
	q.Workload = w
	return a.Ask(q)
}
