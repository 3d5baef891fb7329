package endpoint

import (
	"context"
	"fmt"

	"github.com/open-nomad/open-nomad/client/artifact"
	"github.com/open-nomad/open-nomad/client/hoststats"
	"github.com/open-nomad/open-nomad/client/hostvolume"
	"github.com/open-nomad/open-nomad/client/nodeid"
	"github.com/open-nomad/open-nomad/client/nodemeta"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rpc"
)

// Node is what the handlers change about their node.
type Node interface {
	// Heartbeat sends a heartbeat now.
	Heartbeat()
	// SetMeta registers the node with other metadata.
	SetMeta(meta map[string]string)
}

// node handles requests about the node.
type node struct {
	Node
	identity  *nodeid.Identity
	session   string
	host      *hoststats.Host
	meta      *nodemeta.Meta
	artifacts *artifact.Fetcher
}

// stats measures the host.
func (h node) stats(context.Context, *rpc.Call, *message.NodeSpecificRequest) (*message.ClientStatsResponse, error) {
	stats, err := h.host.Measure()
	if err != nil {
		return nil, err
	}
	return &message.ClientStatsResponse{HostStats: stats}, nil
}

// identityGet returns the claims of the node's token, never the token.
func (h node) identityGet(context.Context, *rpc.Call, *message.NodeIdentityGetReq) (*message.NodeIdentityGetResp, error) {
	claims, err := h.identity.Claims()
	if err != nil {
		return nil, err
	}
	return &message.NodeIdentityGetResp{Claims: claims}, nil
}

// identityRenew requests a new token and triggers a heartbeat.
func (h node) identityRenew(context.Context, *rpc.Call, *message.NodeIdentityRenewReq) (*message.NodeIdentityRenewResp, error) {
	if err := h.identity.AskRenewal(); err != nil {
		return nil, fmt.Errorf("store the request for a new node identity: %w", err)
	}
	h.Heartbeat()
	return &message.NodeIdentityRenewResp{}, nil
}

// sessionID returns the session ID of this agent to the servers.
func (h node) sessionID(context.Context, *rpc.Call, *message.NodeSpecificRequest) (*message.NodeSessionResponse, error) {
	return &message.NodeSessionResponse{ID: h.session}, nil
}

// metaRead answers NodeMeta.Read.
func (h node) metaRead(context.Context, *rpc.Call, *message.NodeSpecificRequest) (*message.NodeMetaResponse, error) {
	return h.metaResponse(), nil
}

// metaApply answers NodeMeta.Apply. The node registers again, so that constraints see the change.
func (h node) metaApply(_ context.Context, _ *rpc.Call, req *message.NodeMetaApplyRequest) (*message.NodeMetaResponse, error) {
	if err := h.meta.Apply(req.Meta, h.SetMeta); err != nil {
		return nil, err
	}
	return h.metaResponse(), nil
}

func (h node) metaResponse() *message.NodeMetaResponse {
	effective, dynamic := h.meta.Current()
	return &message.NodeMetaResponse{Meta: effective, Dynamic: dynamic, Static: h.meta.Static()}
}

// cacheStatus lists the cached artifacts of the node.
func (h node) cacheStatus(context.Context, *rpc.Call, *message.NodeSpecificRequest) (*message.ArtifactCacheResponse, error) {
	return &message.ArtifactCacheResponse{Cache: h.cache()}, nil
}

// purgeCache removes the cached artifacts of the node.
func (h node) purgeCache(context.Context, *rpc.Call, *message.NodeSpecificRequest) (*message.ArtifactCacheResponse, error) {
	var freed int64
	if cache := h.artifacts.Cache(); cache != nil {
		freed = cache.Purge()
	}
	return &message.ArtifactCacheResponse{Cache: h.cache(), Freed: freed}, nil
}

// cache returns the state of the cache. It is empty with a limit of 0 if there is no cache.
func (h node) cache() *message.ArtifactCache {
	out := &message.ArtifactCache{}
	cache := h.artifacts.Cache()
	if cache == nil {
		return out
	}
	s := cache.Status()
	out.Bytes, out.Limit, out.Hits, out.Misses = s.Size, s.Limit, int64(s.Hits), int64(s.Misses)
	for _, f := range cache.Files() {
		out.Entries = append(out.Entries, message.ArtifactCacheEntry{SHA256: f.SHA256, Bytes: f.Size, Used: f.Used})
	}
	return out
}

// volumes handles the requests of servers about dynamic host volumes. The servers have checked the rights of the caller.
type volumes struct{ *hostvolume.Manager }

func (h volumes) create(ctx context.Context, _ *rpc.Call, req *message.ClientHostVolumeCreateRequest) (
	*message.ClientHostVolumeCreateResponse, error) {
	return h.Create(ctx, req)
}

func (h volumes) register(_ context.Context, _ *rpc.Call, req *message.ClientHostVolumeRegisterRequest) (
	*message.ClientHostVolumeRegisterResponse, error) {
	return &message.ClientHostVolumeRegisterResponse{}, h.Register(req)
}

func (h volumes) delete(ctx context.Context, _ *rpc.Call, req *message.ClientHostVolumeDeleteRequest) (
	*message.ClientHostVolumeDeleteResponse, error) {
	return &message.ClientHostVolumeDeleteResponse{VolumeName: req.Name, VolumeID: req.ID}, h.Delete(ctx, req)
}
