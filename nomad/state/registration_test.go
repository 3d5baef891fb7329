package state_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/hashicorp/go-memdb"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/catalog"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/state"
)

func registrationID(r *catalog.Registration) string { return r.ID }

// service returns a registration of an allocation.
func service(alloc, name string, edit ...func(*catalog.Registration)) *catalog.Registration {
	r := &catalog.Registration{ID: catalog.ID(alloc, "t", name, "http"), ServiceName: name, Namespace: "default",
		NodeID: "n1", Datacenter: "dc1", JobID: "j", AllocID: alloc, Tags: []string{"x", "y"}, Address: "10.0.0.1", Port: 8080}
	for _, e := range edit {
		e(r)
	}
	return r
}

func (w *world) register(all ...*catalog.Registration) *state.Changes {
	w.t.Helper()
	return w.ok(w.UpsertRegistrations(w.next(), &message.ServiceRegistrationUpsertRequest{Services: all}))
}

// services returns the IDs of the registrations of an allocation.
func (w *world) services(alloc string) string {
	w.t.Helper()
	return ids(w.snap().RegistrationsByAlloc(nil, alloc), registrationID)
}

func TestRegistrationsAreIdempotent(t *testing.T) {
	w := newWorld(t)
	created := w.index + 1
	if c := w.register(service("a1", "db"), nil); len(c.Written) != 1 {
		t.Errorf("%d rows are reported, want 1", len(c.Written))
	}
	id := service("a1", "db").ID
	same := service("a1", "db", func(r *catalog.Registration) { r.Tags = []string{"y", "x", "y"} })
	ws := memdb.NewWatchSet()
	w.snap().RegistrationsByName(ws, "default", "db")
	c := w.register(same)
	if got := w.snap().Registration(nil, "default", id); got.ModifyIndex != created || fmt.Sprint(got.Tags) != "[x y]" {
		t.Errorf("an equal registration was written: %+v", got)
	}
	if w.snap().TableIndex(state.TableRegistrations) != created || len(c.Written) != 0 {
		t.Error("an equal registration changed the table index or has an event")
	}
	for name, edit := range map[string]func(*catalog.Registration){
		"tags":       func(r *catalog.Registration) { r.Tags = []string{"x"} },
		"port":       func(r *catalog.Registration) { r.Port++ },
		"address":    func(r *catalog.Registration) { r.Address = "10.0.0.2" },
		"datacenter": func(r *catalog.Registration) { r.Datacenter = "dc2" },
	} {
		w.register(service("a1", "db"))
		w.register(service("a1", "db", edit))
		if got := w.snap().Registration(nil, "default", id); got.ModifyIndex != w.index || got.CreateIndex != created {
			t.Errorf("%s: CreateIndex %d and ModifyIndex %d, want %d and %d", name, got.CreateIndex, got.ModifyIndex, created, w.index)
		}
	}
	if ctx, cancel := context.WithTimeout(t.Context(), time.Minute); ws.WatchCtx(ctx) != nil {
		cancel()
		t.Error("the change of a registration did not wake its readers")
	} else {
		cancel()
	}
}

func TestRegistrationIndexes(t *testing.T) {
	w := newWorld(t)
	w.register(service("a1", "db"), service("a1", "db-replica"),
		service("a2", "web", func(r *catalog.Registration) { r.JobID, r.NodeID = "k", "n2" }),
		service("a3", "db", func(r *catalog.Registration) { r.Namespace = "prod" }))
	s := w.snap()
	one, two, web, prod := service("a1", "db").ID, service("a1", "db-replica").ID, service("a2", "web").ID, service("a3", "db").ID
	for name, c := range map[string]struct{ got, want string }{
		"all":       {ids(s.Registrations(nil), registrationID), fmt.Sprint([]string{one, two, web, prod})},
		"namespace": {ids(s.RegistrationsIn(nil, "default"), registrationID), fmt.Sprint([]string{one, two, web})},
		"name":      {ids(s.RegistrationsByName(nil, "default", "db"), registrationID), fmt.Sprint([]string{one})},
		"job":       {ids(s.RegistrationsByJob(nil, "default", "j"), registrationID), fmt.Sprint([]string{one, two})},
		"alloc":     {w.services("a2"), fmt.Sprint([]string{web})},
		"node":      {ids(s.RegistrationsByNode(nil, "n1"), registrationID), fmt.Sprint([]string{one, two, prod})},
	} {
		if c.got != c.want {
			t.Errorf("%s: %s, want %s", name, c.got, c.want)
		}
	}
}

