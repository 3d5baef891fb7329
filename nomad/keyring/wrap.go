package keyring

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"crypto/subtle"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/open-nomad/open-nomad/internal/jwt"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/rootkey"
)

// keySize is the size of a data encryption key and of its wrapping key.
const keySize = 32

// rsaBits is the size of a generated RSA key.
const rsaBits = 2048

// maxWrappings is the maximum number of wrappings of a key.
const maxWrappings = 64

// ErrNoWrapper means that no configured wrapper can open a key.
var ErrNoWrapper = errors.New("no wrapping that this server can open")

// material is the wrapped part of a root key.
type material struct {
	dek []byte // data encryption key, the seed of the Ed25519 key
	rsa []byte // PKCS #1 DER, empty for a key that signs EdDSA
}

// Wrapper encrypts the material of root keys with its own key.
type Wrapper interface {
	// Provider returns the kind of wrapper; ID distinguishes wrappers of one kind.
	Provider() string
	ID() string
	// Wrap encrypts a data encryption key and, unless it is empty, an RSA key.
	Wrap(ctx context.Context, keyID string, dek, rsa []byte) (*rootkey.Wrapped, error)
	// Unwrap reverses Wrap.
	Unwrap(ctx context.Context, w *rootkey.Wrapped) (dek, rsa []byte, err error)
}

// NewRootKey creates a wrapped root key that signs EdDSA and is active as of now. The caller writes
// it to state; the ring uses it after Add.
func (r *Ring) NewRootKey(ctx context.Context, now time.Time) (*rootkey.Key, error) {
	return r.newRootKey(ctx, now, nil)
}

// NewRSAKey creates a root key that signs RS256 on request. It is inactive: the active key signs
// everything else.
func (r *Ring) NewRSAKey(ctx context.Context, now time.Time) (*rootkey.Key, error) {
	key, err := rsa.GenerateKey(rand.Reader, rsaBits)
	if err != nil {
		return nil, fmt.Errorf("make an RSA key: %w", err)
	}
	k, err := r.newRootKey(ctx, now, x509.MarshalPKCS1PrivateKey(key))
	if err == nil {
		k.State = rootkey.Inactive
	}
	return k, err
}

// newRootKey wraps new material with every active wrapper and opens each wrapping again: a key that
// cannot be opened would be lost when the process ends. If one wrapper fails, no key is made.
func (r *Ring) newRootKey(ctx context.Context, now time.Time, rsaKey []byte) (k *rootkey.Key, err error) {
	defer func() {
		var refused *wrapError
		if errors.As(err, &refused) {
			r.note(refused.by)
		} else if err == nil {
			r.note("")
		}
	}()
	k = &rootkey.Key{KeyID: nomad.NewID(), Algorithm: rootkey.EncryptionAlgorithmAES256GCM,
		CreateTime: now.UnixNano(), State: rootkey.Active}
	dek := make([]byte, keySize)
	rand.Read(dek) // never fails: crypto/rand ends the process instead
	signer, err := material{dek, rsaKey}.signer()
	if err != nil {
		return nil, err
	}
	k.PublicKey = publicBytes(signer.Public())
	for _, w := range r.wrappers {
		wrapped, err := w.Wrap(ctx, k.KeyID, dek, rsaKey)
		if err != nil {
			return nil, &wrapError{w.ID(), k.KeyID, err}
		}
		gotDEK, gotRSA, err := w.Unwrap(ctx, wrapped)
		if err == nil && (subtle.ConstantTimeCompare(gotDEK, dek) == 0 || subtle.ConstantTimeCompare(gotRSA, rsaKey) == 0) {
			err = errors.New("the unwrapped key differs from the wrapped one")
		}
		if err != nil {
			return nil, &wrapError{w.ID(), k.KeyID, fmt.Errorf("unwrap again: %w", err)}
		}
		k.WrappedKeys = append(k.WrappedKeys, wrapped)
	}
	return k, nil
}

// wrapError names the wrapper that failed to wrap a new key.
type wrapError struct {
	by, key string
	err     error
}

func (e *wrapError) Error() string {
	return fmt.Sprintf("wrap root key %s by %s: %v", e.key, e.by, e.err)
}
func (e *wrapError) Unwrap() error { return e.err }

// note records the wrapper that failed to wrap the last new key, or "".
func (r *Ring) note(by string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.unmade = by
}

