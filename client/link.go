package client

import (
	"context"

	"github.com/open-nomad/open-nomad/internal/jwt"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rpc"
)

// link makes calls to the servers once the client is assembled. The methods of the node exist before the connection over
// which they are called.
type link struct{ c *Client }

func (l link) Call(ctx context.Context, method string, req, resp any) error {
	return l.c.servers.Call(ctx, method, req, resp)
}

func (l link) Stream(ctx context.Context, method string) (*rpc.Stream, error) {
	return l.c.servers.Stream(ctx, method)
}

// endpointNode is the client as the methods of the node need it.
type endpointNode struct{ c *Client }

// Heartbeat implements endpoint.Node.
func (n endpointNode) Heartbeat() { n.c.urgent.Send() }

// SetMeta implements endpoint.Node.
func (n endpointNode) SetMeta(meta map[string]string) {
	n.c.node.update(func(n *nomad.Node) { n.Meta = meta })
	n.c.node.changed.Send()
}

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
