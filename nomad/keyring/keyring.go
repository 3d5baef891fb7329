// Package keyring holds the unwrapped root keys of a server: which key signs
// now, which public keys verify. What is in state it is handed; it watches
// nothing, writes nothing and starts no goroutine.
//
// The states of a root key are those of its record in state; the ring follows:
//
//	             prepublished ──▶ active ──▶ inactive | rekeying ──▶ removed
//	signs             no            yes            no                  no
//	verifies          yes           yes            yes                 no
//	in PublicKeys     yes           yes            yes                 no
//
// (deprecated, a state of older servers: verifies, is not in PublicKeys.)
//
// Wrapped form of a key (compat/raft-fsm.md section 6): the data encryption key,
// 32 random bytes, sealed by AES-256-GCM under a key of 32 random bytes that the
// built-in wrapper "aead" keeps beside it; blob = nonce ‖ ciphertext ‖ tag, no
// additional data. The Ed25519 key is made from the data encryption key as its
// seed. A key of another server may have an RSA part, PKCS #1 DER; it then signs
// RS256. Ours have none.
//
// A ring may have several wrappers: each new key is wrapped by all of them, and one
// of them is enough to open it.
//
// A second kind of key signs RS256 for those who ask for it (RSASigner): it has an
// RSA part, an ID of its own, and is inactive.
//
// The active key encrypts variables (Encrypt): AES-256-GCM under its data encryption
// key, bound to its ID; any open key decrypts what it encrypted once (Decrypt).
//
// Nothing here prints a key.
package keyring

import (
	"cmp"
	"context"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"

	"github.com/open-nomad/open-nomad/internal/jwt"
	"github.com/open-nomad/open-nomad/nomad"
)

// ErrNoKey means that no signing key was active within the caller's time.
var ErrNoKey = errors.New("keyring has not been initialized yet")

// ErrUnknownKey means that the ring has no key with the ID.
var ErrUnknownKey = errors.New("no such key in the keyring")

// Config of a Ring.
type Config struct {
	// Wrappers encrypt new keys, each of them by all. Default: AEAD.
	Wrappers []Wrapper
	Log      *slog.Logger
}

// Ring is the set of unwrapped root keys. It is safe for many goroutines.
type Ring struct {
	log      *slog.Logger
	wrappers []Wrapper

	mu      sync.RWMutex
	keys    map[string]*entry
	active  string
	changed chan struct{} // closed when a key comes or becomes active
	removed uint64        // how many keys were removed

	boxes boxes // encrypt variables
}

// entry is one unwrapped root key.
type entry struct {
	key     jwt.Key
	state   nomad.RootKeyState
	created int64
}

// New returns an empty ring.
func New(c Config) *Ring {
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if len(c.Wrappers) == 0 {
		c.Wrappers = []Wrapper{AEAD{}}
	}
	return &Ring{log: c.Log, wrappers: c.Wrappers, keys: map[string]*entry{}, changed: make(chan struct{})}
}

// Add takes over a root key as state has it: its material, once, and its state,
// each time.
func (r *Ring) Add(ctx context.Context, k *nomad.RootKey) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	key, known := r.Signer(k.KeyID)
	if known != nil {
		var err error
		if key, err = r.open(ctx, k); err != nil {
			return fmt.Errorf("unwrap root key %s: %w", k.KeyID, err)
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.keys[k.KeyID] = &entry{key, k.State, k.CreateTime}
	if known != nil || k.State == nomad.RootKeyStateActive && r.active != k.KeyID {
		close(r.changed)
		r.changed = make(chan struct{})
	}
	switch {
	case k.State == nomad.RootKeyStateActive && r.active != k.KeyID:
		r.active = k.KeyID
		r.log.Debug("root key is active", "key", k.KeyID)
	case k.State != nomad.RootKeyStateActive && r.active == k.KeyID:
		r.active = ""
	}
	return nil
}

// Remove forgets a key. Tokens that it signed verify no more.
func (r *Ring) Remove(kid string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.keys, kid)
	r.boxes.drop(kid)
	r.removed++
	if r.active == kid {
		r.active = ""
	}
}

// Removals returns how often a key was removed: what was verified at another count
// may have been signed by a key that is no longer ours.
func (r *Ring) Removals() uint64 {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.removed
}

// Signer returns the key with the ID.
func (r *Ring) Signer(kid string) (jwt.Key, error) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	e := r.keys[kid]
	if e == nil {
		return jwt.Key{}, fmt.Errorf("%w: %s", ErrUnknownKey, kid)
	}
	return e.key, nil
}

// ActiveSigner returns the key that signs now; while there is none it waits for
// one, within ctx.
func (r *Ring) ActiveSigner(ctx context.Context) (jwt.Key, error) {
	for {
		r.mu.RLock()
		e, changed := r.keys[r.active], r.changed
		r.mu.RUnlock()
		if e != nil {
			return e.key, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return jwt.Key{}, fmt.Errorf("%w: %w", ErrNoKey, ctx.Err())
		}
	}
}

// RSASigner returns the newest key that signs RS256; while there is none it waits
// for one, within ctx.
func (r *Ring) RSASigner(ctx context.Context) (jwt.Key, error) {
	for {
		r.mu.RLock()
		var newest *entry
		for _, e := range r.keys {
			usable := e.key.Alg == jwt.RS256 && e.state != nomad.RootKeyStateDeprecated && e.state != nomad.RootKeyStatePrepublished
			if usable && (newest == nil || newer(e, newest)) {
				newest = e
			}
		}
		changed := r.changed
		r.mu.RUnlock()
		if newest != nil {
			return newest.key, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return jwt.Key{}, fmt.Errorf("%w for RS256: %w", ErrNoKey, ctx.Err())
		}
	}
}

// newer orders keys by their age, those of the same age somehow.
func newer(a, b *entry) bool {
	return a.created > b.created || a.created == b.created && a.key.ID > b.key.ID
}

// PublicKey returns the key that verifies tokens with the key ID. An unknown one
// is refused at once: nobody waits for what a stranger made up.
func (r *Ring) PublicKey(kid string) (jwt.PublicKey, bool) {
	key, err := r.Signer(kid)
	return key.Public(), err == nil
}

// PublicKeys returns what outside verifiers need, oldest first.
func (r *Ring) PublicKeys() []*nomad.KeyringPublicKey {
	r.mu.RLock()
	defer r.mu.RUnlock()
	out := make([]*nomad.KeyringPublicKey, 0, len(r.keys))
	for id, e := range r.keys {
		if e.state == nomad.RootKeyStateDeprecated {
			continue
		}
		k := &nomad.KeyringPublicKey{KeyID: id, Algorithm: e.key.Alg, Use: nomad.PubKeyUseSig, CreateTime: e.created}
		switch public := e.key.Public().Crypto().(type) {
		case ed25519.PublicKey:
			k.PublicKey = public
		case *rsa.PublicKey:
			k.PublicKey = x509.MarshalPKCS1PublicKey(public)
		}
		out = append(out, k)
	}
	slices.SortFunc(out, func(a, b *nomad.KeyringPublicKey) int {
		return cmp.Or(cmp.Compare(a.CreateTime, b.CreateTime), cmp.Compare(a.KeyID, b.KeyID))
	})
	return out
}
