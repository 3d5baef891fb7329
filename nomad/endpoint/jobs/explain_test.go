package jobs

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/acl"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rbac"
	"github.com/open-nomad/open-nomad/nomad/rpc"
)

// caller returns a call with the rights of a policy.
func caller(t *testing.T, policy string) *rpc.Call {
	t.Helper()
	p, err := acl.Parse(policy)
	if err != nil {
		t.Fatal(err)
	}
	return &rpc.Call{Identity: &rbac.AuthenticatedIdentity{}, Access: &rpc.Access{Rights: acl.New(false, p)}}
}

// explained adds the namespace, nodes and a job to a Service: n1 lacks memory, n2 fits, n3 is in
// another datacenter, n4 has another kernel.
func explained(t *testing.T) *servers {
	s := newServers(t)
	for i, edit := range []func(*nomad.Node){
		func(n *nomad.Node) { n.NodeResources.Memory.MemoryMB = 10 },
		func(*nomad.Node) {},
		func(n *nomad.Node) { n.Datacenter = "eu1" },
		func(n *nomad.Node) { n.Attributes["kernel.name"] = "freebsd" },
	} {
		s.node("v2", func(n *nomad.Node) {
			n.ID, n.Name, n.Status, n.SchedulingEligibility = fmt.Sprintf("n%d", i+1), fmt.Sprintf("name-%d",
				i+1), nomad.NodeStatusReady, nomad.NodeSchedulingEligible
			n.Drivers["image"].Healthy = true
			n.NodeResources = &nomad.NodeResources{Cpu: nomad.LegacyNodeCpuResources{CpuShares: 1000},
				Memory: nomad.NodeMemoryResources{MemoryMB: 1000}, Disk: nomad.NodeDiskResources{DiskMB: 1000}}
			edit(n)
		})
	}
	job := explainJob()
	if _, err := s.store.RegisterJob(1000, &message.JobRegisterRequest{Job: job}); err != nil {
		t.Fatal(err)
	}
	return s
}

func explainJob() *nomad.Job {
	return configJob("image", map[string]any{"image": "x"}, func(j *nomad.Job) {
		j.Namespace, j.Datacenters = "default", []string{"dc*"}
		j.TaskGroups[0].Constraints = []*nomad.Constraint{{LTarget: "${attr.kernel.name}", Operand: "=", RTarget: "linux"}}
	})
}

// reads may read jobs and nodes.
const reads = `namespace "default" { capabilities = ["read-job"] } node { policy = "read" }`

// order returns the nodes of the first group, each with its first failed check.
func order(x *message.JobExplanation) string {
	var out []string
	for _, n := range x.Groups[0].Nodes {
		failed := "fits"
		for _, c := range n.Checks {
			if !c.Passed {
				failed = c.Check
				break
			}
		}
		if n.Fits != (failed == "fits") {
			failed += " but fits is " + fmt.Sprint(n.Fits)
		}
		out = append(out, n.ID+" "+failed)
	}
	return strings.Join(out, ", ")
}

func TestExplainOrderAndPages(t *testing.T) {
	s := explained(t)
	ask := func(per int32, token, node string) (*message.JobExplainResponse, error) {
		return s.Explain(t.Context(), caller(t, reads), &message.JobExplainRequest{JobID: "j", Node: node,
			QueryOptions: message.QueryOptions{PerPage: per, NextToken: token}})
	}
	for name, tc := range map[string]struct {
		per         int32
		token, node string
		want, next  string
	}{
		"all":         {0, "", "", "n2 fits, n1 resources, n4 constraint, n3 datacenter", ""},
		"first page":  {1, "", "", "n2 fits", "1"},
		"middle page": {2, "1", "", "n1 resources, n4 constraint", "3"},
		"last page":   {2, "3", "", "n3 datacenter", ""},
		"beyond":      {2, "9", "", "", ""},
		"by prefix":   {0, "", "n4", "n4 constraint", ""},
		"by name":     {0, "", "name-3", "n3 datacenter", ""},
		"no node":     {0, "", "zz", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := ask(tc.per, tc.token, tc.node)
			if err != nil {
				t.Fatal(err)
			}
			if x := order(got.Explanation); x != tc.want || got.NextToken != tc.next {
				t.Errorf("nodes %q, next %q, want %q, %q", x, got.NextToken, tc.want, tc.next)
			}
			if g := got.Explanation.Groups[0]; tc.node == "" && (g.Fits != 1 || g.NodeCount != 4) {
				t.Errorf("%d of %d nodes fit, want 1 of 4", g.Fits, g.NodeCount)
			}
		})
	}
	if _, err := ask(1, "x", ""); err == nil || !strings.Contains(err.Error(), "invalid page token") {
		t.Errorf("an invalid token: %v", err)
	}
}

