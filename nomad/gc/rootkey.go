package gc

import (
	"context"
	"fmt"

	"github.com/open-nomad/open-nomad/nomad"
)

// rootKeys collects keys that were rotated away long enough ago and that neither an
// allocation nor a node needs any more. To force it shortens no time: a key may be
// on its way into a token.
func (c *Collector) rootKeys(ctx context.Context, s *sweep) error {
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
