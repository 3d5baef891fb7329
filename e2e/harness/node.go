package harness

import (
	"testing"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/e2e/cluster"
)

// WaitNodeStatus waits until a node has a status.
func WaitNodeStatus(t *testing.T, a *cluster.Agent, id, status string) *api.Node {
	t.Helper()
	var out *api.Node
	Within(t, Patience, "node "+id+" is "+status, func() bool {
		var err error
		out, _, err = a.Client.Nodes().Info(id, nil)
		return err == nil && out.Status == status
	})
	return out
}

// NodeID returns the ID of an agent's node.
func NodeID(t *testing.T, a *cluster.Agent) string {
	t.Helper()
	id, err := a.NodeID()
	if err != nil {
		t.Fatal(err)
	}
	return id
}
