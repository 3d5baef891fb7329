package keyring

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"errors"
	"fmt"
	"sync"
)

// ErrUndecryptable means that data is not the output of its key.
var ErrUndecryptable = errors.New("data cannot be decrypted: it is corrupt or belongs to another key")

// boxes holds the data encryption keys of open root keys as functions, so that they cannot be
// printed.
type boxes struct {
	mu   sync.RWMutex
	byID map[string]box
}

// box encrypts and decrypts with one key, and derives other keys from it. A function prints as its
// address.
type box struct {
	seal   func(text []byte) []byte
	open   func(data []byte) ([]byte, error)
	derive func(purpose string) ([]byte, error)
}

// newBox returns the cipher for variables, as in Nomad 2.0: AES-256-GCM, nonce ‖ ciphertext ‖ tag,
// with the key ID as additional data.
func newBox(kid string, dek []byte) (box, error) {
	if len(dek) != keySize {
		return box{}, fmt.Errorf("data encryption key has %d bytes, want %d", len(dek), keySize)
	}
	block, err := aes.NewCipher(dek)
	if err != nil {
		return box{}, err
	}
	gcm, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		return box{}, err
	}
	bound := []byte(kid)
	return box{
		seal: func(text []byte) []byte { return gcm.Seal(nil, nil, text, bound) },
		open: func(data []byte) ([]byte, error) { return gcm.Open(nil, nil, data, bound) },
		derive: func(purpose string) ([]byte, error) {
			return hkdf.Key(sha256.New, dek, bound, purpose, keySize)
		},
	}, nil
}

// keep stores the data encryption key of an open root key. An existing one is kept.
func (b *boxes) keep(kid string, dek []byte) error {
	made, err := newBox(kid, dek)
	if err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.byID == nil {
		b.byID = map[string]box{}
	}
	if _, known := b.byID[kid]; !known {
		b.byID[kid] = made
	}
	return nil
}

func (b *boxes) drop(kid string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.byID, kid)
}

func (b *boxes) get(kid string) (box, bool) {
	b.mu.RLock()
	defer b.mu.RUnlock()
	found, ok := b.byID[kid]
	return found, ok
}

// Encrypt encrypts text with the key, which must be the active one in state. The ring may lag
// behind state: Encrypt waits for the key until ctx ends.
func (r *Ring) Encrypt(ctx context.Context, kid string, text []byte) ([]byte, error) {
	found, err := r.box(ctx, kid)
	if err != nil {
		return nil, fmt.Errorf("encrypt with root key %s: %w", kid, err)
	}
	return found.seal(text), nil
}

// Decrypt decrypts data of the key. It waits for the key like Encrypt.
func (r *Ring) Decrypt(ctx context.Context, kid string, data []byte) ([]byte, error) {
	found, err := r.box(ctx, kid)
	if err != nil {
		return nil, fmt.Errorf("decrypt with root key %s: %w", kid, err)
	}
	text, err := found.open(data)
	if err != nil {
		return nil, fmt.Errorf("%w (key %s)", ErrUndecryptable, kid)
	}
	return text, nil
}

// box waits until a key is open, or ctx ends.
func (r *Ring) box(ctx context.Context, kid string) (box, error) {
	for {
		r.mu.RLock()
		changed := r.changed
		r.mu.RUnlock()
		if found, ok := r.boxes.get(kid); ok {
			return found, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			if _, err := r.Signer(kid); err != nil {
				return box{}, fmt.Errorf("%w: %w", err, ctx.Err())
			}
			return box{}, ctx.Err() // opened at the last moment
		}
	}
}
