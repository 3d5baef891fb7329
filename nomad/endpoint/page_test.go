package endpoint

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/nomad/rpc"
)

// rightsPage is the page that explains the rights of calls. The table after rightsMark names the rights by subject.
const (
	rightsPage = "../../website/content/docs/acl-enforcement.md"
	rightsMark = "\n| route | right |\n|---|---|\n"
)

// calls lists the RPCs of each row of the table on rightsPage. The agent or a handler checks the rights of a row without RPCs.
var calls = map[string][]string{
	"list of jobs": {"Job.List"},
	"a job, its versions, allocations, evaluations, deployments": {"Job.GetJob", "Job.GetJobVersions", "Job.Allocations",
		"Job.Evaluations", "Job.Deployments"},
	"allocations, evaluations and deployments by ID": {"Alloc.GetAlloc", "Eval.GetEval", "Deployment.GetDeployment"},
	"register a job":                      {"Job.Register"},
	"plan, evaluate, mark stable":         {"Job.Plan", "Job.Evaluate", "Job.Stable"},
	"dispatch":                            {"Job.Dispatch"},
	"stop a job":                          {"Job.Deregister"},
	"stop a job with `purge`":             nil,
	"`/v1/jobs/parse`":                    nil,
	"`/v1/validate/job`":                  {"Job.Validate"},
	"stop, restart, signal an allocation": {"Alloc.Stop", "ClientAllocations.Restart", "ClientAllocations.Signal"},
	"files of an allocation, `alloc sandbox`": {"FileSystem.List", "FileSystem.Stat", "FileSystem.Stream",
		"ClientAllocations.Sandbox"},
	"logs":                              {"FileSystem.Logs"},
	"remove a finished allocation":      {"ClientAllocations.GarbageCollect"},
	"fail, pause, unblock a deployment": {"Deployment.Fail", "Deployment.Pause", "Deployment.Unblock"},
	"nodes, members, statistics and identity of a node": {"Node.List", "Node.GetNode", "Status.Members", "ClientStats.Stats",
		"NodeIdentity.Get"},
	"drain, eligibility, evaluation and purge of a node": {"Node.UpdateDrain", "Node.UpdateEligibility", "Node.Evaluate",
		"Node.Deregister"},
	"renewal of a node's identity, introductions, `/v1/client/gc`": {"NodeIdentity.Renew", "ACL.CreateClientIntroductionToken",
		"ClientAllocations.GarbageCollectAll"},
	"node pools":                      {"NodePool.GetNodePool", "NodePool.UpsertNodePools", "NodePool.DeleteNodePools"},
	"nodes of a pool; jobs of a pool": {"NodePool.ListNodes", "NodePool.ListJobs"},
	"list or read a namespace":        {"Namespace.GetNamespace"},
	"write a namespace":               {"Namespace.UpsertNamespaces", "Namespace.DeleteNamespaces"},
	"`/v1/agent/self`, `host`, `/v1/agent/servers`, `/v1/metrics` (1)": {"Agent.Host"},
	"`/v1/agent/servers` (PUT), `join`, `force-leave`, `reload`":       nil,
	"`/v1/agent/keyring/…`, `/v1/agent/pprof/…`, `/debug/pprof/`":      {"Agent.Profile"},
	"scheduler and autopilot configuration, health of servers": {"Operator.SchedulerGetConfiguration",
		"Operator.SchedulerSetConfiguration", "Operator.AutopilotGetConfiguration", "Operator.AutopilotSetConfiguration",
		"Operator.ServerHealth"},
	"root keys: list, rotate, delete": {"Keyring.List", "Keyring.Rotate", "Keyring.Delete"},
	"save a snapshot; restore one":    {"Operator.SnapshotSave", "Operator.SnapshotRestore"},
	"Raft peers, `/v1/system/…`": {"Operator.RaftGetConfiguration", "Operator.RaftRemovePeerByID",
		"Operator.RaftRemovePeerByAddress", "Operator.TransferLeadershipToPeer", "System.GarbageCollect",
		"System.ReconcileJobSummaries"},
}

// word matches one name of a right or of a kind of objects.
var word = regexp.MustCompile(`[a-z_]+(-[a-z]+)*`)

// Each row of the table on rightsPage names the rights that the method table requires for its RPCs, and no others.
func TestRightsPage(t *testing.T) {
	text, err := os.ReadFile(rightsPage)
	if err != nil {
		t.Fatal(err)
	}
	_, table, ok := strings.Cut(string(text), rightsMark)
	if !ok {
		t.Fatalf("%s has no table %q", rightsPage, rightsMark)
	}
	table, _, _ = strings.Cut(table, "\n\n")
	seen := map[string]bool{}
	for row := range strings.SplitSeq(table, "\n") {
		subject, right, ok := strings.Cut(strings.Trim(row, "| "), " | ")
		methods, known := calls[subject]
		if seen[subject] = true; !ok || !known {
			t.Errorf("row %q: which RPCs are these? add them to calls", row)
			continue
		}
		right, _, _ = strings.Cut(right, "; also") // of some requests
		compareRights(t, subject, right, methods)
	}
	for subject := range calls {
		if !seen[subject] {
			t.Errorf("%s has no row %q", rightsPage, subject)
		}
	}
}

// compareRights compares the rights on a page with those that methods require.
func compareRights(t *testing.T, subject, right string, methods []string) {
	t.Helper()
	var required, allowed []string
	for _, name := range methods {
		rights, text := requiredBy(t, name)
		required, allowed = append(required, rights...), append(allowed, word.FindAllString(text, -1)...)
	}
	onPage := word.FindAllString(right, -1)
	for _, r := range required {
		if !slices.Contains(onPage, r) {
			t.Errorf("%q: the page names %q, without %q", subject, right, r)
		}
	}
	for i, quoted := range strings.Split(right, "`") {
		if i%2 == 1 && len(methods) > 0 && !slices.Contains(allowed, quoted) {
			t.Errorf("%q: the page names %q, which %v do not require", subject, quoted, methods)
		}
	}
}

// requiredBy returns the names of the rights that a method requires, and its rule as text.
func requiredBy(t *testing.T, name string) (rights []string, text string) {
	t.Helper()
	table := New(Config{}).Methods()
	i := slices.IndexFunc(table, func(m rpc.Method) bool { return m.Name == name })
	if i < 0 {
		t.Fatalf("no RPC %s", name)
	}
	for _, all := range table[i].Check.Any {
		for _, n := range all {
			for _, r := range n.Right.Rights {
				rights = append(rights, word.FindAllString(r, -1)...)
			}
		}
	}
	if text = table[i].Check.String(); text == "" {
		text = table[i].Rule.String()
		rights = append(rights, text)
	}
	return rights, text
}
