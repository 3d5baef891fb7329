package gc

import (
	"context"

	"github.com/open-nomad/open-nomad/nomad/message"
)

// deployments collects terminal deployments without live allocations.
func (c *Collector) deployments(ctx context.Context, s *sweep) error {
	var ids []string
	for d := range s.snap.Deployments(nil) {
		if !d.Active() && s.old(d.ModifyTime, c.cfg.DeploymentAfter) && !s.deploymentUsed(d.ID) {
			ids = append(ids, d.ID)
		}
	}
	return c.inBatches(ids, "deployments", func(batch []string) error {
		req := &message.DeploymentDeleteRequest{Deployments: batch, WriteRequest: c.write()}
		return c.cfg.RPC.Call(ctx, "Deployment.Reap", req, &message.GenericResponse{})
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
