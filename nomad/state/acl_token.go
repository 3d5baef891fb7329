package state

import (
	"fmt"
	"iter"
	"time"

	"github.com/hashicorp/go-memdb"

	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rbac"
	"github.com/open-nomad/open-nomad/nomad/state/table"
)

// IndexACLBootstrap is the key of a row in the index table. The row is not the index of a table:
// its value is the index at which ACLs were bootstrapped.
const IndexACLBootstrap = "acl_token_bootstrap"

var aclTokens = &table.Table[rbac.Token]{
	Name:   TableACLToken,
	Events: true,
	ID:     func(t *rbac.Token) table.Key { return table.KeyOf(t.AccessorID) },
	Indexes: []table.Index[rbac.Token]{
		{Name: "secret", Key: func(t *rbac.Token) table.Key {
			if t.SecretID == "" {
				return nil
			}
			return table.KeyOf(t.SecretID)
		}},
		{Name: "global", Key: func(t *rbac.Token) table.Key { return globalKey(t.Global) }},
		{Name: "expires", Key: func(t *rbac.Token) table.Key {
			if t.ExpirationTime == nil || t.ExpirationTime.IsZero() {
				return nil
			}
			return timeKey(*t.ExpirationTime)
		}},
	},
}

func globalKey(global bool) table.Key {
	if global {
		return table.KeyOf("global")
	}
	return table.KeyOf("local")
}

// timeKey returns a key that sorts by time. All times before 1970 have the same key.
func timeKey(t time.Time) table.Key {
	if t.Unix() < 0 {
		return table.Key{}.Number(0).Number(0)
	}
	return table.Key{}.Number(uint64(t.Unix())).Number(uint64(t.Nanosecond()))
}

// ACLToken returns the token with the accessor, or nil if there is none. Its role links have the
// current names of the roles. Links to roles that no longer exist are left out.
func (s *Snapshot) ACLToken(ws memdb.WatchSet, accessor string) *rbac.Token {
	return s.linkedToken(ws, aclTokens.Get(s.tx, ws, table.KeyOf(accessor)))
}

// ACLTokenBySecret returns the token with the secret, as ACLToken does.
func (s *Snapshot) ACLTokenBySecret(ws memdb.WatchSet, secret string) *rbac.Token {
	if secret == "" {
		return nil
	}
	for t := range aclTokens.By(s.tx, ws, "secret", table.KeyOf(secret)) {
		return s.linkedToken(ws, t)
	}
	return nil
}

// ACLTokens returns every token, by accessor.
func (s *Snapshot) ACLTokens(ws memdb.WatchSet) iter.Seq[*rbac.Token] {
	return linked(ws, aclTokens.All(s.tx, ws), s.linkedToken)
}

// ACLTokensByPrefix returns the tokens whose accessor begins with prefix, by accessor.
func (s *Snapshot) ACLTokensByPrefix(ws memdb.WatchSet, prefix string) iter.Seq[*rbac.Token] {
	return linked(ws, aclTokens.Prefixed(s.tx, ws, table.Primary, table.PrefixOf(prefix)), s.linkedToken)
}

// ACLTokensGlobal returns the global tokens, or the tokens that are local to this region.
func (s *Snapshot) ACLTokensGlobal(ws memdb.WatchSet, global bool) iter.Seq[*rbac.Token] {
	return linked(ws, aclTokens.By(s.tx, ws, "global", globalKey(global)), s.linkedToken)
}

// ACLTokensExpired returns the tokens that had expired at then, oldest first.
func (s *Snapshot) ACLTokensExpired(then time.Time) iter.Seq[*rbac.Token] {
	return func(yield func(*rbac.Token) bool) {
		for t := range aclTokens.By(s.tx, nil, "expires", nil) {
			if !t.HasExpired(then) || !yield(t) {
				return
			}
		}
	}
}

// ACLBootstrapped reports whether ACLs were bootstrapped, and at which index.
func (s *Snapshot) ACLBootstrapped() (index uint64, done bool) {
	index = s.TableIndex(IndexACLBootstrap)
	return index, index > 0
}

