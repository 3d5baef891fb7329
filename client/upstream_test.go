package client_test

import (
	"testing"

	"github.com/open-nomad/open-nomad/client/clienttest"
	"github.com/open-nomad/open-nomad/internal/testpace"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/rpc/testpeer"
)

// ownMethods are the methods that this client calls and servers of Nomad 2.0 do not have.
var ownMethods = []string{"Node.Challenge", "Node.UpsertDriverSchemas", "ServiceRegistration.Instances", "Spiffe"}

// A client registers at servers of Nomad, which do not have challenges, runs an allocation there, and
// registers again after a restart.
func TestClient_NomadServers(t *testing.T) {
	s := clienttest.StartServer(t)
	p := testpeer.New(t, s.Addr(), ownMethods...)
	cfg := clienttest.Config(clienttest.Dir(t), p.Addr())
	for i := range 2 {
		n := clienttest.Start(t, cfg)
		testpace.Until(t, "the node has registered", func() bool {
			select {
			case <-n.Ready():
				return true
			default:
				return false
			}
		})
		a := clienttest.Alloc(map[string]any{"run_for": "1h"})
		a.NodeID = n.NodeID()
		s.Place(a)
		s.Until(t, "the allocation runs", func() bool {
			got := s.Updated[a.ID]
			return got != nil && got.ClientStatus == nomad.AllocClientStatusRunning
		})
		if err := n.Stop(); err != nil {
			t.Fatalf("stop %d: %v", i, err)
		}
	}
	if n := p.Lost(); n > 0 {
		t.Errorf("%d calls were sent on closed streams", n)
	}
}
