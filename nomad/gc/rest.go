package gc

import (
	"context"
	"fmt"
	"time"

	"github.com/open-nomad/open-nomad/nomad"
)

// deployments collects ended deployments that no live allocation is part of.
func (c *Collector) deployments(ctx context.Context, s *sweep) error {
	var ids []string
	for d := range s.snap.Deployments(nil) {
		if !d.Active() && s.old(d.ModifyTime, c.cfg.DeploymentAfter) && !s.deploymentUsed(d.ID) {
			ids = append(ids, d.ID)
		}
	}
	return c.inBatches(ids, "deployments", func(batch []string) error {
		req := &nomad.DeploymentDeleteRequest{Deployments: batch, WriteRequest: c.write()}
		return c.cfg.RPC.Call(ctx, "Deployment.Reap", req, &nomad.GenericResponse{})
	})
}

func (s *sweep) deploymentUsed(id string) bool {
	for a := range s.snap.AllocsByDeployment(nil, id) {
		if !a.TerminalStatus() {
			return true
		}
	}
	return false
}

// nodes collects nodes that are down and on which nothing is left to run.
func (c *Collector) nodes(ctx context.Context, s *sweep) error {
	var ids []string
	for n := range s.snap.Nodes(nil) {
		since := time.Unix(n.StatusUpdatedAt, 0).UnixNano()
		if n.TerminalStatus() && s.old(since, c.cfg.NodeAfter) && !s.nodeUsed(n.ID) {
			ids = append(ids, n.ID)
		}
	}
	return c.inBatches(ids, "nodes", func(batch []string) error {
		req := &nomad.NodeBatchDeregisterRequest{NodeIDs: batch, WriteRequest: c.write()}
		return c.cfg.RPC.Call(ctx, "Node.BatchDeregister", req, &nomad.NodeUpdateResponse{})
	})
}

func (s *sweep) nodeUsed(id string) bool {
	for a := range s.snap.AllocsByNode(nil, id) {
		if !a.TerminalStatus() {
			return true
		}
	}
	return false
}

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

// inBatches deletes things in requests of bounded size.
func (c *Collector) inBatches(ids []string, what string, del func(batch []string) error) error {
	total := len(ids)
	for len(ids) > 0 {
		var batch []string
		batch, ids = split(ids, nomad.MaxUUIDsPerWriteRequest)
		if err := del(batch); err != nil {
			return fmt.Errorf("delete %d %s: %w", len(batch), what, err)
		}
	}
	if total > 0 {
		c.cfg.Log.Debug("collected", "what", what, "count", total)
	}
	return nil
}
