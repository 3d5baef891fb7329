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
// A ring may have several wrappers: each new key is wrapped by all active ones, and
// one of them is enough to open it. Some ask a service elsewhere, so a key may be
// closed: known, its material not. A closed key signs nothing; it verifies, and is in
// PublicKeys, when its record has the public half, as ours have.
//
//	unknown ──Add──▶ open ◀──Add (tried again)── closed ◀──Add (not opened)── unknown
//
// A second kind of key signs RS256 for those who ask for it (RSASigner): it has an
// RSA part, an ID of its own, and is inactive.
//
// An open key encrypts and decrypts variables: AES-256-GCM under its data encryption
// key, bound to its ID. Which one encrypts, state says.
//
// Nothing here prints a key.
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
	"github.com/open-nomad/open-nomad/nomad"
)

// ErrNoKey means that no signing key was active within the caller's time.
var ErrNoKey = errors.New("keyring has not been initialized yet")

// ErrUnknownKey means that the ring has no key with the ID.
var ErrUnknownKey = errors.New("no such key in the keyring")

// ErrClosed means that a key is known and could not be opened so far.
var ErrClosed = errors.New("root key is closed")

// errOpening is why a key is closed that was not tried yet.
var errOpening = errors.New("it is being opened")

// Config of a Ring.
type Config struct {
	// Wrappers encrypt new keys, each of them by all. Default: AEAD.
	Wrappers []Wrapper
	// Openers only open what they wrapped once.
	Openers []Wrapper
	Log     *slog.Logger
}

// Ring is the set of unwrapped root keys. It is safe for many goroutines.
type Ring struct {
	log      *slog.Logger
	wrappers []Wrapper // of new keys
	openers  []Wrapper // all

	mu      sync.RWMutex
	keys    map[string]*entry
	active  string
	changed chan struct{} // closed when a key comes, is tried or becomes active
	removed uint64        // how many keys were removed
	unmade  string        // why the last new key could not be made, "" when it was

	boxes boxes // encrypt variables
}

// entry is one root key.
type entry struct {
	key     jwt.Key       // the zero value while it is closed
	public  jwt.PublicKey // the zero value while it is not known
	state   nomad.RootKeyState
	created int64
	index   uint64 // of the record that the state is from
	closed  error  // why it is not open, nil when it is
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
	return &Ring{log: c.Log, wrappers: c.Wrappers, openers: slices.Concat(c.Wrappers, c.Openers), keys: map[string]*entry{}, changed: make(chan struct{})}
}

// Add takes over a root key as state has it: its material, once, and its state,
// each time. When it cannot be opened the error says why, and the key is closed until
// it is added again.
func (r *Ring) Add(ctx context.Context, k *nomad.RootKey) error {
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
			e.public, _ = jwt.ReadPublicKey(k.KeyID, k.PublicKey) // the zero value when the record has none of use
		}
	}
	if e.closed == nil {
		e.key, e.public = key, key.Public()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if old := r.keys[k.KeyID]; e.closed != nil && old != nil && old.closed == nil {
		return nil // opened meanwhile, by another
	}
	r.keys[k.KeyID] = e
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
	return e.closed
}

// announce makes a key known that is about to be opened: while that takes its time,
// what it signed is verified if its record has the public half.
func (r *Ring) announce(k *nomad.RootKey) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.keys[k.KeyID] == nil {
		public, _ := jwt.ReadPublicKey(k.KeyID, k.PublicKey) // the zero value when the record has none of use
		r.keys[k.KeyID] = &entry{public: public, state: k.State, created: k.CreateTime, closed: errOpening, by: k.WrappedBy()}
	}
}

// Update takes over the state of a key and says whether it is open; if not, Add is
// to open it.
func (r *Ring) Update(ctx context.Context, k *nomad.RootKey) bool {
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
		case k.State == nomad.RootKeyStateActive:
			r.active = k.KeyID
		case r.active == k.KeyID:
			r.active = ""
		}
	}
	return false
}

