package client

import (
	"context"
	"errors"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/plugins/schema"
)

// sendSchemas sends the schemas of drivers that a server requested, one in each call. A failure is
// not an error of the heartbeat: the servers request a schema again.
func (c *Client) sendSchemas(ctx context.Context, digests []string) {
	for _, digest := range digests[:min(len(digests), schema.MaxPerNode)] {
		sent, ok := c.drivers.Schema(digest)
		if !ok {
			continue // the driver has changed since
		}
		req := message.DriverSchemaUpsertRequest{NodeID: c.id.ID,
			Schemas: []*nomad.DriverSchema{{Digest: sent.Digest, Spec: sent.Raw}}}
		if err := c.calls.Call(ctx, "Node.UpsertDriverSchemas", &req, &message.GenericResponse{}); err != nil {
			c.schemaFailed(digest, err)
			return
		}
		c.schemasAbsent.Store(false)
	}
}

// schemaFailed reports a schema that was not sent. A server of Nomad does not have the method. This is reported once, until
// a schema is sent: the servers of this project ask for it in each answer.
func (c *Client) schemaFailed(digest string, err error) {
	switch {
	case !errors.Is(err, apierror.ErrNoMethod) && !errors.Is(err, apierror.ErrUnknownMethod):
		c.log.Warn("send the schema of a driver", "digest", digest, "err", err)
	case !c.schemasAbsent.Swap(true):
		c.log.Info("a server does not take schemas of drivers: the servers check the config blocks of tasks less strictly",
			"digest", digest, "err", err)
	}
}
