package state

import (
	"iter"

	"github.com/hashicorp/go-memdb"

	"github.com/open-nomad/open-nomad/nomad/catalog"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/state/table"
)

var registrations = &table.Table[catalog.Registration]{
	Name:   TableRegistrations,
	Events: true,
	ID:     func(r *catalog.Registration) table.Key { return table.KeyOf(r.Namespace, r.ID) },
	Indexes: []table.Index[catalog.Registration]{
		{Name: "name", Key: func(r *catalog.Registration) table.Key { return table.KeyOf(r.Namespace, r.ServiceName) }},
		{Name: "job", Key: func(r *catalog.Registration) table.Key { return table.KeyOf(r.Namespace, r.JobID) }},
		{Name: "alloc", Key: func(r *catalog.Registration) table.Key { return table.KeyOf(r.AllocID) }},
		{Name: "node", Key: func(r *catalog.Registration) table.Key { return table.KeyOf(r.NodeID) }},
	},
}

// Registration returns a service registration, or nil if it does not exist.
func (s *Snapshot) Registration(ws memdb.WatchSet, ns, id string) *catalog.Registration {
	return registrations.Get(s.tx, ws, table.KeyOf(ns, id))
}

// Registrations returns the service registrations of all namespaces, ordered by namespace and ID.
func (s *Snapshot) Registrations(ws memdb.WatchSet) iter.Seq[*catalog.Registration] {
	return registrations.All(s.tx, ws)
}

// RegistrationsIn returns the service registrations of a namespace, ordered by ID.
func (s *Snapshot) RegistrationsIn(ws memdb.WatchSet, ns string) iter.Seq[*catalog.Registration] {
	return registrations.By(s.tx, ws, table.Primary, table.KeyOf(ns))
}

// RegistrationsByName returns the registrations of one service, ordered by ID.
func (s *Snapshot) RegistrationsByName(ws memdb.WatchSet, ns, service string) iter.Seq[*catalog.Registration] {
	return registrations.By(s.tx, ws, "name", table.KeyOf(ns, service))
}

// RegistrationsByJob returns the service registrations of the allocations of a job, ordered by ID.
func (s *Snapshot) RegistrationsByJob(ws memdb.WatchSet, ns, job string) iter.Seq[*catalog.Registration] {
	return registrations.By(s.tx, ws, "job", table.KeyOf(ns, job))
}

// RegistrationsByAlloc returns the service registrations of an allocation, ordered by ID.
func (s *Snapshot) RegistrationsByAlloc(ws memdb.WatchSet, alloc string) iter.Seq[*catalog.Registration] {
	return registrations.By(s.tx, ws, "alloc", table.KeyOf(alloc))
}

// RegistrationsByNode returns the service registrations of the allocations of a node, ordered by namespace and ID.
func (s *Snapshot) RegistrationsByNode(ws memdb.WatchSet, node string) iter.Seq[*catalog.Registration] {
	return registrations.By(s.tx, ws, "node", table.KeyOf(node))
}

// UpsertRegistrations stores service registrations. One that is equal to the stored one is not written, so that a
// client may register its services again without waking the readers.
func (s *Store) UpsertRegistrations(index uint64, req *message.ServiceRegistrationUpsertRequest) (*Changes, error) {
	return s.write(index, func(t *txn) error {
		for _, r := range req.Services {
			if r == nil {
				continue
			}
			stored := *r
			stored.CreateIndex, stored.ModifyIndex = t.Index, t.Index
			if old := registrations.Get(t, nil, table.KeyOf(r.Namespace, r.ID)); old != nil {
				if old.Equal(r) {
					continue
				}
				stored.CreateIndex = old.CreateIndex
			}
			registrations.Put(t.Txn, &stored)
		}
		return nil
	})
}

// DeleteRegistration removes a service registration. It fails if the registration does not exist.
func (s *Store) DeleteRegistration(index uint64, req *message.ServiceRegistrationDeleteByIDRequest) (*Changes, error) {
	return s.write(index, func(t *txn) error {
		r := registrations.Get(t, nil, table.KeyOf(req.Namespace, req.ID))
		if r == nil {
			return catalog.ErrNoRegistration
		}
		registrations.Delete(t.Txn, r)
		return nil
	})
}

// DeleteRegistrationsOfNode removes the service registrations of a node.
func (s *Store) DeleteRegistrationsOfNode(index uint64, req *message.ServiceRegistrationDeleteByNodeIDRequest) (*Changes, error) {
	return s.write(index, func(t *txn) error {
		t.deregister("node", req.NodeID)
		return nil
	})
}

// deregister removes the service registrations of a node or an allocation.
func (t *txn) deregister(index, id string) {
	var found []*catalog.Registration // deleting during the iteration is not safe
	for r := range registrations.By(t, nil, index, table.KeyOf(id)) {
		found = append(found, r)
	}
	for _, r := range found {
		registrations.Delete(t.Txn, r)
	}
}
