package killed_test

import (
	"fmt"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/internal/testpace"
)

// registered waits until the service of an allocation has its registration, and no other one.
func (n *node) registered(al *api.Allocation) {
	n.t.Helper()
	name, port := "", 0
	for _, p := range al.AllocatedResources.Shared.Ports {
		if p.Label == "web" {
			name = fmt.Sprintf("web-%d", p.Value)
		} else {
			port = p.Value
		}
	}
	testpace.Succeeds(n.t, "service "+name+" is registered", func() error {
		rows, _, err := n.server.Client.Services().Get(name, nil)
		if err == nil && (len(rows) != 1 || rows[0].AllocID != al.ID || rows[0].Port != port || rows[0].NodeID != n.id) {
			err = fmt.Errorf("registrations %+v", rows)
		}
		return err
	})
}