func TestExplainRights(t *testing.T) {
	s := explained(t)
	sent := &message.JobExplainRequest{Job: explainJob()}
	stored := &message.JobExplainRequest{JobID: "j"}
	for name, tc := range map[string]struct {
		policy       string
		stored, sent bool
		nodes        bool
	}{
		"read job and nodes": {reads, true, false, true},
		"read job":           {`namespace "default" { capabilities = ["read-job"] }`, true, false, false},
		"plan job":           {`namespace "default" { capabilities = ["plan-job"] }`, false, true, false},
		"submit job":         {`namespace "default" { capabilities = ["submit-job"] } node { policy = "read" }`, false, true, true},
		"another namespace":  {`namespace "apps" { policy = "write" }`, false, false, false},
		"read nodes":         {`node { policy = "read" }`, false, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			for req, allowed := range map[*message.JobExplainRequest]bool{stored: tc.stored, sent: tc.sent} {
				got, err := s.Explain(t.Context(), caller(t, tc.policy), req)
				if allowed != (err == nil) || err != nil && !errors.Is(err, apierror.ErrPermissionDenied) {
					t.Errorf("Explain(%v) = %v, allowed is %t", req.JobID, err, allowed)
				}
				if err != nil {
					continue
				}
				want := "n2 fits, n1 resources, n4 constraint, n3 datacenter"
				if !tc.nodes {
					want = ""
				}
				if all := order(got.Explanation); all != want {
					t.Errorf("nodes %q, want %q", all, want)
				}
				if counted := len(got.Explanation.Groups[0].Failed) > 0; counted == tc.nodes {
					t.Errorf("the answer has counts: %t, want %t", counted, !tc.nodes)
				}
			}
		})
	}
}

func TestExplainFaults(t *testing.T) {
	s := explained(t)
	all := caller(t, `namespace "default" { policy = "write" } node { policy = "read" }`)
	for name, tc := range map[string]struct {
		req  *message.JobExplainRequest
		want string
	}{
		"no job":   {&message.JobExplainRequest{JobID: "x"}, `job "x" not found`},
		"no group": {&message.JobExplainRequest{JobID: "j", Group: "x"}, `has no group "x"`},
		"invalid":  {&message.JobExplainRequest{Job: configJob("", nil)}, "driver"},
		"another pool": {&message.JobExplainRequest{Job: configJob("image", nil, func(j *nomad.Job) { j.NodePool = "x" })},
			"nonexistent node pool"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := s.Explain(t.Context(), all, tc.req); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("Explain() = %v, want %q", err, tc.want)
			}
		})
	}
	// What the nodes and the namespace do not accept is a failed check, not an error.
	job := explainJob()
	job.TaskGroups[0].Tasks[0].Config = map[string]any{"imag": "x"}
	got, err := s.Explain(t.Context(), all, &message.JobExplainRequest{Job: job, Node: "n2"})
	if err != nil || order(got.Explanation) != "n2 config" {
		t.Errorf("a wrong config: %v, %v", got, err)
	}
	if _, err := s.store.UpsertNamespaces(2000, &message.NamespaceUpsertRequest{Namespaces: []*nomad.Namespace{{Name: "default",
		Capabilities: &nomad.NamespaceCapabilities{DisabledTaskDrivers: []string{"image"}}}}}); err != nil {
		t.Fatal(err)
	}
	got, err = s.Explain(t.Context(), all, &message.JobExplainRequest{JobID: "j", Node: "n2"})
	if err != nil || order(got.Explanation) != "n2 namespace" {
		t.Errorf("a driver that the namespace forbids: %v, %v", got, err)
	}
}
