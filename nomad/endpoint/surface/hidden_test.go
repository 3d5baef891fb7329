package surface_test

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rbac"
	"github.com/open-nomad/open-nomad/nomad/rpc"
	"github.com/open-nomad/open-nomad/nomad/server/servertest"
)

// inTwo is a server with ACLs, the namespaces a and b, and a job with an allocation in each.
type inTwo struct {
	*servertest.ACLServer
	node  *servertest.FakeNode
	alloc map[string]*nomad.Allocation // by namespace
	eval  map[string]string
}

func twoNamespaces(t *testing.T) *inTwo {
	t.Helper()
	g := &inTwo{ACLServer: servertest.StartACL(t, nil), alloc: map[string]*nomad.Allocation{}, eval: map[string]string{}}
	g.node = servertest.Join(t, g.Server.RPCAddr())
	g.Must("Namespace.UpsertNamespaces", &message.NamespaceUpsertRequest{Namespaces: []*nomad.Namespace{{Name: "a"}, {Name: "b"}}}, nil)
	for _, ns := range []string{"a", "b"} {
		job := servertest.BatchJob("j", 2)
		job.Namespace = ns
		var out message.JobRegisterResponse
		g.Must("Job.Register", &message.JobRegisterRequest{Job: job}, &out)
		g.eval[ns] = out.EvalID
	}
	for _, a := range g.node.Allocs(4) {
		g.alloc[a.Namespace] = a
	}
	return g
}

// names returns the distinct namespaces in a list.
func names[T any](all []T) string {
	var out []string
	for _, o := range all {
		v := reflect.Indirect(reflect.ValueOf(o))
		name := "?"
		if f := v.FieldByName("Namespace"); f.IsValid() {
			name = f.String()
		}
		out = append(out, name)
	}
	slices.Sort(out)
	return strings.Join(slices.Compact(out), " ")
}

// Lists of all namespaces contain what the caller may see, page by page, and counts do not
// exceed that.
func TestHidden_Lists(t *testing.T) {
	g := twoNamespaces(t)
	all := message.QueryOptions{Namespace: "*"}
	for secret, want := range map[string]string{
		g.Root: "a b", g.TokenWith(`namespace "a" { policy = "read" }` + "\n" + `node { policy = "read" }` + "\n" +
			`node_pool "*" { policy = "read" }`): "a",
		g.TokenWith("node { policy = \"read\" }\nnode_pool \"*\" { policy = \"read\" }"): "",
	} {
		for list, got := range map[string]string{
			"Job.List": names(servertest.ReadWith[message.JobListResponse](g.ACLServer, secret, "Job.List",
				&message.JobListRequest{QueryOptions: all}).Jobs),
			"Alloc.List": names(servertest.ReadWith[message.AllocListResponse](g.ACLServer, secret, "Alloc.List",
				&message.AllocListRequest{QueryOptions: all}).Allocations),
			"Eval.List": names(servertest.ReadWith[message.EvalListResponse](g.ACLServer, secret, "Eval.List",
				&message.EvalListRequest{QueryOptions: all}).Evaluations),
			"Node.GetAllocs": names(servertest.ReadWith[message.NodeAllocsResponse](g.ACLServer, secret, "Node.GetAllocs",
				&message.NodeSpecificRequest{NodeID: g.node.Node.ID}).Allocs),
			"NodePool.ListJobs": names(servertest.ReadWith[message.NodePoolJobsResponse](g.ACLServer, secret, "NodePool.ListJobs",
				&message.NodePoolJobsRequest{Name: "default", QueryOptions: all}).Jobs),
		} {
			if got != want {
				t.Errorf("%s shows namespaces %q, want %q", list, got, want)
			}
		}
		for _, jobs := range [][]nomad.NamespacedID{nil, {{ID: "j", Namespace: "a"}, {ID: "j", Namespace: "b"}}} {
			req := &message.JobStatusesRequest{QueryOptions: all, Jobs: jobs}
			if want == "" { // unlike other lists, as in Nomad
				if err := g.Call(secret, "Job.Statuses", req, nil); !errors.Is(err, apierror.ErrPermissionDenied) {
					t.Errorf("Job.Statuses of %v = %v, want permission denied", jobs, err)
				}
			} else if got := names(servertest.ReadWith[message.JobStatusesResponse](g.ACLServer, secret, "Job.Statuses", req).Jobs); got != want {
				t.Errorf("Job.Statuses of %v shows namespaces %q, want %q", jobs, got, want)
			}
		}
		evals := servertest.ReadWith[message.EvalListResponse](g.ACLServer, secret, "Eval.List",
			&message.EvalListRequest{QueryOptions: all}).Evaluations
		if n := servertest.ReadWith[message.EvalCountResponse](g.ACLServer, secret, "Eval.Count",
			&message.EvalCountRequest{QueryOptions: all}).Count; n != len(evals) {
			t.Errorf("%d evaluations are counted, %d listed", n, len(evals))
		}
		g.pages(secret, want)
	}
}