// linkedToken returns the token with current role links. It copies the token only if a link has
// changed.
func (s *Snapshot) linkedToken(ws memdb.WatchSet, t *rbac.Token) *rbac.Token {
	if t == nil || len(t.Roles) == 0 {
		return t
	}
	right := true
	links := make([]*rbac.TokenRoleLink, 0, len(t.Roles))
	for _, l := range t.Roles {
		var role *rbac.Role
		if l != nil { // a restored snapshot may contain nil links
			role = aclRoles.Get(s.tx, ws, table.KeyOf(l.ID))
		}
		if role == nil {
			right = false
			continue
		}
		if role.Name != l.Name {
			right = false
			l = &rbac.TokenRoleLink{ID: l.ID, Name: role.Name}
		}
		links = append(links, l)
	}
	if right {
		return t
	}
	out := *t
	out.Roles = links
	return &out
}

// UpsertACLTokens stores tokens. An existing token keeps its secret, its creation time and its
// expiration.
func (s *Store) UpsertACLTokens(index uint64, req *message.ACLTokenUpsertRequest) (*Changes, error) {
	return s.write(index, func(t *txn) error {
		for _, token := range req.Tokens {
			if err := t.putACLToken(token); err != nil {
				return fmt.Errorf("upsert ACL tokens: %w", err)
			}
		}
		return nil
	})
}

func (t *txn) putACLToken(token *rbac.Token) error {
	if token == nil || token.AccessorID == "" || token.SecretID == "" {
		return fmt.Errorf("missing token accessor or secret")
	}
	stored := *token
	if len(stored.Hash) == 0 {
		stored.SetHash()
	}
	stored.CreateIndex, stored.ModifyIndex = t.Index, t.Index
	old := aclTokens.Get(t, nil, table.KeyOf(token.AccessorID))
	if old != nil {
		stored.CreateIndex, stored.CreateTime = old.CreateIndex, old.CreateTime
		stored.ExpirationTime, stored.ExpirationTTL = old.ExpirationTime, old.ExpirationTTL
		stored.SecretID = old.SecretID
	}
	for other := range aclTokens.By(t, nil, "secret", table.KeyOf(stored.SecretID)) {
		if other.AccessorID != stored.AccessorID {
			return fmt.Errorf("tokens %s and %s have the same secret", stored.AccessorID, other.AccessorID)
		}
	}
	aclTokens.Put(t.Txn, &stored)
	return nil
}

// DeleteACLTokens removes tokens and their one-time tokens. Tokens that do not exist are ignored.
func (s *Store) DeleteACLTokens(index uint64, req *message.ACLTokenDeleteRequest) (*Changes, error) {
	return s.write(index, func(t *txn) error {
		for _, accessor := range req.AccessorIDs {
			if token := aclTokens.Get(t, nil, table.KeyOf(accessor)); token != nil {
				aclTokens.Delete(t.Txn, token)
			}
			t.deleteOneTimeTokens(accessor)
		}
		return nil
	})
}

// BootstrapACL stores the first management token. A later bootstrap must name the index of the
// previous one.
func (s *Store) BootstrapACL(index uint64, req *message.ACLTokenBootstrapRequest) (*Changes, error) {
	return s.write(index, func(t *txn) error {
		if row := table.Indexes.Get(t, nil, table.KeyOf(IndexACLBootstrap)); row != nil && row.Value != 0 {
			switch req.ResetIndex {
			case row.Value:
			case 0:
				return fmt.Errorf("%w (reset index: %d)", apierror.ErrACLBootstrapped, row.Value)
			default:
				return fmt.Errorf("%w (specified %d, reset index: %d)", apierror.ErrACLBootstrapReset, req.ResetIndex, row.Value)
			}
		}
		if err := t.putACLToken(req.Token); err != nil {
			return fmt.Errorf("bootstrap ACLs: %w", err)
		}
		t.SetTableIndex(IndexACLBootstrap) // now: the next entry may share this transaction
		return nil
	})
}
