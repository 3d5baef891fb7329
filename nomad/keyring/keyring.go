// Package keyring holds the unwrapped root keys of a server. It selects the key that signs and the
// public keys that verify. The caller passes it the key records of state. It never watches state,
// writes nothing and starts no goroutine.
//
// The states of a root key are those of its record in state:
//
//	             prepublished ──▶ active ──▶ inactive | rekeying ──▶ removed
//	signs             no            yes            no                  no
//	verifies          yes           yes            yes                 no
//	in PublicKeys     yes           yes            yes                 no
//
// The state deprecated, of older servers: the key verifies and is not in PublicKeys.
//
// The wrapped form of a key is that of Nomad 2.0. The data encryption key is 32 random bytes. It is
// encrypted by AES-256-GCM under another key of 32 random bytes, which the built-in wrapper "aead"
// stores next to it. The blob is nonce ‖ ciphertext ‖ tag, without additional data. The data
// encryption key is the seed of the Ed25519 signing key. A key of another implementation may have
// an RSA part in PKCS #1 DER; it then signs RS256. Keys of this package have none.
//
// A ring may have several wrappers. Each new key is wrapped by all active ones, and one of them is
// enough to open it. Some wrappers call an external service, so that a key may be closed: its
// record is known, but its material is not available. A closed key never signs. It verifies, and is
// in PublicKeys, if its record has the public key. Records of this package always have it.
//
//	unknown ──Add──▶ open ◀──Add (tried again)── closed ◀──Add (not opened)── unknown
//
// A second kind of root key signs RS256 on request (RSASigner). It has an RSA part and its own ID,
// and is inactive.
//
// An open key encrypts and decrypts variables with AES-256-GCM under its data encryption key; the
// key ID is authenticated. State selects the key that encrypts.
//
// Other secrets are derived from an open key (Derive) and need no records of their own. The signing
// keys of SPIFFE identities are such secrets.
//
// Nothing in the package prints a key.
package keyring

import (
	"cmp"
	"context"
	"crypto"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/open-nomad/open-nomad/internal/jwt"
	"github.com/open-nomad/open-nomad/nomad/rootkey"
)

// ErrNoKey means that no signing key became active in time.
var ErrNoKey = errors.New("keyring has not been initialized yet")

// ErrUnknownKey means that the ring has no key with the ID.
var ErrUnknownKey = errors.New("no such key in the keyring")

// ErrClosed means that a key is known but could not be opened so far.
var ErrClosed = errors.New("root key is closed")

// errOpening is the reason for a closed key that is being opened for the first time.
var errOpening = errors.New("opening in progress")

// Config of a Ring.
type Config struct {
	// Wrappers encrypt new keys. Each key is wrapped by all of them. Default: AEAD.
	Wrappers []Wrapper
	// Openers only open keys that they wrapped earlier.
	Openers []Wrapper
	Log     *slog.Logger
}

// Ring is the set of unwrapped root keys. It is safe for concurrent use.
type Ring struct {
	log      *slog.Logger
	wrappers []Wrapper // for new keys
	openers  []Wrapper // all, including wrappers

	mu      sync.RWMutex
	keys    map[string]*entry
	active  string
	changed chan struct{} // closed when a key is added, tried or activated
	removed uint64        // number of removed keys
	unmade  string        // wrapper that failed to wrap the last new key, or ""

	boxes boxes // encrypt variables
}

// entry is one root key.
type entry struct {
	key     jwt.Key       // zero while closed
	public  jwt.PublicKey // zero while unknown
	state   rootkey.State
	created int64
	index   uint64 // index of the record with this state
	closed  error  // reason, nil if open
	by      []string
}

// New returns an empty ring.
func New(c Config) *Ring {
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if len(c.Wrappers) == 0 {
		c.Wrappers = []Wrapper{AEAD{}}
	}
	return &Ring{log: c.Log, wrappers: c.Wrappers, openers: slices.Concat(c.Wrappers, c.Openers), keys: map[string]*entry{},
		changed: make(chan struct{})}
}