// Settle waits until each of the keys, as the records have them, is open or was
// tried, within ctx.
func (r *Ring) Settle(ctx context.Context, keys []*nomad.RootKey) error {
	for {
		r.mu.RLock()
		changed := r.changed
		settled := !slices.ContainsFunc(keys, func(k *nomad.RootKey) bool {
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

// IDs lists all keys, the closed ones too.
func (r *Ring) IDs() []string {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return slices.Collect(maps.Keys(r.keys))
}

// Closed says why a key is not open, "" when it is.
func (r *Ring) Closed(kid string) string {
	r.mu.RLock()
	defer r.mu.RUnlock()
	switch e := r.keys[kid]; {
	case e == nil:
		return "not read yet"
	case e.closed != nil:
		return e.closed.Error()
	}
	return ""
}

// Count returns how many keys are open, and how many are not.
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
	switch {
	case e == nil:
		return jwt.Key{}, fmt.Errorf("%w: %s", ErrUnknownKey, kid)
	case e.closed != nil:
		return jwt.Key{}, e.sealed(kid)
	}
	return e.key, nil
}

// ActiveSigner returns the key that signs now; while there is none it waits for
// one, within ctx.
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
			return jwt.Key{}, fmt.Errorf("%w: the first root key could not be made by %s: %w", ErrNoKey, unmade, ctx.Err())
		}
		return jwt.Key{}, fmt.Errorf("%w: %w", ErrNoKey, ctx.Err())
	}
}

// AwaitActive waits, within ctx, until the key signs now.
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
			return fmt.Errorf("root key %s does not sign yet: %w", kid, ctx.Err())
		}
	}
}

// RSASigner returns the newest key that signs RS256; while there is none it waits
// for one, within ctx.
func (r *Ring) RSASigner(ctx context.Context) (jwt.Key, error) {
	for {
		r.mu.RLock()
		var newest *entry
		shut := ErrNoKey
		for id, e := range r.keys {
			if e.closed != nil && e.public.Alg == jwt.RS256 {
				shut = fmt.Errorf("%w: %w", ErrNoKey, e.sealed(id))
			}
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
			return jwt.Key{}, fmt.Errorf("no key that signs RS256: %w: %w", shut, ctx.Err())
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
	r.mu.RLock()
	defer r.mu.RUnlock()
	e := r.keys[kid]
	if e == nil || e.public.Crypto() == nil {
		return jwt.PublicKey{}, false
	}
	return e.public, true
}

// Knows says whether there is a key with the ID, open or closed.
func (r *Ring) Knows(kid string) bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.keys[kid] != nil
}

// PublicKeys returns what outside verifiers need, oldest first.
func (r *Ring) PublicKeys() []*nomad.KeyringPublicKey {
	r.mu.RLock()
	defer r.mu.RUnlock()
	out := make([]*nomad.KeyringPublicKey, 0, len(r.keys))
	for id, e := range r.keys {
		if e.state == nomad.RootKeyStateDeprecated || e.public.Crypto() == nil {
			continue
		}
		k := &nomad.KeyringPublicKey{KeyID: id, Algorithm: e.public.Alg, Use: nomad.PubKeyUseSig, CreateTime: e.created}
		k.PublicKey = publicBytes(e.public.Crypto())
		out = append(out, k)
	}
	slices.SortFunc(out, func(a, b *nomad.KeyringPublicKey) int {
		return cmp.Or(cmp.Compare(a.CreateTime, b.CreateTime), cmp.Compare(a.KeyID, b.KeyID))
	})
	return out
}

// sealed is the error of a closed key: it names who should open it, and no more; the
// reason is for the log.
func (e *entry) sealed(id string) error {
	by := "nobody that this server knows"
	if len(e.by) > 0 {
		by = strings.Join(e.by, " or ")
	}
	return fmt.Errorf("%w: %s waits for %s", ErrClosed, id, by)
}

// publicBytes is a public key as KeyringPublicKey and RootKey have it.
func publicBytes(key crypto.PublicKey) []byte {
	switch public := key.(type) {
	case ed25519.PublicKey:
		return public
	case *rsa.PublicKey:
		return x509.MarshalPKCS1PublicKey(public)
	}
	return nil
}
