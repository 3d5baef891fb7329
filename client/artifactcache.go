package client

import (
	"context"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rpc"
)

type artifactCache interface {
	Status() *nomad.ArtifactCache
	Purge() (freed int64, err error)
}

// artifactCacheStatus lists the cached artifacts of the node.
func (c *Client) artifactCacheStatus(context.Context, *rpc.Call, *message.NodeSpecificRequest) (*message.ArtifactCacheResponse, error) {
	return &message.ArtifactCacheResponse{Cache: c.artifacts.Status()}, nil
}

// artifactCachePurge removes the cached artifacts of the node.
func (c *Client) artifactCachePurge(context.Context, *rpc.Call, *message.NodeSpecificRequest) (*message.ArtifactCacheResponse, error) {
	freed, err := c.artifacts.Purge()
	if err != nil {
		return nil, err
	}
	return &message.ArtifactCacheResponse{Cache: c.artifacts.Status(), Freed: freed}, nil
}