// pages reads allocations one by one. No page token reveals a hidden one.
func (g *inTwo) pages(secret, want string) {
	g.Helper()
	var seen []*nomad.AllocListStub
	q := message.QueryOptions{Namespace: "*", PerPage: 1}
	for {
		page := servertest.ReadWith[message.AllocListResponse](g.ACLServer, secret, "Alloc.List", &message.AllocListRequest{QueryOptions: q})
		seen = append(seen, page.Allocations...)
		if q.NextToken = page.NextToken; q.NextToken == "" {
			break
		}
		if want == "a" && strings.Contains(q.NextToken, g.alloc["b"].ID) {
			g.Errorf("the token of the next page is %q", q.NextToken)
		}
	}
	if got := names(seen); got != want || len(seen) != 2*len(strings.Fields(want)) {
		g.Errorf("%d allocations by pages, of namespaces %q, want %q", len(seen), got, want)
	}
}

// Namespaces and node pools are listed for callers with any right in them.
func TestHidden_NamespacesAndPools(t *testing.T) {
	g := twoNamespaces(t)
	g.Must("NodePool.UpsertNodePools", &message.NodePoolUpsertRequest{NodePools: []*nomad.NodePool{{Name: "gpu"}}}, nil)
	one := g.TokenWith("namespace \"a\" { capabilities = [\"read-logs\"] }\nnode_pool \"gpu\" { policy = \"read\" }")
	var spaces, pools []string
	for _, n := range servertest.ReadWith[message.NamespaceListResponse](g.ACLServer, one, "Namespace.ListNamespaces",
		&message.NamespaceListRequest{}).Namespaces {
		spaces = append(spaces, n.Name)
	}
	for _, p := range servertest.ReadWith[message.NodePoolListResponse](g.ACLServer, one, "NodePool.List",
		&message.NodePoolListRequest{}).NodePools {
		pools = append(pools, p.Name)
	}
	if !slices.Equal(spaces, []string{"a"}) || !slices.Equal(pools, []string{"gpu"}) {
		t.Errorf("namespaces %q, pools %q", spaces, pools)
	}
	for name, want := range map[string]bool{"a": true, "b": false, "c": false} {
		err := g.Call(one, "Namespace.GetNamespace", &message.NamespaceSpecificRequest{Name: name}, nil)
		if errors.Is(err, apierror.ErrPermissionDenied) == want {
			t.Errorf("namespace %s: %v", name, err)
		}
		err = g.Call(one, "NodePool.GetNodePool", &message.NodePoolSpecificRequest{Name: strings.Replace(name, "a", "gpu", 1)}, nil)
		if errors.Is(err, apierror.ErrPermissionDenied) == want {
			t.Errorf("pool for %s: %v", name, err)
		}
	}
}

