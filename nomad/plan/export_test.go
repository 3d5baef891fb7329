package plan

import (
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// Reasons returns why parts of a plan are rejected, by node.
func Reasons(snap *state.Snapshot, p *nomad.Plan) map[string]string {
	_, reasons, _ := view{snap: snap, job: p.Job}.evaluate(p)
	return texts(reasons)
}
