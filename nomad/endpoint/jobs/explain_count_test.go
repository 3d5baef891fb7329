package jobs

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/message"
)

// planner may explain a job, and cannot read nodes.
const planner = `namespace "default" { capabilities = ["plan-job", "read-job"] }`

// failures formats the counts of a group.
func failures(g *message.GroupExplanation) string {
	out := fmt.Sprintf("%d of %d fit", g.Fits, g.NodeCount)
	for _, c := range g.Failed {
		out += fmt.Sprintf(", %s %d", c.Check, c.Nodes)
	}
	return out
}

// TestExplain_CountsOnly checks that a caller without the right to read nodes gets the counts of placement, and
// nothing about one node.
func TestExplain_CountsOnly(t *testing.T) {
	s := explained(t)
	s.node("v2", func(n *nomad.Node) {
		n.ID, n.Name, n.NodePool = "n5", "name-5", "gpu"
		n.Status, n.SchedulingEligibility = nomad.NodeStatusReady, nomad.NodeSchedulingEligible
		n.NodeResources = &nomad.NodeResources{}
	})
	for name, req := range map[string]*message.JobExplainRequest{"stored": {JobID: "j"}, "sent": {Job: explainJob()}} {
		got, err := s.Explain(t.Context(), caller(t, planner), req)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if x := failures(got.Explanation.Groups[0]); x != "1 of 4 fit, constraint 1, datacenter 1, resources 1" {
			t.Errorf("%s: %s", name, x)
		}
		text, err := json.Marshal(got)
		if err != nil {
			t.Fatal(err)
		}
		for _, hidden := range []string{`"n1"`, `"n2"`, "name-", "freebsd", "eu1", "gpu"} {
			if strings.Contains(string(text), hidden) {
				t.Errorf("%s: the answer contains %s: %s", name, hidden, text)
			}
		}
		req.Node = "n2"
		if _, err := s.Explain(t.Context(), caller(t, planner), req); !errors.Is(err, apierror.ErrPermissionDenied) {
			t.Errorf("%s for one node: %v, want permission denied", name, err)
		}
	}
	// The pool of a job that the namespace does not admit is not counted.
	if _, err := s.store.UpsertNamespaces(2000, &message.NamespaceUpsertRequest{Namespaces: []*nomad.Namespace{{Name: "default",
		Capabilities: &nomad.NamespaceCapabilities{DisabledTaskDrivers: []string{"image"}}}}}); err != nil {
		t.Fatal(err)
	}
	got, err := s.Explain(t.Context(), caller(t, planner), &message.JobExplainRequest{JobID: "j"})
	if err != nil || failures(got.Explanation.Groups[0]) != "0 of 0 fit, namespace 0" {
		t.Errorf("a job that the namespace does not admit: %v, %v", got, err)
	}
}

// TestExplain_ConstraintOracle checks that explanations with many constraints do not depend on which node has a value.
func TestExplain_ConstraintOracle(t *testing.T) {
	answers := make([]string, 2)
	for i := range answers {
		s := explained(t)
		nodes := []string{"n1", "n2"}
		if i == 1 {
			slices.Reverse(nodes)
		}
		for k, id := range nodes {
			n := *s.store.Snapshot().Node(nil, id)
			n.Meta = map[string]string{"rackkey": []string{"S3cr7", "other"}[k]}
			n.NodeResources = s.store.Snapshot().Node(nil, "n2").NodeResources
			if _, err := s.store.RegisterNode(uint64(3000+k), &message.NodeRegisterRequest{Node: &n}); err != nil {
				t.Fatal(err)
			}
		}
		job := explainJob()
		job.TaskGroups[0].Constraints = []*nomad.Constraint{{LTarget: "${meta.rackkey}", Operand: "regexp", RTarget: "^S"}}
		got, err := s.Explain(t.Context(), caller(t, planner), &message.JobExplainRequest{Job: job})
		if err != nil {
			t.Fatal(err)
		}
		text, err := json.Marshal(got.Explanation)
		if err != nil {
			t.Fatal(err)
		}
		answers[i] = string(text)
	}
	if answers[0] != answers[1] {
		t.Errorf("the answers differ:\n%s\n%s", answers[0], answers[1])
	}
}