// byID returns the requests for an object by ID, with the missing right of the refusal.
func (g *inTwo) byID(alloc, eval string) map[string]rpc.Request {
	return map[string]rpc.Request{
		"Alloc.GetAlloc":                   &message.AllocSpecificRequest{AllocID: alloc},
		"Alloc.Stop":                       &message.AllocStopRequest{AllocID: alloc},
		"Eval.GetEval":                     &message.EvalSpecificRequest{EvalID: eval},
		"Deployment.GetDeployment":         &message.DeploymentSpecificRequest{DeploymentID: eval},
		"Deployment.Fail":                  &message.DeploymentFailRequest{DeploymentID: eval},
		"Deployment.Pause":                 &message.DeploymentPauseRequest{DeploymentID: eval},
		"ClientAllocations.Stats":          &message.AllocStatsRequest{AllocID: alloc},
		"ClientAllocations.Checks":         &message.AllocChecksRequest{AllocID: alloc},
		"ClientAllocations.Sandbox":        &message.AllocSandboxRequest{AllocID: alloc},
		"ClientAllocations.Restart":        &message.AllocRestartRequest{AllocID: alloc},
		"ClientAllocations.Signal":         &message.AllocSignalRequest{AllocID: alloc},
		"ClientAllocations.GarbageCollect": &message.AllocSpecificRequest{AllocID: alloc},
		"FileSystem.List":                  &message.FsListRequest{AllocID: alloc},
		"FileSystem.Stat":                  &message.FsStatRequest{AllocID: alloc},
	}
}

// A hidden object gets the same answer as a missing one, with the right that would show it.
func TestHidden_LooksMissing(t *testing.T) {
	g := twoNamespaces(t)
	only := g.TokenWith(`namespace "a" { policy = "write" }`)
	none := nomad.NewID()
	hidden, unknown := g.byID(g.alloc["b"].ID, g.eval["b"]), g.byID(none, none)
	for method := range hidden {
		is, isNot := g.Call(only, method, hidden[method], nil), g.Call(only, method, unknown[method], nil)
		if !servertest.IsCoded(is, 404, " (or your token lacks ") || !servertest.IsCoded(isNot, 404, "") {
			t.Errorf("%s: %v, and for a missing object: %v", method, is, isNot)
			continue
		}
		text := strings.NewReplacer(g.alloc["b"].ID, none, g.eval["b"], none).Replace(is.Error())
		if text != isNot.Error() {
			t.Errorf("%s reveals what exists:\n%v\n%v", method, is, isNot)
		}
		if err := g.Call(g.Root, method, unknown[method], nil); err != nil && strings.Contains(err.Error(), "token") {
			t.Errorf("%s of a missing object with all rights: %v", method, err)
		}
	}
	for method, req := range g.byID(g.alloc["a"].ID, g.eval["a"]) {
		if err := g.Call(only, method, req, nil); err != nil && strings.Contains(err.Error(), "lacks") &&
			!strings.HasPrefix(method, "Deployment") {
			t.Errorf("%s of a readable object: %v", method, err)
		}
	}
	want := fmt.Sprintf("Unknown allocation %q (or your token lacks alloc-lifecycle in its namespace)", none)
	if err := g.Call(only, "Alloc.Stop", unknown["Alloc.Stop"], nil); err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
	if now := servertest.ReadWith[message.SingleAllocResponse](g.ACLServer, g.Root, "Alloc.GetAlloc",
		hidden["Alloc.GetAlloc"]).Alloc; now.DesiredTransition.Migrate != nil {
		t.Error("a hidden allocation was stopped")
	}
	for _, method := range []string{"Eval.Allocations", "Deployment.Allocations"} {
		req := map[string]rpc.Request{"Eval.Allocations": &message.EvalSpecificRequest{EvalID: g.eval["b"]},
			"Deployment.Allocations": &message.DeploymentSpecificRequest{DeploymentID: g.eval["b"]}}[method]
		if err := g.Call(only, method, req, nil); err != nil {
			t.Errorf("%s: %v", method, err)
		}
	}
	if all := servertest.ReadWith[message.EvalAllocationsResponse](g.ACLServer, only, "Eval.Allocations",
		&message.EvalSpecificRequest{EvalID: g.eval["b"]}).Allocations; len(all) != 0 {
		t.Errorf("%d allocations of a hidden evaluation", len(all))
	}
}

// A blocking query for a hidden object lasts as long as one for a missing object.
func TestHidden_BlockingQueries(t *testing.T) {
	g := twoNamespaces(t)
	only := g.TokenWith(`namespace "a" { policy = "read" }`)
	root := servertest.ReadWith[message.AllocListResponse](g.ACLServer, g.Root, "Alloc.List",
		&message.AllocListRequest{QueryOptions: message.QueryOptions{Namespace: "*"}})
	for _, id := range []string{g.alloc["b"].ID, nomad.NewID()} {
		woken := make(chan error, 1)
		go func() {
			q := message.QueryOptions{MinQueryIndex: root.Index, MaxQueryTime: time.Minute}
			woken <- g.Call(only, "Alloc.GetAlloc", &message.AllocSpecificRequest{AllocID: id, QueryOptions: q}, nil)
		}()
		// Any change of any allocation wakes it, as for a missing one.
		var err error
		for waiting := true; waiting; {
			g.node.Report(nomad.AllocClientStatusRunning, g.alloc["a"])
			select {
			case err = <-woken:
				waiting = false
			case <-time.After(5 * time.Millisecond):
			}
		}
		if !servertest.IsCoded(err, 404, "lacks read-job") {
			t.Errorf("%v", err)
		}
	}
}

