package state

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/idtoken"
	"github.com/open-nomad/open-nomad/nomad/state/table"
)

// Uses of introduction tokens are rows of the index table, because snapshots have no record type
// for them. Readers that do not know such a row keep it. The key is introduction/<expiry>/<token
// ID>/<uses>, so that rows sort by expiry. The value is the index of the latest use.
const introductionPrefix = "introduction/"

// holderPrefix begins the keys of the rows that hold who has used a token:
// introduction_holder/<expiry>/<token ID>/<holder>. The value is the index of the first use.
const holderPrefix = "introduction_holder/"

// forgetAfter is the time in seconds for which the uses of an expired token are kept. It exceeds
// the clock skew between servers.
const forgetAfter = 10 * 60

// introductionKey returns the prefix of the keys with the expiry, or with the expiry and further
// parts.
func introductionKey(expiry int64, parts ...string) string {
	return introductionPrefix + strings.Join(append([]string{fmt.Sprintf("%012d", expiry)}, parts...), "/")
}

// useIntroduction counts one more use of an introduction token, and returns an error if no use
// remains. A nil use is ignored. now is the time of the command.
func (t *txn) useIntroduction(use *idtoken.NodeIntroduction, now int64) error {
	if use == nil {
		return nil
	}
	if use.TokenID == "" || strings.Contains(use.TokenID, "/") || use.Expiry <= 0 {
		return apierror.Denied("introduction token without ID or expiry")
	}
	if t.usedBy(use) {
		return nil
	}
	used := 0
	own := introductionKey(use.Expiry, use.TokenID) + "/"
	for row := range table.Indexes.Prefixed(t, nil, table.Primary, table.PrefixOf(own)) {
		n, err := strconv.Atoi(strings.TrimPrefix(row.Key, own))
		if err != nil {
			return fmt.Errorf("invalid key %q of a used introduction token", row.Key)
		}
		used = max(used, n)
		table.Indexes.Delete(t.Txn, row)
	}
	if used >= max(use.Uses, 1) {
		return idtoken.ErrIntroductionUsed // the transaction is aborted
	}
	t.forgetIntroductions(now - forgetAfter)
	key := introductionKey(use.Expiry, use.TokenID, strconv.Itoa(used+1))
	table.Indexes.Put(t.Txn, &nomad.IndexEntry{Key: key, Value: t.Index})
	if use.Holder != "" {
		table.Indexes.Put(t.Txn, &nomad.IndexEntry{Key: holderKey(use), Value: t.Index})
	}
	return nil
}

// usedBy reports whether the same node and key have used the token before.
func (t *txn) usedBy(use *idtoken.NodeIntroduction) bool {
	return use.Holder != "" && table.Indexes.Get(t, nil, table.KeyOf(holderKey(use))) != nil
}

func holderKey(use *idtoken.NodeIntroduction) string {
	return holderPrefix + strings.TrimPrefix(introductionKey(use.Expiry, use.TokenID, use.Holder), introductionPrefix)
}

// forgetIntroductions deletes the rows that expired before then.
func (t *txn) forgetIntroductions(then int64) {
	until := strings.TrimPrefix(introductionKey(max(then, 0)), introductionPrefix)
	for _, prefix := range []string{introductionPrefix, holderPrefix} {
		for row := range table.Indexes.Prefixed(t, nil, table.Primary, table.PrefixOf(prefix)) {
			if row.Key >= prefix+until {
				break
			}
			table.Indexes.Delete(t.Txn, row)
		}
	}
}
