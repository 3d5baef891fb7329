package state

import (
	"fmt"
	"iter"

	"github.com/hashicorp/go-memdb"

	"github.com/open-nomad/open-nomad/nomad"
)

var namespaces = &table[nomad.Namespace]{
	name: TableNamespaces,
	id:   func(n *nomad.Namespace) key { return keyOf(n.Name) },
	indexes: []index[nomad.Namespace]{
		{name: "quota", key: func(n *nomad.Namespace) key { return optional(n.Quota) }},
	},
}

// Namespace returns the namespace, or nil if there is none.
func (s *Snapshot) Namespace(ws memdb.WatchSet, name string) *nomad.Namespace {
	return namespaces.get(s.tx, ws, keyOf(name))
}

// Namespaces returns every namespace, by name.
func (s *Snapshot) Namespaces(ws memdb.WatchSet) iter.Seq[*nomad.Namespace] {
	return namespaces.all(s.tx, ws)
}

// UpsertNamespaces stores namespaces. The quota of a namespace must exist.
func (s *Store) UpsertNamespaces(index uint64, req *nomad.NamespaceUpsertRequest) (*Changes, error) {
	return s.write(index, func(t *txn) error {
		for _, n := range req.Namespaces {
			if n.Quota != "" && quotas.get(t, nil, keyOf(n.Quota)) == nil {
				return fmt.Errorf("namespace %q names the quota %q, which does not exist", n.Name, n.Quota)
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
	old := namespaces.get(t, nil, keyOf(n.Name))
	if old != nil {
		n.CreateIndex = old.CreateIndex
	}
	namespaces.put(t.Txn, n)
	t.requota(n.Name, n, old)
}

// DeleteNamespaces removes namespaces. A namespace must not contain a job, not even a dead one,
// or a variable.
func (s *Store) DeleteNamespaces(index uint64, req *nomad.NamespaceDeleteRequest) (*Changes, error) {
	return s.write(index, func(t *txn) error {
		for _, name := range req.Namespaces {
			n := namespaces.get(t, nil, keyOf(name))
			if n == nil {
				return fmt.Errorf("namespace %q not found", name)
			}
			if name == nomad.DefaultNamespace {
				return fmt.Errorf("default namespace can not be deleted")
			}
			for j := range jobs.by(t, nil, primary, keyOf(name)) {
				return fmt.Errorf("namespace %q has the job %q: purge its jobs first", name, j.ID)
			}
			for v := range variables.by(t, nil, primary, keyOf(name)) {
				return fmt.Errorf("namespace %q has the variable %q: purge its variables first", name, v.Path)
			}
			if q := variableQuotas.get(t, nil, keyOf(name)); q != nil {
				variableQuotas.delete(t.Txn, q)
			}
			namespaces.delete(t.Txn, n)
			t.requota(name, nil, n)
		}
		return nil
	})
}