// The rights for writing a job depend on the job's own namespace, not on that of the request.
func TestHidden_NamespaceOfTheBody(t *testing.T) {
	g := twoNamespaces(t)
	only := g.TokenWith(`namespace "a" {
		policy = "write"
		variables { path "*" { capabilities = ["write", "read", "destroy"] } }
	}`)
	job := func(ns string) *nomad.Job {
		j := servertest.BatchJob("new", 1)
		j.Namespace = ns
		return j
	}
	in := message.WriteRequest{Namespace: "a"}
	for method, req := range map[string]rpc.Request{
		"Job.Register, body b":             &message.JobRegisterRequest{Job: job("b")},
		"Job.Register, body b, query a":    &message.JobRegisterRequest{Job: job("b"), WriteRequest: in},
		"Job.Plan, body b":                 &message.JobPlanRequest{Job: job("b")},
		"Job.Plan, body b, query a":        &message.JobPlanRequest{Job: job("b"), WriteRequest: in},
		"Job.Validate, body b":             &message.JobValidateRequest{Job: job("b")},
		"Job.Register, nowhere":            &message.JobRegisterRequest{Job: job("nowhere")},
		"Job.Register, all":                &message.JobRegisterRequest{Job: job("*")},
		"Job.Deregister, all":              &message.JobDeregisterRequest{JobID: "j", WriteRequest: message.WriteRequest{Namespace: "*"}},
		"Job.Evaluate, all":                &message.JobEvaluateRequest{JobID: "j", WriteRequest: message.WriteRequest{Namespace: "*"}},
		"Variables.Apply, body b":          &message.VariablesApplyRequest{Op: "set", Var: servertest.VariableIn("b", "p")},
		"Variables.Apply, body b, query a": &message.VariablesApplyRequest{Op: "set", Var: servertest.VariableIn("b", "p"), WriteRequest: in},
	} {
		name, _, _ := strings.Cut(method, ",")
		if err := g.Call(only, name, req, nil); !errors.Is(err, apierror.ErrPermissionDenied) && !servertest.IsCoded(err, 400, "namespace") {
			t.Errorf("%s: %v", method, err)
		}
	}
	if n := len(servertest.ReadWith[message.JobListResponse](g.ACLServer, g.Root, "Job.List",
		&message.JobListRequest{QueryOptions: message.QueryOptions{Namespace: "*"}}).Jobs); n != 2 {
		t.Errorf("%d jobs exist", n)
	}
	for method, req := range map[string]rpc.Request{
		"Job.Register":    &message.JobRegisterRequest{Job: job("a"), WriteRequest: in},
		"Variables.Apply": &message.VariablesApplyRequest{Op: "set", Var: servertest.VariableIn("a", "p"), WriteRequest: in},
	} {
		if err := g.Call(only, method, req, nil); err != nil {
			t.Errorf("%s with the right: %v", method, err)
		}
	}
}

// A blocking read ends when its token is deleted.
func TestBlockingQuery_TokenDeleted(t *testing.T) {
	g := twoNamespaces(t)
	p := &rbac.Policy{Name: "reader", Rules: `namespace "a" { policy = "read" }`}
	g.Must("ACL.UpsertPolicies", &message.ACLPolicyUpsertRequest{Policies: []*rbac.Policy{p}}, nil)
	token := g.CreateToken(servertest.ClientToken("reader"))
	begun, ended := time.Now(), make(chan error, 1)
	go func() {
		ended <- g.Call(token.SecretID, "Job.GetJob", &message.JobSpecificRequest{JobID: "j",
			QueryOptions: message.QueryOptions{Namespace: "a", MinQueryIndex: 1 << 40, MaxQueryTime: 4 * time.Minute}}, nil)
	}()
	g.Must("ACL.DeleteTokens", &message.ACLTokenDeleteRequest{AccessorIDs: []string{token.AccessorID}}, nil)
	if err := <-ended; !errors.Is(err, apierror.ErrPermissionDenied) || time.Since(begun) > time.Minute {
		t.Errorf("after %v: %v", time.Since(begun), err)
	}
}

