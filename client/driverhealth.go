package client

import (
	"context"
	"time"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/message"
)

// watchDrivers reports changes of the drivers to the servers.
func (c *Client) watchDrivers(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-c.drivers.Changed():
		}
		infos := c.drivers.Infos()
		changed, turned := c.node.setDrivers(infos)
		if changed {
			raise(c.node.changed)
		}
		if len(turned) > 0 {
			c.emit(ctx, turned, infos)
		}
	}
}

// emit records health changes of drivers as node events. It does nothing while the agent is not
// attached.
func (c *Client) emit(ctx context.Context, turned []string, infos map[string]*nomad.DriverInfo) {
	if !c.attached.Load() {
		return
	}
	var events []*nomad.NodeEvent
	for _, name := range turned {
		info := infos[name]
		message := info.HealthDescription
		if info.Healthy {
			message = "Healthy"
		}
		events = append(events, &nomad.NodeEvent{
			Message: message, Subsystem: nomad.NodeEventSubsystemDriver,
			Details: map[string]string{"driver": name}, Timestamp: time.Now(),
		})
	}
	req := message.EmitNodeEventsRequest{
		NodeEvents: map[string][]*nomad.NodeEvent{c.id.ID: events}, WriteRequest: c.write(),
	}
	if err := c.servers.Call(ctx, "Node.EmitEvents", &req, &message.EmitNodeEventsResponse{}); err != nil {
		c.log.Warn("report driver health", "err", err)
	}
}
