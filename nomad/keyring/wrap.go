package keyring

import (
	"crypto"
	"crypto/aes"
	"crypto/cipher"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"errors"
	"fmt"
	"time"

	"github.com/open-nomad/open-nomad/internal/jwt"
	"github.com/open-nomad/open-nomad/nomad"
)

// keySize is the size of a data encryption key and of what wraps it.
const keySize = 32

// NewRootKey makes a root key, wrapped, active as of now. It is in nobody's ring
// before it comes back through state.
func (r *Ring) NewRootKey(now time.Time) (*nomad.RootKey, error) {
	id := nomad.NewID()
	dek, kek := make([]byte, keySize), make([]byte, keySize)
	rand.Read(dek) // never fails: crypto/rand ends the process instead
	rand.Read(kek)
	sealed, err := seal(kek, dek)
	if err != nil {
		return nil, fmt.Errorf("wrap root key: %w", err)
	}
	return &nomad.RootKey{
		KeyID:      id,
		Algorithm:  nomad.EncryptionAlgorithmAES256GCM,
		CreateTime: now.UnixNano(),
		State:      nomad.RootKeyStateActive,
		WrappedKeys: []*nomad.WrappedKey{{
			Provider:                 string(nomad.KEKProviderAEAD),
			ProviderID:               string(nomad.KEKProviderAEAD),
			WrappedDataEncryptionKey: &nomad.BlobInfo{Ciphertext: sealed, KeyInfo: &nomad.KeyInfo{KeyId: id}},
			WrappedRSAKey:            &nomad.BlobInfo{},
			KeyEncryptionKey:         kek,
		}},
	}, nil
}

// open unwraps a root key with the first of its wrappings that we can open.
func open(k *nomad.RootKey) (jwt.Key, error) {
	if k.Algorithm != nomad.EncryptionAlgorithmAES256GCM {
		return jwt.Key{}, fmt.Errorf("unknown algorithm %q", k.Algorithm)
	}
	failures := []error{errors.New("no wrapping that this server can open")}
	for _, w := range k.WrappedKeys {
		if w == nil || w.Provider != string(nomad.KEKProviderAEAD) {
			continue
		}
		signer, err := unwrap(w)
		if err == nil {
			return jwt.NewKey(k.KeyID, signer)
		}
		failures = append(failures, err)
	}
	return jwt.Key{}, errors.Join(failures...)
}

// unwrap returns the private key that a wrapping holds: the RSA part if there is
// one, else the Ed25519 key that the data encryption key is the seed of.
func unwrap(w *nomad.WrappedKey) (crypto.Signer, error) {
	if blob := w.WrappedRSAKey; blob != nil && len(blob.Ciphertext) > 0 {
		der, err := unseal(w.KeyEncryptionKey, blob.Ciphertext)
		if err != nil {
			return nil, fmt.Errorf("RSA part: %w", err)
		}
		key, err := x509.ParsePKCS1PrivateKey(der)
		if err != nil {
			return nil, errors.New("RSA part is not PKCS #1 DER")
		}
		return key, nil
	}
	if w.WrappedDataEncryptionKey == nil {
		return nil, errors.New("no data encryption key")
	}
	dek, err := unseal(w.KeyEncryptionKey, w.WrappedDataEncryptionKey.Ciphertext)
	if err != nil {
		return nil, fmt.Errorf("data encryption key: %w", err)
	}
	if len(dek) != keySize {
		return nil, fmt.Errorf("data encryption key has %d bytes, want %d", len(dek), keySize)
	}
	return ed25519.NewKeyFromSeed(dek), nil
}

// seal encrypts text under key: nonce ‖ ciphertext ‖ tag.
func seal(key, text []byte) ([]byte, error) {
	gcm, err := newGCM(key)
	if err != nil {
		return nil, err
	}
	return gcm.Seal(nil, nil, text, nil), nil
}

// unseal is the inverse of seal.
func unseal(key, blob []byte) ([]byte, error) {
	gcm, err := newGCM(key)
	if err != nil {
		return nil, err
	}
	text, err := gcm.Open(nil, nil, blob, nil)
	if err != nil {
		return nil, errors.New("cannot be decrypted")
	}
	return text, nil
}

// newGCM returns AES-256-GCM that puts a random nonce before the ciphertext.
func newGCM(key []byte) (cipher.AEAD, error) {
	if len(key) != keySize {
		return nil, fmt.Errorf("wrapping key has %d bytes, want %d", len(key), keySize)
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCMWithRandomNonce(block)
}