// Add stores a root key from state: its material once, its state each time. If the key cannot be
// opened, Add returns the reason and the key remains closed until the next Add.
func (r *Ring) Add(ctx context.Context, k *rootkey.Key) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	e := &entry{state: k.State, created: k.CreateTime, index: k.ModifyIndex, by: k.WrappedBy()}
	key, known := r.Signer(k.KeyID)
	if known != nil {
		r.announce(k)
		var err error
		if key, err = r.open(ctx, k); err != nil {
			e.closed = fmt.Errorf("open root key %s: %w", k.KeyID, err)
			e.public, _ = jwt.ReadPublicKey(k.KeyID, k.PublicKey) // zero if the record has no valid one
		}
	}
	if e.closed == nil {
		e.key, e.public = key, key.Public()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if old := r.keys[k.KeyID]; e.closed != nil && old != nil && old.closed == nil {
		return nil // opened by another call in the meantime
	}
	r.keys[k.KeyID] = e
	if known != nil || k.State == rootkey.Active && r.active != k.KeyID {
		close(r.changed)
		r.changed = make(chan struct{})
	}
	switch {
	case k.State == rootkey.Active && r.active != k.KeyID:
		r.active = k.KeyID
		r.log.Debug("root key is active", "key", k.KeyID)
	case k.State != rootkey.Active && r.active == k.KeyID:
		r.active = ""
	}
	return e.closed
}

// announce stores a key that is about to be opened. In the meantime its signatures can be verified
// if its record has the public key.
func (r *Ring) announce(k *rootkey.Key) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.keys[k.KeyID] == nil {
		public, _ := jwt.ReadPublicKey(k.KeyID, k.PublicKey) // zero if the record has no valid one
		r.keys[k.KeyID] = &entry{public: public, state: k.State, created: k.CreateTime, closed: errOpening, by: k.WrappedBy()}
	}
}

