package nodeid

import (
	"context"

	"github.com/open-nomad/open-nomad/nomad/message"
)

// Caller makes calls to the servers with the node's own token.
type Caller struct {
	Identity *Identity
	Servers  message.Caller
	Region   string
}

// Call fills in the region and the token if the request has none.
func (c Caller) Call(ctx context.Context, method string, req, resp any) error {
	switch r := req.(type) {
	case interface{ Query() *message.QueryOptions }:
		fill(&r.Query().Region, c.Region)
		fill(&r.Query().AuthToken, c.Identity.Auth())
	case interface{ Write() *message.WriteRequest }:
		fill(&r.Write().Region, c.Region)
		fill(&r.Write().AuthToken, c.Identity.Auth())
	}
	return c.Servers.Call(ctx, method, req, resp)
}

func fill(field *string, value string) {
	if *field == "" {
		*field = value
	}
}
