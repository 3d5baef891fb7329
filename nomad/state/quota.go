package state

import (
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"slices"

	"github.com/hashicorp/go-memdb"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/quota"
	"github.com/open-nomad/open-nomad/nomad/state/table"
)

// quotaPrefix begins the keys of the index rows that hold quotas in snapshots, which have no
// record type for them. The JSON of the quota follows the prefix. The value is the index of its
// last change. A restore recomputes the usage.
const quotaPrefix = "quota/"

var quotas = &table.Table[quota.Spec]{
	Name: TableQuotas,
	ID:   func(q *quota.Spec) table.Key { return table.KeyOf(q.Name) },
}

// quotaUsages has one row for each namespace with a quota.
var quotaUsages = &table.Table[quota.NamespaceUsage]{
	Name: TableQuotaUsage,
	ID:   func(u *quota.NamespaceUsage) table.Key { return table.KeyOf(u.Namespace) },
}

// Quota returns the quota, or nil if there is none.
func (s *Snapshot) Quota(ws memdb.WatchSet, name string) *quota.Spec {
	return quotas.Get(s.tx, ws, table.KeyOf(name))
}

// Quotas returns every quota, by name.
func (s *Snapshot) Quotas(ws memdb.WatchSet) iter.Seq[*quota.Spec] {
	return quotas.All(s.tx, ws)
}

// QuotaOf returns the quota of a namespace, or nil if it has none.
func (s *Snapshot) QuotaOf(ws memdb.WatchSet, namespace string) *quota.Spec {
	n := namespaces.Get(s.tx, ws, table.KeyOf(namespace))
	if n == nil || n.Quota == "" {
		return nil
	}
	return quotas.Get(s.tx, ws, table.KeyOf(n.Quota))
}

// NamespacesByQuota returns the namespaces that use a quota.
func (s *Snapshot) NamespacesByQuota(ws memdb.WatchSet, quota string) iter.Seq[*nomad.Namespace] {
	return namespaces.By(s.tx, ws, "quota", table.KeyOf(quota))
}

// QuotaUsed returns the total usage of the allocations in all namespaces of a quota.
func (s *Snapshot) QuotaUsed(ws memdb.WatchSet, name string) quota.Amount {
	var out quota.Amount
	for n := range s.NamespacesByQuota(ws, name) {
		if u := quotaUsages.Get(s.tx, ws, table.KeyOf(n.Name)); u != nil {
			out.Add(u.Held, 1)
		}
	}
	return out
}

// QuotaVariables returns the total size in bytes of the variables in all namespaces of a quota.
func (s *Snapshot) QuotaVariables(ws memdb.WatchSet, quota string) int64 {
	return variablesUsed(s.tx, ws, quota)
}

func variablesUsed(tx table.Reader, ws memdb.WatchSet, quota string) int64 {
	var out int64
	for n := range namespaces.By(tx, ws, "quota", table.KeyOf(quota)) {
		if q := variableQuotas.Get(tx, ws, table.KeyOf(n.Name)); q != nil {
			out += q.Size
		}
	}
	return out
}

// UpsertQuotas stores quotas. Evaluations that wait for one of them may be retried.
func (s *Store) UpsertQuotas(index uint64, req *message.QuotaUpsertRequest) (*Changes, error) {
	return s.write(index, func(t *txn) error {
		for _, q := range req.Quotas {
			stored := *q
			stored.CreateIndex, stored.ModifyIndex = t.Index, t.Index
			if old := quotas.Get(t, nil, table.KeyOf(q.Name)); old != nil {
				stored.CreateIndex = old.CreateIndex
			}
			quotas.Put(t.Txn, &stored)
			t.quotaFreed(q.Name)
		}
		return nil
	})
}

// DeleteQuotas removes quotas that no namespace uses.
func (s *Store) DeleteQuotas(index uint64, req *message.QuotaDeleteRequest) (*Changes, error) {
	return s.write(index, func(t *txn) error {
		for _, name := range req.Names {
			q := quotas.Get(t, nil, table.KeyOf(name))
			if q == nil {
				return fmt.Errorf("quota %q not found", name)
			}
			for n := range namespaces.By(t, nil, "quota", table.KeyOf(name)) {
				return fmt.Errorf("quota %q is used by namespace %q: change the namespace first", name, n.Name)
			}
			quotas.Delete(t.Txn, q)
			t.quotaFreed(name)
		}
		return nil
	})
}

