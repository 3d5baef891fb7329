package keyring

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"errors"
	"fmt"
	"sync"
)

// ErrUndecryptable means that a variable is not what its key encrypted.
var ErrUndecryptable = errors.New("variable cannot be decrypted: it is not what its key encrypted")

// boxes are the data encryption keys of open root keys, as what they do: they can't be
// printed.
type boxes struct {
	mu   sync.RWMutex
	byID map[string]box
}

// box encrypts and decrypts by one key. A function prints as its address.
type box struct {
	seal func(text []byte) []byte
	open func(data []byte) ([]byte, error)
}

// newBox makes what seals variables: AES-256-GCM, nonce ‖ ciphertext ‖ tag, bound to the
// key ID (compat/raft-fsm.md section 6).
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
	}, nil
}

// keep takes over the data encryption key of a root key that was opened; the first one
// stays.
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

// Encrypt seals text by the key, which is to be the active one of state: the ring may be
// behind it, and then waits for the key, within ctx.
func (r *Ring) Encrypt(ctx context.Context, kid string, text []byte) ([]byte, error) {
	found, err := r.box(ctx, kid)
	if err != nil {
		return nil, fmt.Errorf("encrypt a variable: %w", err)
	}
	return found.seal(text), nil
}

// Decrypt opens what the key encrypted; it waits for the key as Encrypt does.
func (r *Ring) Decrypt(ctx context.Context, kid string, data []byte) ([]byte, error) {
	found, err := r.box(ctx, kid)
	if err != nil {
		return nil, fmt.Errorf("decrypt a variable: %w", err)
	}
	text, err := found.open(data)
	if err != nil {
		return nil, fmt.Errorf("%w (key %s)", ErrUndecryptable, kid)
	}
	return text, nil
}

// box waits until a key is open, within ctx.
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
			return box{}, ctx.Err() // it came at the last moment
		}
	}
}
