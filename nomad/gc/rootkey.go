package gc

import (
	"context"
	"fmt"

	"github.com/open-nomad/open-nomad/nomad"
)

// rootKeys lets a published key sign when its time has come, publishes the next one
// when the active key is half through its time, and collects keys that are out of
// use: one step at a time (compat/identity.md section 1). To force it shortens no
// time: a key may be on its way into a token.
func (c *Collector) rootKeys(ctx context.Context, s *sweep) error {
	if !s.force {
		if moved, err := c.rotate(ctx, s); moved || err != nil {
			return err
		}
	}
	s.force = false
	for k := range s.snap.RootKeys(nil) {
		inactive := k.State == nomad.RootKeyStateInactive || k.State == nomad.RootKeyStateDeprecated
		if !inactive || !s.old(k.CreateTime, c.cfg.RootKeyRotation+c.cfg.RootKeyAfter) || s.snap.RootKeyInUse(k.KeyID) {
			continue
		}
		req := &nomad.KeyringDeleteRootKeyRequest{KeyID: k.KeyID, WriteRequest: c.write()}
		if err := c.cfg.RPC.Call(ctx, "Keyring.Delete", req, &nomad.KeyringDeleteRootKeyResponse{}); err != nil {
			return fmt.Errorf("delete root key %s: %w", k.KeyID, err)
		}
		c.cfg.Log.Info("collected root key", "key", k.KeyID)
	}
	return nil
}

// rotate does the next step of a rotation by age and says whether there was one.
func (c *Collector) rotate(ctx context.Context, s *sweep) (moved bool, err error) {
	active := s.snap.ActiveRootKey(nil)
	if active == nil {
		return false, nil // the leader makes the first one
	}
	if next := nextKey(s); next != nil {
		if s.now.UnixNano() < next.PublishTime {
			return false, nil
		}
		return true, c.setKey(ctx, next, nomad.RootKeyStateActive)
	}
	if !s.old(active.CreateTime, c.cfg.RootKeyRotation/2) {
		return false, nil
	}
	req := &nomad.KeyringRotateRootKeyRequest{PublishTime: active.CreateTime + int64(c.cfg.RootKeyRotation), WriteRequest: c.write()}
	if err := c.cfg.RPC.Call(ctx, "Keyring.Rotate", req, &nomad.KeyringRotateRootKeyResponse{}); err != nil {
		return false, fmt.Errorf("publish the next root key: %w", err)
	}
	return true, nil
}

// nextKey is the published key that signs first.
func nextKey(s *sweep) *nomad.RootKey {
	var next *nomad.RootKey
	for k := range s.snap.RootKeys(nil) {
		if k.State == nomad.RootKeyStatePrepublished && (next == nil || k.PublishTime < next.PublishTime) {
			next = k
		}
	}
	return next
}

// setKey gives a key another state.
func (c *Collector) setKey(ctx context.Context, k *nomad.RootKey, to nomad.RootKeyState) error {
	meta := k.Meta()
	meta.State = to
	req := &nomad.KeyringUpdateRootKeyRequest{RootKey: &nomad.UnwrappedRootKey{Meta: meta}, WriteRequest: c.write()}
	if err := c.cfg.RPC.Call(ctx, "Keyring.Update", req, &nomad.KeyringUpdateRootKeyResponse{}); err != nil {
		return fmt.Errorf("make root key %s %s: %w", k.KeyID, to, err)
	}
	c.cfg.Log.Info("root key changed", "key", k.KeyID, "state", to)
	return nil
}