// Update stores the state of a key and reports whether it is open. If not, the caller opens it with
// Add.
func (r *Ring) Update(ctx context.Context, k *rootkey.Key) bool {
	if _, err := r.Signer(k.KeyID); err == nil {
		return r.Add(ctx, k) == nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if old := r.keys[k.KeyID]; old != nil {
		e := *old
		e.state, e.index = k.State, k.ModifyIndex
		r.keys[k.KeyID] = &e
		switch {
		case k.State == rootkey.Active:
			r.active = k.KeyID
		case r.active == k.KeyID:
			r.active = ""
		}
	}
	return false
}

// Settle waits until each of the keys is open or has been tried, or ctx ends.
func (r *Ring) Settle(ctx context.Context, keys []*rootkey.Key) error {
	for {
		r.mu.RLock()
		changed := r.changed
		settled := !slices.ContainsFunc(keys, func(k *rootkey.Key) bool {
			e := r.keys[k.KeyID]
			return e == nil || e.closed == errOpening || e.closed == nil && e.index < k.ModifyIndex
		})
		r.mu.RUnlock()
		if settled {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// IDs lists all keys, including closed ones.
func (r *Ring) IDs() []string {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return slices.Collect(maps.Keys(r.keys))
}

// Closed returns why a key is not open, or "" if it is open.
func (r *Ring) Closed(kid string) string {
	r.mu.RLock()
	defer r.mu.RUnlock()
	switch e := r.keys[kid]; {
	case e == nil:
		return "not loaded yet"
	case e.closed != nil:
		return e.closed.Error()
	}
	return ""
}

// Count returns the number of open and of closed keys.
func (r *Ring) Count() (open, closed int) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	for _, e := range r.keys {
		if e.closed != nil {
			closed++
		}
	}
	return len(r.keys) - closed, closed
}

// Remove removes a key. Tokens that it signed no longer verify.
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

// Removals returns the number of removed keys. If it changes, the key of a cached token may have
// been removed.
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
	switch {
	case e == nil:
		return jwt.Key{}, fmt.Errorf("%w: %s", ErrUnknownKey, kid)
	case e.closed != nil:
		return jwt.Key{}, e.sealed(kid)
	}
	return e.key, nil
}

// ActiveSigner returns the active signing key. It waits for one until ctx ends.
func (r *Ring) ActiveSigner(ctx context.Context) (jwt.Key, error) {
	for {
		r.mu.RLock()
		e, id, changed, unmade := r.keys[r.active], r.active, r.changed, r.unmade
		r.mu.RUnlock()
		if e != nil && e.closed == nil {
			return e.key, nil
		}
		select {
		case <-changed:
			continue
		case <-ctx.Done():
		}
		switch {
		case e != nil:
			return jwt.Key{}, fmt.Errorf("%w: %w: %w", ErrNoKey, e.sealed(id), ctx.Err())
		case unmade != "":
			return jwt.Key{}, fmt.Errorf("%w: create the first root key with %s: %w", ErrNoKey, unmade, ctx.Err())
		}
		return jwt.Key{}, fmt.Errorf("%w: %w", ErrNoKey, ctx.Err())
	}
}

// AwaitActive waits until the key is active, or ctx ends.
func (r *Ring) AwaitActive(ctx context.Context, kid string) error {
	for {
		r.mu.RLock()
		e, active, changed := r.keys[kid], r.active == kid, r.changed
		r.mu.RUnlock()
		if active && e != nil && e.closed == nil {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("root key %s is not active yet: %w", kid, ctx.Err())
		}
	}
}

// RSASigner returns the newest key that signs RS256. It waits for one until ctx ends.
func (r *Ring) RSASigner(ctx context.Context) (jwt.Key, error) {
	for {
		r.mu.RLock()
		var newest *entry
		shut := ErrNoKey
		for id, e := range r.keys {
			if e.closed != nil && e.public.Alg == jwt.RS256 {
				shut = fmt.Errorf("%w: %w", ErrNoKey, e.sealed(id))
			}
			usable := e.key.Alg == jwt.RS256 && e.state != rootkey.Deprecated && e.state != rootkey.Prepublished
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
			return jwt.Key{}, fmt.Errorf("no key for RS256: %w: %w", shut, ctx.Err())
		}
	}
}

// newer orders keys by age, and by ID within the same age.
func newer(a, b *entry) bool {
	return a.created > b.created || a.created == b.created && a.key.ID > b.key.ID
}

// PublicKey returns the key that verifies tokens with the key ID. It never waits: the ID of an
// unverified token may be made up.
func (r *Ring) PublicKey(kid string) (jwt.PublicKey, bool) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	e := r.keys[kid]
	if e == nil || e.public.Crypto() == nil {
		return jwt.PublicKey{}, false
	}
	return e.public, true
}

// Has reports whether the ring has a key with the ID, open or closed.
func (r *Ring) Has(kid string) bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.keys[kid] != nil
}

// PublicKeys returns the keys for external verifiers, oldest first.
func (r *Ring) PublicKeys() []*rootkey.PublicKey {
	r.mu.RLock()
	defer r.mu.RUnlock()
	out := make([]*rootkey.PublicKey, 0, len(r.keys))
	for id, e := range r.keys {
		if e.state == rootkey.Deprecated || e.public.Crypto() == nil {
			continue
		}
		k := &rootkey.PublicKey{KeyID: id, Algorithm: e.public.Alg, Use: rootkey.PubKeyUseSig, CreateTime: e.created}
		k.PublicKey = publicBytes(e.public.Crypto())
		out = append(out, k)
	}
	slices.SortFunc(out, func(a, b *rootkey.PublicKey) int {
		return cmp.Or(cmp.Compare(a.CreateTime, b.CreateTime), cmp.Compare(a.KeyID, b.KeyID))
	})
	return out
}

// sealed returns the error of a closed key. It names the wrappers that can open the key; the reason
// is logged elsewhere.
func (e *entry) sealed(id string) error {
	by := "a keyring that is not configured"
	if len(e.by) > 0 {
		by = strings.Join(e.by, " or ")
	}
	return fmt.Errorf("%w: %s waits for %s", ErrClosed, id, by)
}

// publicBytes returns a public key in the form of rootkey.PublicKey and rootkey.Key.
func publicBytes(key crypto.PublicKey) []byte {
	switch public := key.(type) {
	case ed25519.PublicKey:
		return public
	case *rsa.PublicKey:
		return x509.MarshalPKCS1PublicKey(public)
	}
	return nil
}
