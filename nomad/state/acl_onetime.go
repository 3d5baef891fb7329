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

// oneTimeTokens expire within minutes. As in Nomad 2.0, snapshots do not contain them.
var oneTimeTokens = &table.Table[rbac.OneTimeToken]{
	Name: TableOneTimeToken,
	ID:   func(t *rbac.OneTimeToken) table.Key { return table.KeyOf(t.OneTimeSecretID) },
	Indexes: []table.Index[rbac.OneTimeToken]{
		{Name: "accessor", Key: func(t *rbac.OneTimeToken) table.Key { return table.KeyOf(t.AccessorID) }},
		{Name: "expires", Key: func(t *rbac.OneTimeToken) table.Key { return timeKey(t.ExpiresAt) }},
	},
}

// OneTimeToken returns the one-time token with the secret, or nil if there is none.
func (s *Snapshot) OneTimeToken(ws memdb.WatchSet, secret string) *rbac.OneTimeToken {
	return oneTimeTokens.Get(s.tx, ws, table.KeyOf(secret))
}

// OneTimeTokensExpired returns the one-time tokens that had expired at then, oldest first.
func (s *Snapshot) OneTimeTokensExpired(then time.Time) iter.Seq[*rbac.OneTimeToken] {
	return expiredOneTimeTokens(s.tx, then)
}

func expiredOneTimeTokens(tx table.Reader, then time.Time) iter.Seq[*rbac.OneTimeToken] {
	return func(yield func(*rbac.OneTimeToken) bool) {
		for t := range oneTimeTokens.By(tx, nil, "expires", nil) {
			if !t.HasExpired(then) || !yield(t) {
				return
			}
		}
	}
}

// UpsertOneTimeToken stores a one-time token. It replaces any other one-time token of the same
// ACL token.
func (s *Store) UpsertOneTimeToken(index uint64, token *rbac.OneTimeToken) (*Changes, error) {
	return s.write(index, func(t *txn) error {
		if token.OneTimeSecretID == "" || token.AccessorID == "" {
			return fmt.Errorf("upsert one-time token: missing secret or accessor")
		}
		if oneTimeTokens.Get(t, nil, table.KeyOf(token.OneTimeSecretID)) != nil {
			return fmt.Errorf("upsert one-time token: duplicate secret")
		}
		t.deleteOneTimeTokens(token.AccessorID)
		stored := *token
		stored.CreateIndex, stored.ModifyIndex = t.Index, t.Index
		oneTimeTokens.Put(t.Txn, &stored)
		return nil
	})
}

// DeleteOneTimeTokens removes the one-time tokens of ACL tokens. A request with a secret is an
// exchange: the token must exist and must not have expired. The token is deleted, so only one
// caller can exchange it.
func (s *Store) DeleteOneTimeTokens(index uint64, req *message.OneTimeTokenDeleteRequest) (*Changes, error) {
	return s.write(index, func(t *txn) error {
		if req.OneTimeSecretID != "" {
			token := oneTimeTokens.Get(t, nil, table.KeyOf(req.OneTimeSecretID))
			if token == nil || token.HasExpired(req.Timestamp) {
				return apierror.ErrPermissionDenied
			}
			oneTimeTokens.Delete(t.Txn, token)
		}
		for _, accessor := range req.AccessorIDs {
			t.deleteOneTimeTokens(accessor)
		}
		return nil
	})
}

// ExpireOneTimeTokens removes the one-time tokens that had expired at the timestamp of the
// request.
func (s *Store) ExpireOneTimeTokens(index uint64, req *message.OneTimeTokenExpireRequest) (*Changes, error) {
	return s.write(index, func(t *txn) error {
		for token := range expiredOneTimeTokens(t, req.Timestamp) {
			oneTimeTokens.Delete(t.Txn, token)
		}
		return nil
	})
}

// deleteOneTimeTokens removes the one-time tokens of an ACL token.
func (t *txn) deleteOneTimeTokens(accessor string) {
	for token := range oneTimeTokens.By(t, nil, "accessor", table.KeyOf(accessor)) {
		oneTimeTokens.Delete(t.Txn, token)
	}
}
