package admission

import (
	"fmt"
	"strings"

	"github.com/hashicorp/consul/api"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/mesh"
)

// gatewayFaults returns an error for each gateway whose configuration in Consul is that of a job in another namespace. The
// configuration is found by the name of the service only, and the servers write it with their own token: otherwise the
// right to submit jobs in one namespace would be enough to change the gateways of all.
func (v *View) gatewayFaults(job *nomad.Job) (out []error) {
	own := mesh.Entries(job)
	if len(own) == 0 {
		return nil
	}
	var others []api.ConfigEntry
	for other := range v.snap.Jobs(nil) {
		if other.Namespace != job.Namespace && !other.Stopped() {
			others = append(others, mesh.Entries(other)...)
		}
	}
	for _, e := range own {
		for _, o := range others {
			if o.GetKind() == e.GetKind() && strings.EqualFold(o.GetName(), e.GetName()) {
				out = append(out, fmt.Errorf("job %q: a job in another namespace has the %s %q, and both would have one configuration in Consul: "+
					"change the name of the service", job.ID, e.GetKind(), e.GetName()))
				break
			}
		}
	}
	return out
}