func TestDeleteRegistrations(t *testing.T) {
	w := newWorld(t)
	w.register(service("a1", "db"), service("a1", "web"), service("a2", "web", func(r *catalog.Registration) { r.NodeID = "n2" }))
	del := func(ns, id string) error {
		req := &message.ServiceRegistrationDeleteByIDRequest{ID: id}
		req.Namespace = ns
		_, err := w.DeleteRegistration(w.next(), req)
		return err
	}
	id := service("a1", "db").ID
	if err := del("prod", id); err == nil || err.Error() != "service registration not found" {
		t.Errorf("deletion in another namespace = %v", err)
	}
	if err := del("default", id); err != nil {
		t.Fatal(err)
	}
	if err := del("default", id); err == nil || w.services("a1") != fmt.Sprint([]string{service("a1", "web").ID}) {
		t.Errorf("second deletion = %v, and %s remain", err, w.services("a1"))
	}
	c := w.ok(w.DeleteRegistrationsOfNode(w.next(), &message.ServiceRegistrationDeleteByNodeIDRequest{NodeID: "n1"}))
	if w.services("a1") != "[]" || w.services("a2") == "[]" || len(c.Written) != 1 || !c.Written[0].Deleted {
		t.Errorf("after the deletion by node %s and %s remain", w.services("a1"), w.services("a2"))
	}
}

// The registrations of an allocation end with it, in the same write, whoever ends it.
func TestRegistrationsEndWithTheirAllocation(t *testing.T) {
	for name, c := range map[string]struct {
		end  func(*world)
		gone bool
	}{
		"running":          {func(w *world) { w.report("a1", "running") }, false},
		"complete":         {func(w *world) { w.report("a1", "complete") }, true},
		"failed":           {func(w *world) { w.report("a1", "failed") }, true},
		"client says lost": {func(w *world) { w.report("a1", "lost") }, true},
		"unknown": {func(w *world) {
			w.place(w.snap().Job(nil, "default", "j"), func(a *nomad.Allocation) {
				a.ClientStatus = "unknown"
				a.AllocStates = []*nomad.AllocState{{Value: "unknown"}}
			}, "a1")
		}, false},
		"stopped, still running": {func(w *world) { w.stop("a1", "") }, false},
		"lost by a plan":         {func(w *world) { w.stop("a1", "lost") }, true},
		"garbage collected": {func(w *world) {
			w.ok(w.Reap(w.next(), &message.EvalReapRequest{Allocs: []string{"a1"}}))
		}, true},
		"job purged": {func(w *world) {
			w.ok(w.DeregisterJob(w.next(),
				&message.JobDeregisterRequest{JobID: "j", Purge: true, WriteRequest: message.WriteRequest{Namespace: "default"}}))
		}, false},
		"node purged": {func(w *world) {
			w.ok(w.DeregisterNodes(w.next(), state.Deregistration{IDs: []string{"n1"}, Purge: true}))
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.node("n1")
			w.place(w.job("j"), nil, "a1", "a2")
			w.register(service("a1", "db"), service("a1", "web"), service("a2", "web"))
			before := w.snap().TableIndex(state.TableRegistrations)
			c.end(w)
			if gone := w.services("a1") == "[]"; gone != c.gone {
				t.Errorf("registrations of the allocation: %s, want them gone: %v", w.services("a1"), c.gone)
			}
			if w.services("a2") == "[]" {
				t.Error("registrations of another allocation are gone")
			}
			if wrote := w.snap().TableIndex(state.TableRegistrations) != before; wrote != c.gone {
				t.Errorf("the table was written: %v, want %v", wrote, c.gone)
			}
		})
	}
}

// stop commits a plan that stops an allocation.
func (w *world) stop(id, status string) {
	w.t.Helper()
	w.ok(w.ApplyPlanResults(w.next(),
		&message.ApplyPlanResultsRequest{AllocsStopped: []*nomad.AllocationDiff{{ID: id, DesiredDescription: "why", ClientStatus: status}}}))
}
