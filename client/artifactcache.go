package client

import (
	"context"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rpc"
)

// artifactCacheStatus lists the cached artifacts of the node.
func (c *Client) artifactCacheStatus(context.Context, *rpc.Call, *message.NodeSpecificRequest) (*message.ArtifactCacheResponse, error) {
	return &message.ArtifactCacheResponse{Cache: c.artifactCache()}, nil
}

// artifactCachePurge removes the cached artifacts of the node.
func (c *Client) artifactCachePurge(context.Context, *rpc.Call, *message.NodeSpecificRequest) (*message.ArtifactCacheResponse, error) {
	var freed int64
	if cache := c.artifacts.Cache(); cache != nil {
		freed = cache.Purge()
	}
	return &message.ArtifactCacheResponse{Cache: c.artifactCache(), Freed: freed}, nil
}

// artifactCache returns the state of the cache. It is empty with a limit of 0 if there is no cache.
func (c *Client) artifactCache() *nomad.ArtifactCache {
	out := &nomad.ArtifactCache{}
	cache := c.artifacts.Cache()
	if cache == nil {
		return out
	}
	s := cache.Status()
	out.Bytes, out.Limit, out.Hits, out.Misses = s.Size, s.Limit, int64(s.Hits), int64(s.Misses)
	for _, f := range cache.Files() {
		out.Entries = append(out.Entries, nomad.ArtifactCacheEntry{SHA256: f.SHA256, Bytes: f.Size, Used: f.Used})
	}
	return out
}
