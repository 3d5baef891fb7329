package security_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/e2e/harness"
)

// An agent whose node was purged does not return by itself if introductions are enforced. It does
// with a new introduction, and moves to another datacenter with one.
func TestPurgedAgentNeedsAnIntroduction(t *testing.T) {
	f := harness.NewFleet(t, "server {\n  client_introduction {\n    enforcement = \"strict\"\n  }\n}\n")
	introduce := func() {
		t.Helper()
		intro, _, err := f.Server.Client.ACLIdentity().CreateClientIntroductionToken(&api.ACLIdentityClientIntroductionTokenRequest{}, nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Setenv("NOMAD_CLIENT_INTRO_TOKEN", intro.JWT)
	}
	introduce()
	n := f.Join("worker", "client {}\n")
	t.Setenv("NOMAD_CLIENT_INTRO_TOKEN", "")
	id := harness.NodeID(t, n)
	if err := n.Stop(); err != nil {
		t.Fatal(err)
	}
	n = harness.Restart(t, n) // registered: it needs no introduction

	if _, _, err := f.Server.Client.Nodes().Purge(id, nil); err != nil {
		t.Fatal(err)
	}
	harness.Within(t, harness.Patience, "the purged agent is rejected without an introduction", func() bool {
		log, err := os.ReadFile(filepath.Join(n.Dir, "agent.log"))
		return err == nil && strings.Contains(string(log), "present an introduction token")
	})
	if _, _, err := f.Server.Client.Nodes().Info(id, nil); err == nil || !strings.Contains(err.Error(), "404") {
		t.Errorf("the purged node: %v, want 404", err)
	}

	if err := n.Stop(); err != nil {
		t.Fatal(err)
	}
	introduce()
	n = harness.Restart(t, n)
	if harness.NodeID(t, n) != id {
		t.Error("the agent that was introduced again is another node")
	}
	if err := n.Stop(); err != nil {
		t.Fatal(err)
	}
	introduce()
	n.Options.Args = append(slices.Clone(n.Options.Args), "-dc=dc2")
	harness.Restart(t, n)
	node, _, err := f.Server.Client.Nodes().Info(id, nil)
	if err != nil || node.Datacenter != "dc2" {
		t.Errorf("the node that was introduced with another datacenter: %+v, %v", node, err)
	}
}
