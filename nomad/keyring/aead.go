package keyring

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"errors"
	"fmt"

	"github.com/open-nomad/open-nomad/nomad/rootkey"
)

// AEAD is the built-in wrapper: AES-256-GCM under a random 32-byte key that is stored next to the
// ciphertext. Whoever can read one can read the other.
type AEAD struct{ Name string }

// Provider implements Wrapper.
func (AEAD) Provider() string { return string(rootkey.KEKProviderAEAD) }

// ID implements Wrapper.
func (a AEAD) ID() string {
	if a.Name == "" {
		return a.Provider()
	}
	return a.Provider() + "." + a.Name
}

// Wrap implements Wrapper.
func (a AEAD) Wrap(_ context.Context, keyID string, dek, rsa []byte) (*rootkey.Wrapped, error) {
	kek := make([]byte, keySize)
	rand.Read(kek)
	w := &rootkey.Wrapped{Provider: a.Provider(), ProviderID: a.ID(), KeyEncryptionKey: kek, WrappedRSAKey: &rootkey.BlobInfo{}}
	var err error
	if w.WrappedDataEncryptionKey, err = sealed(kek, keyID, dek); err != nil {
		return nil, err
	}
	if len(rsa) > 0 {
		w.WrappedRSAKey, err = sealed(kek, keyID, rsa)
	}
	return w, err
}

// Unwrap implements Wrapper.
func (AEAD) Unwrap(_ context.Context, w *rootkey.Wrapped) (dek, rsa []byte, err error) {
	if w.WrappedDataEncryptionKey == nil {
		return nil, nil, errors.New("no data encryption key")
	}
	if dek, err = unseal(w.KeyEncryptionKey, w.WrappedDataEncryptionKey.Ciphertext); err != nil {
		return nil, nil, fmt.Errorf("data encryption key: %w", err)
	}
	if blob := w.WrappedRSAKey; blob != nil && len(blob.Ciphertext) > 0 {
		if rsa, err = unseal(w.KeyEncryptionKey, blob.Ciphertext); err != nil {
			return nil, nil, fmt.Errorf("RSA part: %w", err)
		}
	}
	return dek, rsa, nil
}

// sealed encrypts text under key: nonce ‖ ciphertext ‖ tag.
func sealed(key []byte, keyID string, text []byte) (*rootkey.BlobInfo, error) {
	gcm, err := newGCM(key)
	if err != nil {
		return nil, err
	}
	return &rootkey.BlobInfo{Ciphertext: gcm.Seal(nil, nil, text, nil), KeyInfo: &rootkey.KeyInfo{KeyId: keyID}}, nil
}

// unseal reverses sealed.
func unseal(key, text []byte) ([]byte, error) {
	gcm, err := newGCM(key)
	if err != nil {
		return nil, err
	}
	out, err := gcm.Open(nil, nil, text, nil)
	if err != nil {
		return nil, errors.New("cannot be decrypted")
	}
	return out, nil
}

// newGCM returns AES-256-GCM with the nonce in front of the ciphertext.
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
