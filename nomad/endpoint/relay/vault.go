package relay

import (
	"context"
	"slices"

	"github.com/open-nomad/open-nomad/acl"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/endpoint/handler"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rpc"
)

// VaultTokens handles VaultTokens.List: the tokens in Vault of a node's allocations in namespaces whose jobs the caller may
// read. The namespace and the job come from the state, since a compromised node could report others.
func (s *Service) VaultTokens(ctx context.Context, c *rpc.Call, req *message.NodeSpecificRequest) (*message.VaultTokensResponse, error) {
	if req.NodeID == "" {
		return nil, apierror.Errorf(400, "missing node ID")
	}
	e, err := s.reach(c, req.NodeID, req.NodeID)
	if err != nil {
		return nil, err
	}
	out, err := callNode[message.NodeSpecificRequest, message.VaultTokensResponse](ctx, e, "VaultTokens.List", req)
	if err != nil {
		return nil, err
	}
	snap, may := s.Snapshot(), handler.Grants(c, acl.ReadJob)
	out.Tokens = slices.DeleteFunc(out.Tokens, func(t *message.VaultTokenStatus) bool {
		if t == nil {
			return true
		}
		alloc := snap.Alloc(nil, t.AllocID)
		if alloc == nil || alloc.NodeID != req.NodeID || !may(alloc.Namespace) {
			return true
		}
		t.Namespace, t.JobID = alloc.Namespace, alloc.JobID
		return false
	})
	return out, nil
}
