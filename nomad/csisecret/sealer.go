// Package csisecret encrypts the secrets of CSI volumes before they are written to the Raft log, and decrypts them for a call
// to a plugin.
//
//	request ─▶ Seal (the active root key) ─▶ csi.Volume.Sealed in state ─▶ Open ─▶ call to a plugin, reply of a claim
//
// The servers of other builds store secrets in plain text. Of returns these too, and Current reports that they are still
// to be encrypted. The package never logs secrets, its errors do not contain any, and it decides no access. It keeps no state
// and starts no goroutine.
package csisecret

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/open-nomad/open-nomad/nomad/csi"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// Limits of the secrets of one volume.
const (
	maxSecrets = 256
	maxBytes   = 64 << 10
)

// Keyring encrypts with root keys. It waits for the key until ctx ends.
type Keyring interface {
	Encrypt(ctx context.Context, keyID string, text []byte) ([]byte, error)
	Decrypt(ctx context.Context, keyID string, data []byte) ([]byte, error)
}

// Config configures a Sealer. All fields are required.
type Config struct {
	Store   func() *state.Store
	Keyring Keyring
	Within  time.Duration // the maximum wait for a key
}

// Sealer encrypts and decrypts secrets.
type Sealer struct{ cfg Config }

// New returns a Sealer.
func New(cfg Config) *Sealer { return &Sealer{cfg} }

// Seal encrypts secrets with the active root key. It returns nil for no secrets.
func (s *Sealer) Seal(ctx context.Context, secrets csi.Secrets) (*csi.Sealed, error) {
	if len(secrets) == 0 {
		return nil, nil
	}
	if err := Check(secrets); err != nil {
		return nil, err
	}
	text, err := json.Marshal(secrets)
	if err != nil {
		return nil, fmt.Errorf("encode the secrets of a volume: %w", err)
	}
	key := s.cfg.Store().Snapshot().ActiveRootKey(nil)
	if key == nil {
		return nil, errors.New("encrypt the secrets of a volume: keyring has not been initialized yet")
	}
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Within)
	defer cancel()
	data, err := s.cfg.Keyring.Encrypt(ctx, key.KeyID, text)
	if err != nil {
		return nil, fmt.Errorf("encrypt the secrets of a volume: %w", err)
	}
	return &csi.Sealed{KeyID: key.KeyID, Data: data}, nil
}

// Open decrypts secrets. It returns nil for nil.
func (s *Sealer) Open(ctx context.Context, sealed *csi.Sealed) (csi.Secrets, error) {
	if sealed == nil {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Within)
	defer cancel()
	text, err := s.cfg.Keyring.Decrypt(ctx, sealed.KeyID, sealed.Data)
	if err != nil {
		return nil, fmt.Errorf("decrypt the secrets of a volume: %w", err)
	}
	var secrets csi.Secrets
	if json.Unmarshal(text, &secrets) != nil {
		return nil, errors.New("the decrypted secrets of a volume are malformed") // the error of json may quote them
	}
	return secrets, nil
}

// Of returns the secrets of a stored volume, also those of a record of another build.
func (s *Sealer) Of(ctx context.Context, v *csi.Volume) (csi.Secrets, error) {
	if v.Sealed == nil {
		return maps.Clone(v.Secrets), nil
	}
	return s.Open(ctx, v.Sealed)
}

// Current reports whether the record of a volume needs no encryption: it has no secrets in plain text, and those that are
// encrypted use the key.
func Current(v *csi.Volume, key string) bool {
	return len(v.Secrets) == 0 && (v.Sealed == nil || v.Sealed.KeyID == key)
}

// Check returns an error if the secrets are too many or too large. It does not name them.
func Check(secrets csi.Secrets) error {
	size := 0
	for name, value := range secrets {
		size += len(name) + len(value)
	}
	if len(secrets) > maxSecrets || size > maxBytes {
		return fmt.Errorf("%d secrets of %d bytes, at most %d of %d bytes in total are allowed", len(secrets), size, maxSecrets, maxBytes)
	}
	return nil
}

// Overlay returns the secrets of a volume with those of a request, which take precedence. It changes neither.
func Overlay(stored, request csi.Secrets) csi.Secrets {
	if len(stored)+len(request) == 0 {
		return nil
	}
	out := csi.Secrets{}
	maps.Copy(out, stored)
	maps.Copy(out, request)
	return out
}
