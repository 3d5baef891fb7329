package identity

import (
	"crypto/sha256"
	"sync"

	"github.com/open-nomad/open-nomad/nomad"
)

// Bounds of what is remembered: so many tokens twice, none longer than that.
const (
	seenTokens = 4096
	seenSize   = 2 << 10
)

// digest stands for a token: the token itself is not kept.
type digest [sha256.Size]byte

// digestOf is the digest of a token of at most seenSize.
func digestOf(raw string) digest {
	var buf [seenSize]byte // a conversion would allocate
	return sha256.Sum256(buf[:copy(buf[:], raw)])
}

// seen remembers tokens whose form and signature were found good, so that the next
// time only what changes is checked: whether the key is still ours, the time, and
// whether the holder lives. Those that were not shown for long are forgotten.
type seen struct {
	mu         sync.RWMutex
	removals   uint64 // of keys, when the tokens were checked
	young, old map[digest]*nomad.IdentityClaims
}

// claims returns what a token says that was put since the last removal of a key,
// nil when it was not.
func (s *seen) claims(raw string, removals uint64) *nomad.IdentityClaims {
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

// put remembers a token that was checked after so many removals of keys. What it
// says is not written to any more.
func (s *seen) put(raw string, c *nomad.IdentityClaims, removals uint64) {
	if len(raw) > seenSize {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case removals < s.removals:
		return
	case removals > s.removals || s.young == nil:
		s.removals, s.young, s.old = removals, map[digest]*nomad.IdentityClaims{}, nil
	case len(s.young) >= seenTokens:
		s.young, s.old = map[digest]*nomad.IdentityClaims{}, s.young
	}
	s.young[digestOf(raw)] = c
}
