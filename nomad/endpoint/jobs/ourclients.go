package jobs

import (
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/admission"
)

// ofOurClients returns the constraints of tasks that other clients would run in another way: they ignore verify of an
// artifact, schedule, and owner of a volume_mount. Only clients of this project report the kind of a driver.
func ofOurClients(tg *nomad.TaskGroup) (out []*nomad.Constraint) {
	for _, t := range tg.Tasks {
		if t.Verifies() || t.Schedule != nil || t.OwnsVolume() {
			out = append(out, admission.OurClient(t))
		}
	}
	return out
}
