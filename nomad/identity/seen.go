package identity

import (
	"crypto/sha256"
	"sync"

	"github.com/open-nomad/open-nomad/nomad/idtoken"
)

// Limits of the cache: two generations of seenTokens tokens, each at most seenSize bytes long.
const (
	seenTokens = 4096
	seenSize   = 2 << 10
)

// digest identifies a token. The token itself is not stored.
type digest [sha256.Size]byte

// digestOf returns the digest of a token of at most seenSize bytes.
func digestOf(raw string) digest {
	var buf [seenSize]byte // a conversion would allocate
	return sha256.Sum256(buf[:copy(buf[:], raw)])
}

// seen caches tokens with a valid form and signature. For a cached token only the conditions that
// change are checked: the key, the time and the holder. Tokens that are not used for long are
// dropped.
type seen struct {
	mu         sync.RWMutex
	removals   uint64 // number of removed keys when the tokens were checked
	young, old map[digest]*idtoken.Claims
}

// claims returns the claims of a token cached since the last removal of a key, or nil.
func (s *seen) claims(raw string, removals uint64) *idtoken.Claims {
	if len(raw) > seenSize {
		return nil
	}
	key := digestOf(raw)
	s.mu.RLock()
	fresh := s.removals == removals
	c, aged := s.young[key], s.old[key]
	s.mu.RUnlock()
	if !fresh || c == nil && aged == nil {
		return nil
	}
	if c == nil {
		c = aged
		s.put(raw, c, removals)
	}
	return c
}

// put caches a token that was checked at this count of removed keys. The claims must not be
// modified afterwards.
func (s *seen) put(raw string, c *idtoken.Claims, removals uint64) {
	if len(raw) > seenSize {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case removals < s.removals:
		return
	case removals > s.removals || s.young == nil:
		s.removals, s.young, s.old = removals, map[digest]*idtoken.Claims{}, nil
	case len(s.young) >= seenTokens:
		s.young, s.old = map[digest]*idtoken.Claims{}, s.young
	}
	s.young[digestOf(raw)] = c
}
