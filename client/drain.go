package client

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/message"
)

const (
	// drainPoll is the interval at which a node that drains itself reads its drain.
	drainPoll = time.Second
	// drainGrace is how long a drain may exceed its deadline.
	drainGrace = 5 * time.Second
)

// errDrainLate means that the drain did not end in time.
var errDrainLate = errors.New("self-drain exceeded deadline")

// Drain drains the node before its agent stops. It returns when the servers report the drain as complete and the
// allocations that had to leave have ended, at most drainGrace later. It fails drainGrace after the deadline. While
// no server answers, it watches the allocations only. The node stays ineligible.
func (c *Client) Drain(ctx context.Context, spec nomad.DrainSpec) error {
	if spec.Deadline > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, spec.Deadline+drainGrace, errDrainLate)
		defer cancel()
	}
	req := message.NodeUpdateDrainRequest{NodeID: c.id.ID, DrainStrategy: &nomad.DrainStrategy{DrainSpec: spec},
		Meta: map[string]string{"message": "shutting down"}}
	if err := c.calls.Call(ctx, "Node.UpdateDrain", &req, &message.NodeDrainUpdateResponse{}); err != nil {
		return fmt.Errorf("start the drain of node %s: %w", c.id.ID, err)
	}
	c.log.Info("draining the node", "node", c.id.ID, "deadline", spec.Deadline)
	tick := time.NewTicker(drainPoll)
	defer tick.Stop()
	var complete time.Time
	for {
		draining, err := c.draining(ctx)
		switch {
		case err != nil && !c.allocs.Busy(spec.IgnoreSystemJobs):
			return nil // nothing is left, although no server can confirm it
		case err != nil:
			c.log.Warn("read the drain of the node", "err", err)
		case draining:
		case !c.allocs.Busy(spec.IgnoreSystemJobs):
			return nil
		case complete.IsZero():
			complete = time.Now()
		case time.Since(complete) >= drainGrace:
			return nil // an operator canceled the drain, or tasks take long to stop
		}
		select {
		case <-ctx.Done():
			if !complete.IsZero() {
				return nil
			}
			return fmt.Errorf("drain node %s: %w", c.id.ID, context.Cause(ctx))
		case <-tick.C:
		}
	}
}

// draining reports whether the drain of the node is active.
func (c *Client) draining(ctx context.Context) (bool, error) {
	req := message.NodeSpecificRequest{NodeID: c.id.ID}
	var resp message.SingleNodeResponse
	if err := c.calls.Call(ctx, "Node.GetNode", &req, &resp); err != nil {
		return false, err
	}
	return resp.Node != nil && resp.Node.DrainStrategy != nil, nil
}
