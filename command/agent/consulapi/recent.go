package consulapi

import (
	"crypto/sha256"
	"sync"
)

// Limits of what blocking queries occupy.
const (
	maxRecent     = 4096 // digests
	maxBlocked    = 512  // blocking queries of all callers
	maxBlockedOne = 256  // blocking queries of one token, or of all callers without a token
)

type digest = [sha256.Size]byte

// recent has the digest of the latest answer to each query. If it has none, a blocking query is answered at the first
// change, as if the change concerned it.
type recent struct {
	mu      *sync.Mutex
	answers map[digest]known
}

// known is an answer that was sent with an index.
type known struct {
	index  uint64
	answer digest
}

func newRecent() recent { return recent{new(sync.Mutex), map[digest]known{}} }

// find returns the digest of the answer to a query that was sent with the index.
func (r recent) find(query digest, index uint64) (digest, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	k, ok := r.answers[query]
	return k.answer, ok && k.index == index
}

// keep records an answer. At the limit it removes any other one.
func (r recent) keep(query digest, index uint64, answer digest) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, there := r.answers[query]; !there && len(r.answers) >= maxRecent {
		for other := range r.answers {
			delete(r.answers, other)
			break
		}
	}
	r.answers[query] = known{max(1, index), answer}
}
