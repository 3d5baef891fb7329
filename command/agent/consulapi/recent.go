package consulapi

import (
	"crypto/sha256"
	"net/http"
	"sync"

	"github.com/open-nomad/open-nomad/nomad/apierror"
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

// slots limits the blocking queries.
type slots struct {
	mu  *sync.Mutex
	all *int
	of  map[string]int // by caller
}

func newSlots() slots { return slots{new(sync.Mutex), new(int), map[string]int{}} }

// occupy takes a slot for a blocking query of a caller, and returns its release.
func (s slots) occupy(caller string) (release func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if *s.all >= maxBlocked || s.of[caller] >= maxBlockedOne {
		return nil, apierror.Errorf(http.StatusTooManyRequests, "too many blocking queries: at most %d of a token and %d in all; "+
			"repeat the request later, or without index", maxBlockedOne, maxBlocked)
	}
	*s.all++
	s.of[caller]++
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		*s.all--
		if s.of[caller]--; s.of[caller] == 0 {
			delete(s.of, caller)
		}
	}, nil
}
