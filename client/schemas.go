package client

import (
	"context"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/plugins/schema"
)

// sendSchemas sends the schemas of drivers that a server requested, one in each call. A failure is
// not an error of the heartbeat: the servers request a schema again.
func (c *Client) sendSchemas(ctx context.Context, digests []string) {
	for _, digest := range digests[:min(len(digests), schema.MaxPerNode)] {
		own, ok := c.drivers.Schema(digest)
		if !ok {
			continue // the driver has changed since
		}
		req := message.DriverSchemaUpsertRequest{NodeID: c.id.id, WriteRequest: c.write(),
			Schemas: []*nomad.DriverSchema{{Digest: own.Digest, Spec: own.Raw}}}
		if err := c.servers.Call(ctx, "Node.UpsertDriverSchemas", &req, &message.GenericResponse{}); err != nil {
			c.log.Warn("send the schema of a driver", "digest", digest, "err", err)
			return
		}
	}
}
