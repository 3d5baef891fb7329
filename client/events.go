package client

import (
	"context"
	"sync"
	"time"

	"github.com/open-nomad/open-nomad/internal/backoff"
	"github.com/open-nomad/open-nomad/internal/wake"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/message"
)

const (
	// maxNodeEvents limits the events that wait for a server. Plugins can cause them at will.
	maxNodeEvents = 64
	// nodeEventsDelay collects events that come together.
	nodeEventsDelay = time.Second
	// nodeEventsMax is the longest delay before another attempt.
	nodeEventsMax = time.Minute
)

// nodeEvents holds events of the node until a server has them.
type nodeEvents struct {
	added wake.Signal

	mu   sync.Mutex
	list []*nomad.NodeEvent // maxNodeEvents at most
}

func newNodeEvents() *nodeEvents { return &nodeEvents{added: wake.New()} }

// emit adds an event. It drops the oldest one above maxNodeEvents.
func (e *nodeEvents) emit(event nomad.NodeEvent) {
	if event.Timestamp.IsZero() {
		event.Timestamp = time.Now()
	}
	e.mu.Lock()
	e.list = append(e.list, &event)
	e.list = e.list[max(len(e.list)-maxNodeEvents, 0):]
	e.mu.Unlock()
	e.added.Send()
}

// take returns all events and removes them.
func (e *nodeEvents) take() []*nomad.NodeEvent {
	e.mu.Lock()
	defer e.mu.Unlock()
	out := e.list
	e.list = nil
	return out
}

// putBack adds events again that no server has. They are older than those that were added since.
func (e *nodeEvents) putBack(events []*nomad.NodeEvent) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.list = append(events, e.list...)
	e.list = e.list[max(len(e.list)-maxNodeEvents, 0):]
}

// reportEvents sends the events of the node to the servers until ctx ends.
func (c *Client) reportEvents(ctx context.Context) error {
	retry := backoff.Backoff{Min: nodeEventsDelay, Max: nodeEventsMax}
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-c.events.added:
		}
		if err := retry.Wait(ctx); err != nil {
			return err
		}
		events := c.events.take()
		if len(events) == 0 {
			continue
		}
		req := message.EmitNodeEventsRequest{NodeEvents: map[string][]*nomad.NodeEvent{c.id.ID: events}}
		if err := c.calls.Call(ctx, "Node.EmitEvents", &req, &message.EmitNodeEventsResponse{}); err != nil {
			c.log.Debug("report events of the node", "err", err)
			c.events.putBack(events)
			c.events.added.Send()
			continue
		}
		retry.Reset()
	}
}