// quotaFreed adds a quota to the changes: evaluations that wait for it may be retried.
func (t *txn) quotaFreed(quota string) {
	for _, known := range t.changes.Quotas {
		if known == quota {
			return
		}
	}
	t.changes.Quotas = append(t.changes.Quotas, quota)
}

// account adds the difference between a and old to the usage of the namespace. Either may be nil.
func (t *txn) account(a, old *nomad.Allocation) {
	if a != nil && old != nil && a.TerminalStatus() == old.TerminalStatus() && a.AllocatedResources == old.AllocatedResources {
		return // most client updates do not change the usage
	}
	row := a
	if row == nil {
		row = old
	}
	usage := t.usage(row.Namespace)
	if usage == nil {
		return
	}
	usage.Held.Add(quota.Of(a), 1)
	usage.Held.Add(quota.Of(old), -1)
}

// usage returns the usage of a namespace, which the caller may modify. It returns nil if the
// namespace has no quota.
func (t *txn) usage(namespace string) *quota.NamespaceUsage {
	if u, known := t.usages[namespace]; known {
		return u
	}
	var own *quota.NamespaceUsage
	if u := quotaUsages.Get(t, nil, table.KeyOf(namespace)); u != nil {
		clone := *u
		own = &clone
	}
	if t.usages == nil {
		t.usages = map[string]*quota.NamespaceUsage{}
	}
	t.usages[namespace] = own
	return own
}

// storeQuotaUsages stores the modified usages and adds the quotas whose usage fell to the changes.
func (t *txn) storeQuotaUsages() {
	for _, namespace := range slices.Sorted(maps.Keys(t.usages)) {
		now := t.usages[namespace]
		if now == nil {
			continue
		}
		before := quotaUsages.Get(t, nil, table.KeyOf(namespace))
		if before == nil || before.Held == now.Held {
			continue // unchanged, or this entry removed the quota of the namespace
		}
		quotaUsages.Put(t.Txn, now)
		if n := namespaces.Get(t, nil, table.KeyOf(namespace)); n != nil && now.Held.Below(before.Held) {
			t.quotaFreed(n.Quota)
		}
	}
	t.usages = nil
}

// requota updates the usage after a namespace gained, changed or lost its quota. n is nil if the
// namespace is deleted.
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
		t.quotaFreed(had)
	}
	if u := quotaUsages.Get(t, nil, table.KeyOf(namespace)); u != nil {
		quotaUsages.Delete(t.Txn, u)
	}
	if has != "" {
		quotaUsages.Put(t.Txn, t.count(namespace))
	}
}

// count computes the usage of the allocations of a namespace.
func (t *txn) count(namespace string) *quota.NamespaceUsage {
	u := &quota.NamespaceUsage{Namespace: namespace}
	for a := range allocs.By(t, nil, "job", table.KeyOf(namespace)) {
		u.Held.Add(quota.Of(a), 1)
	}
	return u
}

// quotaRow returns the snapshot row of a quota.
func quotaRow(q *quota.Spec) *nomad.IndexEntry {
	text, err := json.Marshal(q)
	if err != nil {
		panic(fmt.Sprintf("state: bug: quota %q: %v", q.Name, err))
	}
	return &nomad.IndexEntry{Key: quotaPrefix + string(text), Value: q.ModifyIndex}
}

// readQuota restores a quota from its JSON.
func (r *Restore) readQuota(text string) error {
	q := new(quota.Spec)
	if err := json.Unmarshal([]byte(text), q); err != nil {
		return fmt.Errorf("quota: %w", err)
	}
	return quotas.Load(r.txn.Txn, q)
}

// countUsages computes the usage of all namespaces with a quota.
func (r *Restore) countUsages() {
	for n := range namespaces.All(r.txn, nil) {
		if n.Quota != "" {
			quotaUsages.Put(r.txn.Txn, r.txn.count(n.Name))
		}
	}
}