// Nodes can read themselves and the addresses of other nodes, but no members, no jobs and no variables.
func TestNode_Rights(t *testing.T) {
	g := twoNamespaces(t)
	other := servertest.Join(t, g.Server.RPCAddr())
	a := g.alloc["a"]
	for name, c := range map[string]struct {
		method string
		req    func() rpc.Request
		may    bool
	}{
		"a node":  {"Node.GetNode", func() rpc.Request { return &message.NodeSpecificRequest{NodeID: g.node.Node.ID} }, true},
		"members": {"Status.Members", func() rpc.Request { return &message.GenericRequest{} }, false},
		"nodes":   {"Node.List", func() rpc.Request { return &message.NodeListRequest{} }, false},
		"a job": {"Job.GetJob", func() rpc.Request {
			return &message.JobSpecificRequest{JobID: "j", QueryOptions: message.QueryOptions{Namespace: "a"}}
		}, false},
		"a variable": {"Variables.Read", func() rpc.Request { return &message.VariablesReadRequest{Path: "nomad/jobs"} }, false},
		"stopping":   {"Alloc.Stop", func() rpc.Request { return &message.AllocStopRequest{AllocID: a.ID} }, false},
		"files":      {"FileSystem.List", func() rpc.Request { return &message.FsListRequest{AllocID: a.ID} }, false},
		"eligibility": {"Node.UpdateEligibility", func() rpc.Request {
			return &message.NodeUpdateEligibilityRequest{NodeID: g.node.Node.ID, Eligibility: "eligible"}
		}, false},
		"an introduction": {"ACL.CreateClientIntroductionToken",
			func() rpc.Request { return &message.ACLCreateClientIntroductionTokenRequest{} }, false},
	} {
		for _, secret := range []string{g.node.JWT, g.node.Node.SecretID, other.JWT} {
			err := g.Call(secret, c.method, c.req(), nil)
			if refused := errors.Is(err, apierror.ErrPermissionDenied) || servertest.IsCoded(err, 404, "lacks"); refused == c.may {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	for _, c := range []struct {
		secret string
		full   bool
	}{{g.node.JWT, true}, {g.node.Node.SecretID, true}, {other.JWT, false}} {
		var resp message.SingleNodeResponse
		if err := g.Call(c.secret, "Node.GetNode", &message.NodeSpecificRequest{NodeID: g.node.Node.ID}, &resp); err != nil {
			t.Fatal(err)
		}
		if resp.Node == nil || resp.Node.ID != g.node.Node.ID || resp.Node.SecretID != "" || (resp.Node.NodeResources != nil) != c.full {
			t.Errorf("Node.GetNode = %+v, want complete %t", resp.Node, c.full)
		}
	}
	drain := func(secret string) error {
		return g.Call(secret, "Node.UpdateDrain", &message.NodeUpdateDrainRequest{NodeID: g.node.Node.ID}, nil)
	}
	if err := drain(g.node.JWT); err != nil {
		t.Errorf("a node ends its own drain: %v", err)
	}
	if err := drain(other.JWT); !errors.Is(err, apierror.ErrPermissionDenied) {
		t.Errorf("a node ends another's drain: %v", err)
	}
	if shown := servertest.ReadWith[message.SingleAllocResponse](g.ACLServer, g.node.JWT, "Alloc.GetAlloc",
		&message.AllocSpecificRequest{AllocID: a.ID}).Alloc; shown == nil || shown.SignedIdentities != nil {
		t.Errorf("its allocation: %+v", shown)
	}
	unknown := servertest.ReadWith[message.SingleAllocResponse](g.ACLServer, g.node.JWT, "Alloc.GetAlloc",
		&message.AllocSpecificRequest{AllocID: nomad.NewID()})
	if unknown.Alloc != nil {
		t.Error("a missing allocation")
	}
}
