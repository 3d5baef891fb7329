package state

import (
	"fmt"
	"iter"

	"github.com/hashicorp/go-memdb"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/state/table"
)

var namespaces = &table.Table[nomad.Namespace]{
	Name: TableNamespaces,
	ID:   func(n *nomad.Namespace) table.Key { return table.KeyOf(n.Name) },
	Indexes: []table.Index[nomad.Namespace]{
		{Name: "quota", Key: func(n *nomad.Namespace) table.Key { return table.Optional(n.Quota) }},
	},
}

// Namespace returns the namespace, or nil if there is none.
func (s *Snapshot) Namespace(ws memdb.WatchSet, name string) *nomad.Namespace {
	return namespaces.Get(s.tx, ws, table.KeyOf(name))
}

// Namespaces returns every namespace, by name.
func (s *Snapshot) Namespaces(ws memdb.WatchSet) iter.Seq[*nomad.Namespace] {
	return namespaces.All(s.tx, ws)
}

// UpsertNamespaces stores namespaces. The quota of a namespace must exist.
func (s *Store) UpsertNamespaces(index uint64, req *message.NamespaceUpsertRequest) (*Changes, error) {
	return s.write(index, func(t *txn) error {
		for _, n := range req.Namespaces {
			if n.Quota != "" && quotas.Get(t, nil, table.KeyOf(n.Quota)) == nil {
				return fmt.Errorf("namespace %q has the quota %q, which does not exist", n.Name, n.Quota)
			}
			stored := *n
			t.putNamespace(&stored)
		}
		return nil
	})
}

// putNamespace stores a namespace that the caller owns.
func (t *txn) putNamespace(n *nomad.Namespace) {
	n.CreateIndex, n.ModifyIndex = t.Index, t.Index
	old := namespaces.Get(t, nil, table.KeyOf(n.Name))
	if old != nil {
		n.CreateIndex = old.CreateIndex
	}
	namespaces.Put(t.Txn, n)
	t.requota(n.Name, n, old)
}

// DeleteNamespaces removes namespaces. A namespace must not contain a job, not even a dead one,
// a variable or a volume.
func (s *Store) DeleteNamespaces(index uint64, req *message.NamespaceDeleteRequest) (*Changes, error) {
	return s.write(index, func(t *txn) error {
		for _, name := range req.Namespaces {
			n := namespaces.Get(t, nil, table.KeyOf(name))
			if n == nil {
				return fmt.Errorf("namespace %q not found", name)
			}
			if name == nomad.DefaultNamespace {
				return fmt.Errorf("default namespace can not be deleted")
			}
			for j := range jobs.By(t, nil, table.Primary, table.KeyOf(name)) {
				return fmt.Errorf("namespace %q has the job %q: purge its jobs first", name, j.ID)
			}
			for v := range variables.By(t, nil, table.Primary, table.KeyOf(name)) {
				return fmt.Errorf("namespace %q has the variable %q: purge its variables first", name, v.Path)
			}
			for v := range hostVolumes.By(t, nil, table.Primary, table.KeyOf(name)) {
				return fmt.Errorf("namespace %q has the volume %q (%s): delete its volumes first", name, v.Name, v.ID)
			}
			for v := range csiVolumes.By(t, nil, table.Primary, table.KeyOf(name)) {
				return fmt.Errorf("namespace %q has the CSI volume %q: delete or deregister its volumes first", name, v.ID)
			}
			if q := variableQuotas.Get(t, nil, table.KeyOf(name)); q != nil {
				variableQuotas.Delete(t.Txn, q)
			}
			namespaces.Delete(t.Txn, n)
			t.requota(name, nil, n)
		}
		return nil
	})
}
