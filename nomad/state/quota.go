package state

import (
	"encoding/json"
	"fmt"
	"iter"

	"github.com/hashicorp/go-memdb"

	"github.com/open-nomad/open-nomad/nomad"
)

// In snapshots, which have no record type for them, quotas are index rows: this prefix
// and the JSON, with the index of the last change. What is used of them is counted anew.
const quotaPrefix = "quota/"

var quotas = &table[nomad.QuotaSpec]{
	name: TableQuotas,
	id:   func(q *nomad.QuotaSpec) key { return keyOf(q.Name) },
}

// quotaUsages has a row for each namespace that names a quota.
var quotaUsages = &table[nomad.NamespaceUsage]{
	name: TableQuotaUsage,
	id:   func(u *nomad.NamespaceUsage) key { return keyOf(u.Namespace) },
}

// Quota returns the quota, nil when there is none.
func (s *Snapshot) Quota(ws memdb.WatchSet, name string) *nomad.QuotaSpec {
	return quotas.get(s.tx, ws, keyOf(name))
}

// Quotas returns every quota, by name.
func (s *Snapshot) Quotas(ws memdb.WatchSet) iter.Seq[*nomad.QuotaSpec] {
	return quotas.all(s.tx, ws)
}

// QuotaOf returns the quota that a namespace names, nil when it names none.
func (s *Snapshot) QuotaOf(ws memdb.WatchSet, namespace string) *nomad.QuotaSpec {
	n := namespaces.get(s.tx, ws, keyOf(namespace))
	if n == nil || n.Quota == "" {
		return nil
	}
	return quotas.get(s.tx, ws, keyOf(n.Quota))
}

// NamespacesByQuota returns the namespaces that name a quota.
func (s *Snapshot) NamespacesByQuota(ws memdb.WatchSet, quota string) iter.Seq[*nomad.Namespace] {
	return namespaces.by(s.tx, ws, "quota", keyOf(quota))
}

// QuotaHeld returns what the allocations of all namespaces of a quota hold together.
func (s *Snapshot) QuotaHeld(ws memdb.WatchSet, quota string) nomad.QuotaAmount {
	var out nomad.QuotaAmount
	for n := range s.NamespacesByQuota(ws, quota) {
		if u := quotaUsages.get(s.tx, ws, keyOf(n.Name)); u != nil {
			out.Add(u.Held, 1)
		}
	}
	return out
}

// QuotaVariables returns how many bytes the variables of all namespaces of a quota take.
func (s *Snapshot) QuotaVariables(ws memdb.WatchSet, quota string) int64 {
	return variablesHeld(s.tx, ws, quota)
}

func variablesHeld(tx reader, ws memdb.WatchSet, quota string) int64 {
	var out int64
	for n := range namespaces.by(tx, ws, "quota", keyOf(quota)) {
		if q := variableQuotas.get(tx, ws, keyOf(n.Name)); q != nil {
			out += q.Size
		}
	}
	return out
}

// UpsertQuotas stores quotas, and tells those who wait for one of them.
func (s *Store) UpsertQuotas(index uint64, req *nomad.QuotaUpsertRequest) (*Changes, error) {
	return s.write(index, func(t *txn) error {
		for _, q := range req.Quotas {
			stored := *q
			stored.CreateIndex, stored.ModifyIndex = t.index, t.index
			if old := quotas.get(t, nil, keyOf(q.Name)); old != nil {
				stored.CreateIndex = old.CreateIndex
			}
			quotas.put(t, &stored)
			t.roomier(q.Name)
		}
		return nil
	})
}

// DeleteQuotas removes quotas that no namespace names.
func (s *Store) DeleteQuotas(index uint64, req *nomad.QuotaDeleteRequest) (*Changes, error) {
	return s.write(index, func(t *txn) error {
		for _, name := range req.Names {
			q := quotas.get(t, nil, keyOf(name))
			if q == nil {
				return fmt.Errorf("quota %q not found", name)
			}
			for n := range namespaces.by(t, nil, "quota", keyOf(name)) {
				return fmt.Errorf("quota %q is the one of namespace %q: give that another first", name, n.Name)
			}
			quotas.delete(t, q)
			t.roomier(name)
		}
		return nil
	})
}

