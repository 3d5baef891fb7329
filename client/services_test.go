package client_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/client/clienttest"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/codec"
	"github.com/open-nomad/open-nomad/nomad/message"
)

// The next agent removes the native services whose removal the servers did not accept before the previous agent ended. It
// keeps those that the allocation has.
func TestServices_Leftovers(t *testing.T) {
	for name, leave := range map[string]func(*testing.T, *clienttest.Node, *clienttest.Server, *nomad.Allocation){
		"pause": func(t *testing.T, n *clienttest.Node, _ *clienttest.Server, a *nomad.Allocation) {
			req := &message.AllocPauseRequest{AllocID: a.ID, Task: "main", ScheduleState: nomad.TaskScheduleStateForcePause}
			if err := n.RPC().Call(t.Context(), "Allocations.SetPauseState", req, &message.GenericResponse{}); err != nil {
				t.Fatal(err)
			}
		},
		"update in place": func(_ *testing.T, _ *clienttest.Node, f *clienttest.Server, a *nomad.Allocation) {
			next := codec.Copy(a)
			next.Job.Version++
			next.Job.TaskGroups[0].Tasks[0].Services = nil
			f.Place(next)
		},
	} {
		t.Run(name, func(t *testing.T) {
			f, dir := clienttest.StartServer(t), clienttest.Dir(t)
			registered := func(want string) func() bool {
				return func() bool {
					var names []string
					for _, r := range f.Services {
						names = append(names, r.ServiceName)
					}
					slices.Sort(names)
					return strings.Join(names, " ") == want
				}
			}
			n := clienttest.Start(t, clienttest.Config(dir, f.Addr()))
			a := clienttest.Alloc(map[string]any{"run_for": "1h"})
			native := func(name string) []*nomad.Service {
				return []*nomad.Service{{Name: name, Provider: nomad.ServiceProviderNomad, Address: "192.0.2.1", PortLabel: "80"}}
			}
			group := a.Job.TaskGroups[0]
			group.Services, group.Tasks[0].Services = native("web"), native("side")
			f.Place(a)
			f.Until(t, "both services", registered("side web"))
			f.Edit(func() { f.FailRemovals = true })
			leave(t, n, f, a)
			f.Until(t, "a removal that fails", func() bool { return f.FailedRemovals > 0 })
			if name == "pause" {
				f.Until(t, "the task is paused", func() bool {
					u := f.Updated[a.ID]
					return u != nil && u.TaskStates["main"] != nil && u.TaskStates["main"].State == nomad.TaskStatePending &&
						u.TaskStates["main"].Paused.Pauses()
				})
			}
			if err := n.Stop(); err != nil {
				t.Fatal(err)
			}
			f.Edit(func() {
				if f.FailRemovals = false; !registered("side web")() {
					t.Error("the first agent has removed the service")
				}
			})
			clienttest.Start(t, clienttest.Config(dir, f.Addr()))
			f.Until(t, "the service of the group only", registered("web"))
		})
	}
}
