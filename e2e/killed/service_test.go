package killed_test

import (
	"fmt"
	"strings"
	"testing"

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

// calls are the RPC methods with which a client reports the begin and the end of an allocation.
var calls = map[string]string{
	"registration": "ServiceRegistration.Upsert",
	"removal":      "ServiceRegistration.DeleteByID",
	"status":       "Node.UpdateAlloc",
}

// TestService kills when the client registers a service, removes it, or reports a status: before the
// server gets the call, and before the client gets the answer.
func TestService(t *testing.T) {
	f := newFleet(t)
	n := f.join("one")
	for _, when := range []struct {
		name  string
		after bool
	}{{"sent", false}, {"answered", true}} {
		hold := func(call string) { f.rpc.hold(hold{up: true, text: calls[call], after: when.after}) }
		begin := func() { f.run("web", group{static: staticPort}.text()) }
		f.cross([]string{"registration " + when.name, "status " + when.name, "removal " + when.name}, victims, func(step string, v victim) {
			call, _, _ := strings.Cut(step, " ")
			if call == "removal" {
				begin()
				n.runs(f.allocOf("web", "running", ""))
			}
			hold(call)
			if call == "removal" {
				f.stop("web")
			} else {
				begin()
			}
			f.rpc.reached()
			n.kill(v, func() {
				if v == supervisor {
					f.rpc.release()
				} else {
					f.rpc.drop()
				}
			})
			if call != "removal" {
				n.runs(f.allocOf("web", "running", ""))
				f.stop("web")
			}
			f.allocOf("web", "complete", "")
			n.unregistered("web")
		})
	}
}

// unregistered waits until a job has no registration. The servers remove those of an allocation that has ended.
func (n *node) unregistered(job string) {
	n.t.Helper()
	testpace.Succeeds(n.t, "the services of "+job+" are removed", func() error {
		rows, _, err := n.server.Client.Services().Get(fmt.Sprintf("%s-%d", job, staticPort), nil)
		if err == nil && len(rows) > 0 {
			err = fmt.Errorf("registrations %+v", rows)
		}
		return err
	})
}