// roomier notes that what waits for a quota may be tried again.
func (t *txn) roomier(quota string) {
	for _, known := range t.changes.Quotas {
		if known == quota {
			return
		}
	}
	t.changes.Quotas = append(t.changes.Quotas, quota)
}

// account notes what an allocation holds more than before; either may be nil.
func (t *txn) account(a, old *nomad.Allocation) {
	if a != nil && old != nil && a.TerminalStatus() == old.TerminalStatus() && a.AllocatedResources == old.AllocatedResources {
		return // as for most reports of clients
	}
	row := a
	if row == nil {
		row = old
	}
	usage := t.usage(row.Namespace)
	if usage == nil {
		return
	}
	usage.Held.Add(a.QuotaAmount(), 1)
	usage.Held.Add(old.QuotaAmount(), -1)
}

// usage is what a namespace holds, to be changed; nil when it names no quota.
func (t *txn) usage(namespace string) *nomad.NamespaceUsage {
	if u, known := t.usages[namespace]; known {
		return u
	}
	var own *nomad.NamespaceUsage
	if u := quotaUsages.get(t, nil, keyOf(namespace)); u != nil {
		clone := *u
		own = &clone
	}
	if t.usages == nil {
		t.usages = map[string]*nomad.NamespaceUsage{}
	}
	t.usages[namespace] = own
	return own
}

// settle writes what became of usages, and says of which quotas less is held.
func (t *txn) settle() {
	for _, namespace := range sortedKeys(t.usages) {
		now := t.usages[namespace]
		if now == nil {
			continue
		}
		before := quotaUsages.get(t, nil, keyOf(namespace))
		if before == nil || before.Held == now.Held {
			continue // the same, or the namespace gave its quota away in this entry
		}
		quotaUsages.put(t, now)
		if n := namespaces.get(t, nil, keyOf(namespace)); n != nil && now.Held.Below(before.Held) {
			t.roomier(n.Quota)
		}
	}
	t.usages = nil
}

// requota counts for a namespace that gets, changes or loses its quota; n is nil for one
// that is deleted.
func (t *txn) requota(namespace string, n, old *nomad.Namespace) {
	var had, has string
	if old != nil {
		had = old.Quota
	}
	if n != nil {
		has = n.Quota
	}
	if had == has {
		return
	}
	if had != "" {
		t.roomier(had)
	}
	if u := quotaUsages.get(t, nil, keyOf(namespace)); u != nil {
		quotaUsages.delete(t, u)
	}
	if has != "" {
		quotaUsages.put(t, t.count(namespace))
	}
}

// count adds up what the allocations of a namespace hold.
func (t *txn) count(namespace string) *nomad.NamespaceUsage {
	u := &nomad.NamespaceUsage{Namespace: namespace}
	for a := range allocs.by(t, nil, "job", keyOf(namespace)) {
		u.Held.Add(a.QuotaAmount(), 1)
	}
	return u
}

// quotaRow is a quota as it goes into a snapshot.
func quotaRow(q *nomad.QuotaSpec) *nomad.IndexEntry {
	text, err := json.Marshal(q)
	if err != nil {
		panic(fmt.Sprintf("state: bug: quota %q: %v", q.Name, err))
	}
	return &nomad.IndexEntry{Key: quotaPrefix + string(text), Value: q.ModifyIndex}
}

// readQuota takes a quota back.
func (r *Restore) readQuota(text string) error {
	q := new(nomad.QuotaSpec)
	if err := json.Unmarshal([]byte(text), q); err != nil {
		return fmt.Errorf("quota: %w", err)
	}
	return r.txn.Insert(quotas.name, q)
}

// countUsages counts what is used of quotas.
func (r *Restore) countUsages() {
	for n := range namespaces.all(r.txn, nil) {
		if n.Quota != "" {
			quotas.check(r.txn.Insert(quotaUsages.name, r.txn.count(n.Name)))
		}
	}
}
