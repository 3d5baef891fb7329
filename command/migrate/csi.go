package migrate

import (
	"fmt"

	"github.com/open-nomad/open-nomad/nomad/state"
)

// plainSecrets returns the CSI volumes whose secrets are stored in clear, as servers of Nomad store them.
func plainSecrets(s *state.Snapshot) (out []string) {
	for v := range s.CSIVolumes(nil) {
		if len(v.Secrets) > 0 {
			out = append(out, v.Namespace+"/"+v.ID)
		}
	}
	return out
}

// secretsOfVolumes returns the step that seals the secrets of CSI volumes.
func (r *Report) secretsOfVolumes() []Step {
	n := len(r.PlainSecrets)
	if n == 0 {
		return nil
	}
	return []Step{{
		Text: fmt.Sprintf("Register the CSI volumes with secrets again (%s). Servers of Nomad store these secrets in clear; open-nomad "+
			"encrypts those of a volume that is registered.", plural(n, "volume")),
		Commands: []string{"nomad volume register <file>        # each, with its secrets, when all servers run open-nomad"},
	}}
}
