package keyring

import (
	"context"
	"crypto"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"errors"
	"fmt"
	"time"

	"github.com/open-nomad/open-nomad/internal/jwt"
	"github.com/open-nomad/open-nomad/nomad"
)

// keySize is the size of a data encryption key and of what wraps it.
const keySize = 32

// rsaBits is the size of an RSA part.
const rsaBits = 2048

// material is what is wrapped of a root key.
type material struct {
	dek []byte // data encryption key, the seed of the Ed25519 key
	rsa []byte // PKCS #1 DER, empty for a key that signs EdDSA
}

// Wrapper encrypts the material of root keys by a key of its own.
type Wrapper interface {
	// Provider is the kind of wrapper; ID tells those of a kind apart.
	Provider() string
	ID() string
	// Wrap encrypts a data encryption key and, unless it is empty, an RSA key.
	Wrap(ctx context.Context, keyID string, dek, rsa []byte) (*nomad.WrappedKey, error)
	// Unwrap is the inverse of Wrap.
	Unwrap(ctx context.Context, w *nomad.WrappedKey) (dek, rsa []byte, err error)
}

// NewRootKey makes a root key that signs EdDSA, wrapped, active as of now. It is in
// nobody's ring before it comes back through state.
func (r *Ring) NewRootKey(ctx context.Context, now time.Time) (*nomad.RootKey, error) {
	return r.newRootKey(ctx, now, nil)
}

// NewRSAKey makes a root key that signs RS256 for those who ask for it. It is
// inactive: the active one signs whatever is not asked for.
func (r *Ring) NewRSAKey(ctx context.Context, now time.Time) (*nomad.RootKey, error) {
	key, err := rsa.GenerateKey(rand.Reader, rsaBits)
	if err != nil {
		return nil, fmt.Errorf("make an RSA key: %w", err)
	}
	k, err := r.newRootKey(ctx, now, x509.MarshalPKCS1PrivateKey(key))
	if err == nil {
		k.State = nomad.RootKeyStateInactive
	}
	return k, err
}

// newRootKey wraps new material by every wrapper of the ring.
func (r *Ring) newRootKey(ctx context.Context, now time.Time, rsaKey []byte) (*nomad.RootKey, error) {
	k := &nomad.RootKey{KeyID: nomad.NewID(), Algorithm: nomad.EncryptionAlgorithmAES256GCM,
		CreateTime: now.UnixNano(), State: nomad.RootKeyStateActive}
	dek := make([]byte, keySize)
	rand.Read(dek) // never fails: crypto/rand ends the process instead
	for _, w := range r.wrappers {
		wrapped, err := w.Wrap(ctx, k.KeyID, dek, rsaKey)
		if err != nil {
			return nil, fmt.Errorf("wrap root key %s by %s: %w", k.KeyID, w.ID(), err)
		}
		k.WrappedKeys = append(k.WrappedKeys, wrapped)
	}
	return k, nil
}

// open unwraps a root key with the first of its wrappings that we can open.
func (r *Ring) open(ctx context.Context, k *nomad.RootKey) (jwt.Key, error) {
	if k.Algorithm != nomad.EncryptionAlgorithmAES256GCM {
		return jwt.Key{}, fmt.Errorf("unknown algorithm %q", k.Algorithm)
	}
	failures := []error{errors.New("no wrapping that this server can open")}
	for _, wrapped := range k.WrappedKeys {
		w := r.wrapper(wrapped)
		if w == nil {
			continue
		}
		var m material
		var err error
		if m.dek, m.rsa, err = w.Unwrap(ctx, wrapped); err == nil {
			var signer crypto.Signer
			if signer, err = m.signer(); err == nil {
				err = r.boxes.keep(k.KeyID, m.dek)
			}
			if err == nil {
				return jwt.NewKey(k.KeyID, signer)
			}
		}
		failures = append(failures, fmt.Errorf("%s: %w", w.ID(), err))
	}
	return jwt.Key{}, errors.Join(failures...)
}

// wrapper finds who can open a wrapping; what the built-in one made can always be
// opened.
func (r *Ring) wrapper(wrapped *nomad.WrappedKey) Wrapper {
	if wrapped == nil {
		return nil
	}
	for _, w := range r.wrappers {
		if w.Provider() == wrapped.Provider && (w.ID() == wrapped.ProviderID || wrapped.ProviderID == "") {
			return w
		}
	}
	if own := (AEAD{}); wrapped.Provider == own.Provider() {
		return own
	}
	return nil
}

// signer returns the private key: the RSA part if there is one, else the Ed25519
// key that the data encryption key is the seed of.
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
