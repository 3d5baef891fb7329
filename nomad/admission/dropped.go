package admission

import (
	"fmt"

	"github.com/open-nomad/open-nomad/nomad"
)

// dropped returns an error (409) if a task of the job uses a field that Nomad does not have, while servers of the region
// may be of another build. They drop the field. Then the task would run without a copy of its logs, with an artifact whose
// signature nobody checked, or without access to its volume.
func (a *Admitter) dropped(job *nomad.Job) error {
	for _, p := range Places(job) {
		if p.Task.LogConfig != nil && len(p.Task.LogConfig.Sinks) > 0 {
			if err := a.cfg.OnlyOurs(fmt.Sprintf("sinks in the logs block of task %q", p.Task.Name)); err != nil {
				return err
			}
		}
		if p.Task.OwnsVolume() {
			if err := a.cfg.OnlyOurs(fmt.Sprintf("owner in a volume_mount of task %q", p.Task.Name)); err != nil {
				return err
			}
		}
		if p.Task.Verifies() {
			return a.cfg.OnlyOurs(fmt.Sprintf("verify in an artifact of task %q", p.Task.Name))
		}
	}
	return nil
}
