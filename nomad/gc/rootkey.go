package gc

import (
	"context"
	"fmt"

	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rootkey"
)

// rootKeys takes one step of the rotation: it activates a prepublished key at its time, or
// publishes the next key at half of the active key's period. It also collects unused keys. force-gc
// shortens no period: a key may be about to sign a token.
func (c *Collector) rootKeys(ctx context.Context, s *sweep) error {
	if !s.force {
		if moved, err := c.rotate(ctx, s); moved || err != nil {
			return err
		}
	}
	s.force = false
	for k := range s.snap.RootKeys(nil) {
		inactive := k.State == rootkey.Inactive || k.State == rootkey.Deprecated
		if !inactive || !s.old(k.CreateTime, c.cfg.RootKeyRotation+c.cfg.RootKeyAfter) || s.snap.RootKeyInUse(k.KeyID) {
			continue
		}
		req := &message.KeyringDeleteRootKeyRequest{KeyID: k.KeyID, WriteRequest: c.write()}
		if err := c.cfg.RPC.Call(ctx, "Keyring.Delete", req, &message.KeyringDeleteRootKeyResponse{}); err != nil {
			return fmt.Errorf("delete root key %s: %w", k.KeyID, err)
		}
		c.cfg.Log.Info("collected root key", "key", k.KeyID)
	}
	return nil
}

// rotate takes the next step of a rotation by age and reports whether there was one.
func (c *Collector) rotate(ctx context.Context, s *sweep) (moved bool, err error) {
	active := s.snap.ActiveRootKey(nil)
	if active == nil {
		return false, nil // the leader creates the first key
	}
	if next := nextKey(s); next != nil {
		if s.now.UnixNano() < next.PublishTime {
			return false, nil
		}
		return true, c.setKey(ctx, next, rootkey.Active)
	}
	if !s.old(active.CreateTime, c.cfg.RootKeyRotation/2) {
		return false, nil
	}
	req := &message.KeyringRotateRootKeyRequest{PublishTime: active.CreateTime + int64(c.cfg.RootKeyRotation), WriteRequest: c.write()}
	if err := c.cfg.RPC.Call(ctx, "Keyring.Rotate", req, &message.KeyringRotateRootKeyResponse{}); err != nil {
		return false, fmt.Errorf("publish the next root key: %w", err)
	}
	return true, nil
}

// nextKey returns the prepublished key that becomes active first.
func nextKey(s *sweep) *rootkey.Key {
	var next *rootkey.Key
	for k := range s.snap.RootKeys(nil) {
		if k.State == rootkey.Prepublished && (next == nil || k.PublishTime < next.PublishTime) {
			next = k
		}
	}
	return next
}

// setKey changes the state of a key.
func (c *Collector) setKey(ctx context.Context, k *rootkey.Key, to rootkey.State) error {
	meta := k.Meta()
	meta.State = to
	req := &message.KeyringUpdateRootKeyRequest{RootKey: &rootkey.Unwrapped{Meta: meta}, WriteRequest: c.write()}
	if err := c.cfg.RPC.Call(ctx, "Keyring.Update", req, &message.KeyringUpdateRootKeyResponse{}); err != nil {
		return fmt.Errorf("set state of root key %s to %s: %w", k.KeyID, to, err)
	}
	c.cfg.Log.Info("root key state changed", "key", k.KeyID, "state", to)
	return nil
}
