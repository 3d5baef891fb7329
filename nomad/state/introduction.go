package state

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/open-nomad/open-nomad/nomad"
)

// The uses of introduction tokens are rows of the table of indexes: snapshots have
// no record type for them, and a reader that doesn't know such a row keeps it.
// The key is introduction/<expiry>/<token ID>/<uses>, so that the oldest come
// first; the value is the index of the latest use.
const introductionPrefix = "introduction/"

// forgetAfter is how long after its end, in seconds, the use of a token is kept:
// more than the clocks of two servers may be apart.
const forgetAfter = 10 * 60

// introductionKey begins the keys of what expires then, of all tokens or one.
func introductionKey(expiry int64, parts ...string) string {
	return introductionPrefix + strings.Join(append([]string{fmt.Sprintf("%012d", expiry)}, parts...), "/")
}

// useIntroduction notes that a token admits one more node, nothing when there is
// none; it refuses one that was used up. now is the time of the command.
func (t *txn) useIntroduction(use *nomad.NodeIntroduction, now int64) error {
	if use == nil {
		return nil
	}
	if use.TokenID == "" || strings.Contains(use.TokenID, "/") || use.Expiry <= 0 {
		return nomad.Denied("the introduction token has no ID or no end")
	}
	used := 0
	own := introductionKey(use.Expiry, use.TokenID) + "/"
	for row := range indexes.prefixed(t, nil, primary, prefixOf(own)) {
		n, err := strconv.Atoi(strings.TrimPrefix(row.Key, own))
		if err != nil {
			return fmt.Errorf("the use of an introduction has the key %q", row.Key)
		}
		used = max(used, n)
		indexes.check(t.Delete(indexes.name, row))
	}
	if used >= max(use.Uses, 1) {
		return nomad.ErrIntroductionUsed // the transaction ends without a trace
	}
	t.forgetIntroductions(now - forgetAfter)
	key := introductionKey(use.Expiry, use.TokenID, strconv.Itoa(used+1))
	indexes.check(t.Insert(indexes.name, &nomad.IndexEntry{Key: key, Value: t.index}))
	return nil
}

// forgetIntroductions drops those that expired before then.
func (t *txn) forgetIntroductions(then int64) {
	end := introductionKey(max(then, 0))
	for row := range indexes.prefixed(t, nil, primary, prefixOf(introductionPrefix)) {
		if row.Key >= end {
			return
		}
		indexes.check(t.Delete(indexes.name, row))
	}
}