// open unwraps a root key. It uses the built-in wrapper if that made one of the wrappings,
// otherwise all other wrappers in parallel; the first success counts.
func (r *Ring) open(ctx context.Context, k *rootkey.Key) (jwt.Key, error) {
	if k.Algorithm != rootkey.EncryptionAlgorithmAES256GCM {
		return jwt.Key{}, fmt.Errorf("unknown algorithm %q", k.Algorithm)
	}
	if len(k.WrappedKeys) > maxWrappings {
		return jwt.Key{}, fmt.Errorf("root key has %d wrappings, want at most %d", len(k.WrappedKeys), maxWrappings)
	}
	var failures []error
	unreachable := map[*rootkey.Wrapped]Wrapper{}
	for _, wrapped := range k.WrappedKeys {
		switch w := r.wrapper(wrapped); w.(type) {
		case nil:
		case AEAD:
			found, err := unwrapped(ctx, w, wrapped, k)
			if err == nil {
				return r.take(found)
			}
			failures = append(failures, err)
		default:
			unreachable[wrapped] = w
		}
	}
	if len(failures)+len(unreachable) == 0 {
		return jwt.Key{}, r.unopenable(k)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	type result struct {
		opened
		err error
	}
	results := make(chan result, len(unreachable))
	for wrapped, w := range unreachable {
		go func() {
			found, err := unwrapped(ctx, w, wrapped, k)
			results <- result{found, err}
		}()
	}
	for range unreachable {
		got := <-results
		if got.err == nil {
			return r.take(got.opened) // ctx ends the others
		}
		failures = append(failures, got.err)
	}
	slices.SortFunc(failures, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	return jwt.Key{}, errors.Join(failures...)
}

// unopenable returns the error that names the wrappers needed to open a key.
func (r *Ring) unopenable(k *rootkey.Key) error {
	by := k.WrappedBy()
	if len(by) == 0 {
		return fmt.Errorf("%w: the key has no wrapping", ErrNoWrapper)
	}
	return fmt.Errorf("%w: the key is wrapped by %s; configure that keyring again", ErrNoWrapper, strings.Join(by, ", "))
}

// unwrapped opens one wrapping and compares it with the public key of the record.
func unwrapped(ctx context.Context, w Wrapper, wrapped *rootkey.Wrapped, k *rootkey.Key) (opened, error) {
	var m material
	var signer crypto.Signer
	var err error
	if m.dek, m.rsa, err = w.Unwrap(ctx, wrapped); err == nil {
		signer, err = m.signer()
	}
	if err == nil && len(k.PublicKey) > 0 && !bytes.Equal(publicBytes(signer.Public()), k.PublicKey) {
		err = errors.New("unwrapped key does not match the public key")
	}
	var key jwt.Key
	if err == nil {
		key, err = jwt.NewKey(k.KeyID, signer)
	}
	if err != nil {
		return opened{}, fmt.Errorf("%s: %w", w.ID(), err)
	}
	return opened{key, m.dek}, nil
}

// opened is the usable form of a root key: it signs and encrypts.
type opened struct {
	key jwt.Key
	dek []byte
}

// take stores the encryption part and returns the signing part.
func (r *Ring) take(o opened) (jwt.Key, error) {
	if err := r.boxes.keep(o.key.ID, o.dek); err != nil {
		return jwt.Key{}, err
	}
	return o.key, nil
}

// wrapper returns the wrapper that can open a wrapping. The built-in wrapper is always available.
func (r *Ring) wrapper(wrapped *rootkey.Wrapped) Wrapper {
	if wrapped == nil {
		return nil
	}
	if own := (AEAD{}); wrapped.Provider == own.Provider() {
		return own
	}
	for _, w := range r.openers {
		if w.Provider() == wrapped.Provider && (w.ID() == wrapped.ProviderID || wrapped.ProviderID == "") {
			return w
		}
	}
	return nil
}

// signer returns the private key: the RSA part if there is one, otherwise the Ed25519 key derived
// from the data encryption key.
func (m material) signer() (crypto.Signer, error) {
	if len(m.rsa) > 0 {
		key, err := x509.ParsePKCS1PrivateKey(m.rsa)
		if err != nil {
			return nil, errors.New("RSA part is not PKCS #1 DER")
		}
		return key, nil
	}
	if len(m.dek) != keySize {
		return nil, fmt.Errorf("data encryption key has %d bytes, want %d", len(m.dek), keySize)
	}
	return ed25519.NewKeyFromSeed(m.dek), nil
}
