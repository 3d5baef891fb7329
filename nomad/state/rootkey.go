package state

import (
	"fmt"
	"iter"

	"github.com/hashicorp/go-memdb"

	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rootkey"
	"github.com/open-nomad/open-nomad/nomad/state/table"
)

var rootKeys = &table.Table[rootkey.Key]{
	Name: TableRootKeys,
	ID:   func(k *rootkey.Key) table.Key { return table.KeyOf(k.KeyID) },
}

// RootKeys returns every root key, wrapped.
func (s *Snapshot) RootKeys(ws memdb.WatchSet) iter.Seq[*rootkey.Key] {
	return rootKeys.All(s.tx, ws)
}

// RootKey returns the root key, or nil if there is none.
func (s *Snapshot) RootKey(ws memdb.WatchSet, id string) *rootkey.Key {
	return rootKeys.Get(s.tx, ws, table.KeyOf(id))
}

// ActiveRootKey returns the key that signs and encrypts, or nil if there is none yet.
func (s *Snapshot) ActiveRootKey(ws memdb.WatchSet) *rootkey.Key {
	for k := range s.RootKeys(ws) {
		if k.State == rootkey.Active {
			return k
		}
	}
	return nil
}

// RootKeyInUse reports whether the key is still needed. It is needed by allocations that have not
// ended and by nodes with tokens it signed, and by variables and secrets of volumes it encrypted.
func (s *Snapshot) RootKeyInUse(id string) bool {
	for range allocs.By(s.tx, nil, "signing_key", table.KeyOf(id)) {
		return true
	}
	for range nodes.By(s.tx, nil, "signing_key", table.KeyOf(id)) {
		return true
	}
	for range s.VariablesByKey(nil, id) {
		return true
	}
	for range s.CSIVolumesByKey(nil, id) {
		return true
	}
	k := s.RootKey(nil, id)
	return k != nil && k.HasRSA() && s.rsaKeyInUse(k)
}

// NewestRSAKey returns the key that signs with RS256, or nil if there is none.
func (s *Snapshot) NewestRSAKey() *rootkey.Key { return s.rsaKeyAfter(-1) }

// rsaKeyAfter returns the newest key with an RSA part that was created after then.
func (s *Snapshot) rsaKeyAfter(then int64) *rootkey.Key {
	var newest *rootkey.Key
	for k := range s.RootKeys(nil) {
		if k.HasRSA() && k.CreateTime > then && (newest == nil || k.CreateTime > newest.CreateTime) {
			newest = k
		}
	}
	return newest
}

// WantsRSA reports whether a job has identities signed with RS256, or an auth method uses RS256
// client assertions.
func (s *Snapshot) WantsRSA() bool {
	for m := range s.ACLAuthMethods(nil) {
		if m.WantsRSA() {
			return true
		}
	}
	for j := range s.Jobs(nil) {
		if !j.Stopped() && j.WantsRSA() {
			return true
		}
	}
	return false
}

// rsaKeyInUse reports whether k signs, or may have signed, a token of an allocation that is not
// terminal. State does not record which key signed a named identity.
func (s *Snapshot) rsaKeyInUse(k *rootkey.Key) bool {
	newest := s.rsaKeyAfter(k.CreateTime)
	if newest == nil && s.WantsRSA() {
		return true
	}
	for a := range s.Allocs(nil) {
		if !a.TerminalStatus() && a.Job.WantsRSA() && (newest == nil || a.CreateTime < newest.CreateTime) {
			return true
		}
	}
	return false
}

// UpsertRootKey stores a wrapped root key. A key that becomes active replaces the previous active
// key.
func (s *Store) UpsertRootKey(index uint64, req *message.KeyringUpsertWrappedRootKeyRequest) (*Changes, error) {
	return s.write(index, func(t *txn) error {
		if req.WrappedRootKeys == nil {
			return fmt.Errorf("upsert root key: missing key")
		}
		k := *req.WrappedRootKeys
		return t.putRootKey(&k, req.Rekey)
	})
}

// UpsertRootKeyMeta stores a root key as servers before 1.9 wrote it, without key material.
func (s *Store) UpsertRootKeyMeta(index uint64, req *message.KeyringUpdateRootKeyMetaRequest) (*Changes, error) {
	return s.write(index, func(t *txn) error {
		if req.RootKeyMeta == nil {
			return fmt.Errorf("upsert root key: missing key")
		}
		k := keyOfMeta(req.RootKeyMeta)
		if old := rootKeys.Get(t, nil, table.KeyOf(k.KeyID)); old != nil {
			k.WrappedKeys, k.PublicKey = old.WrappedKeys, old.PublicKey
		}
		return t.putRootKey(k, req.Rekey)
	})
}

// keyOfMeta converts a legacy record to a root key without key material.
func keyOfMeta(m *rootkey.Meta) *rootkey.Key {
	return &rootkey.Key{KeyID: m.KeyID, Algorithm: m.Algorithm, CreateTime: m.CreateTime, CreateIndex: m.CreateIndex,
		ModifyIndex: m.ModifyIndex, State: m.State, PublishTime: m.PublishTime}
}

// putRootKey stores a key that the caller owns. If the key becomes active, it retires the others.
func (t *txn) putRootKey(k *rootkey.Key, rekey bool) error {
	k.CreateIndex, k.ModifyIndex = t.Index, t.Index
	old := rootKeys.Get(t, nil, table.KeyOf(k.KeyID))
	if old != nil {
		k.CreateIndex, k.CreateTime = old.CreateIndex, old.CreateTime
	}
	rotation := k.State == rootkey.Active && (old == nil || old.State != rootkey.Active)
	if rekey && !rotation {
		return fmt.Errorf("cannot rekey without a new active key")
	}
	if rotation {
		t.retireRootKeys(k.KeyID, rekey)
	}
	rootKeys.Put(t.Txn, k)
	return nil
}

// retireRootKeys makes every active key but the new one inactive. With rekey, active and inactive
// keys enter the rekeying state: the variables they encrypted are encrypted again.
func (t *txn) retireRootKeys(except string, rekey bool) {
	for old := range rootKeys.All(t, nil) {
		next := old.State
		switch {
		case old.KeyID == except:
		case rekey && (old.State == rootkey.Active || old.State == rootkey.Inactive):
			next = rootkey.Rekeying
		case old.State == rootkey.Active:
			next = rootkey.Inactive
		}
		if next != old.State {
			retired := *old
			retired.State, retired.ModifyIndex = next, t.Index
			rootKeys.Put(t.Txn, &retired)
		}
	}
}

// DeleteRootKey deletes a root key. A key that does not exist is ignored.
func (s *Store) DeleteRootKey(index uint64, req *message.KeyringDeleteRootKeyRequest) (*Changes, error) {
	return s.write(index, func(t *txn) error {
		if k := rootKeys.Get(t, nil, table.KeyOf(req.KeyID)); k != nil {
			rootKeys.Delete(t.Txn, k)
		}
		return nil
	})
}
