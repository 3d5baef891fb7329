package nodes

import (
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/migratetoken"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// migrateTokens returns a token for each allocation of a node that takes over the data of an
// allocation on another node. It is nil if there is none.
func migrateTokens(snap *state.Snapshot, allocs []*nomad.Allocation) (map[string]string, error) {
	var out map[string]string
	for _, a := range allocs {
		if a.PreviousAllocation == "" || a.TerminalStatus() || !migrates(a) {
			continue
		}
		previous := snap.Alloc(nil, a.PreviousAllocation)
		if previous == nil || previous.NodeID == a.NodeID || previous.Namespace != a.Namespace {
			continue
		}
		node := snap.Node(nil, previous.NodeID)
		if node == nil || node.SecretID == "" {
			continue
		}
		token, err := migratetoken.New(previous.ID, node.SecretID)
		if err != nil {
			return nil, err
		}
		if out == nil {
			out = map[string]string{}
		}
		out[a.ID] = token.Reveal()
	}
	return out, nil
}

// migrates reports whether the group of an allocation moves its data between nodes.
func migrates(a *nomad.Allocation) bool {
	if a.Job == nil {
		return false
	}
	group := a.Job.TaskGroup(a.TaskGroup)
	return group != nil && group.EphemeralDisk != nil && group.EphemeralDisk.Migrate
}
