package keyring

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/open-nomad/open-nomad/nomad/rootkey"
)

// OpenKey is a root key whose material is available.
type OpenKey struct {
	ID      string
	State   rootkey.State
	Created time.Time
}

// OpenKeys returns the open keys, oldest first. Deprecated ones are not included.
func (r *Ring) OpenKeys() []OpenKey {
	r.mu.RLock()
	defer r.mu.RUnlock()
	var out []OpenKey
	for id, e := range r.keys {
		if e.closed == nil && e.state != rootkey.Deprecated {
			out = append(out, OpenKey{ID: id, State: e.state, Created: time.Unix(0, e.created)})
		}
	}
	slices.SortFunc(out, func(a, b OpenKey) int { return cmp.Or(a.Created.Compare(b.Created), cmp.Compare(a.ID, b.ID)) })
	return out
}

// Derive returns 32 secret bytes for a purpose: HKDF with SHA-256 (RFC 5869) over the data encryption
// key, with the key ID as salt. Every server that can open the key derives the same bytes, and no
// purpose reveals those of another. The caller must not print them.
func (r *Ring) Derive(kid, purpose string) ([]byte, error) {
	found, ok := r.boxes.get(kid)
	if !ok {
		return nil, fmt.Errorf("derive a key for %q: %w: %s", purpose, ErrUnknownKey, kid)
	}
	return found.derive(purpose)
}
