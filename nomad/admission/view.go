package admission

import (
	"github.com/open-nomad/open-nomad/nomad/kinds"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// View is the state of one moment: the rules, the registered job and the drivers of the nodes are of one snapshot. It is
// used for one request, by one goroutine.
type View struct {
	*Admitter
	snap  *state.Snapshot
	names *kinds.Names
}

// At returns the view of a snapshot.
func (a *Admitter) At(snap *state.Snapshot) *View {
	return &View{a, snap, a.cfg.Kinds.Names(snap.Nodes(nil))}
}

// Snapshot returns the snapshot of the view.
func (v *View) Snapshot() *state.Snapshot { return v.snap }

// Names returns the resolver for the drivers of jobs, which reads the nodes at most once.
func (v *View) Names() *kinds.Names { return v.names }
