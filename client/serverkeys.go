package client

import (
	"context"

	"github.com/open-nomad/open-nomad/internal/jwt"
	"github.com/open-nomad/open-nomad/nomad/message"
)

// serverKeys fetches the servers' public keys from any server or, when fresh, from the leader.
// Keys that cannot be parsed are skipped.
func (c *Client) serverKeys(ctx context.Context, fresh bool) ([]jwt.PublicKey, error) {
	req := message.GenericRequest{QueryOptions: message.QueryOptions{Region: c.cfg.Region, AllowStale: !fresh}}
	var out message.KeyringListPublicResponse
	if err := c.servers.Call(ctx, "Keyring.ListPublic", &req, &out); err != nil {
		return nil, err
	}
	var keys []jwt.PublicKey
	for _, k := range out.PublicKeys {
		key, err := jwt.ReadPublicKey(k.KeyID, k.PublicKey)
		if err != nil {
			c.log.Warn("read a public key of the servers", "err", err)
			continue
		}
		keys = append(keys, key)
	}
	return keys, nil
}
