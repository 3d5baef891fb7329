package state_test

import (
	"log/slog"
	"testing"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// Servers of other regions copy node pools whose hash differs. They cannot change built-in pools,
// and those of Nomad 2.0 have no hash.
func TestHashesOfNodePools(t *testing.T) {
	s := state.New(slog.New(slog.DiscardHandler))
	if _, err := s.UpsertNodePools(10, &message.NodePoolUpsertRequest{NodePools: []*nomad.NodePool{{Name: "gpu"}}}); err != nil {
		t.Fatal(err)
	}
	for name, hashed := range map[string]bool{"gpu": true, nomad.NodePoolDefault: false, nomad.NodePoolAll: false} {
		if p := s.Snapshot().NodePool(nil, name); p == nil || len(p.Hash) > 0 != hashed {
			t.Errorf("node pool %s = %+v, want a hash: %t", name, p, hashed)
		}
	}
}
