package agent

import (
	"net/http"

	"github.com/open-nomad/open-nomad/command/agent/httpapi"
)

// disks returns what serves the data of finished allocations, nil without a client.
func (a *Agent) disks() httpapi.Disks {
	if !a.set.Client.Enabled {
		return nil
	}
	return clientDisks{a}
}

// clientDisks passes requests to the client, which is created after the API.
type clientDisks struct{ a *Agent }

// ServeSnapshot implements httpapi.Disks.
func (d clientDisks) ServeSnapshot(w http.ResponseWriter, r *http.Request, alloc string) error {
	return d.a.client.ServeSnapshot(w, r, alloc)
}
