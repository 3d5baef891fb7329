// Package events handles the RPC method of the event stream. A reader gets the events that its rights allow. It is
// disconnected when it loses access or falls too far behind. The events are made in package stream.
//
// Each stream has the goroutine of its call, and no other.
package events

import (
	"github.com/open-nomad/open-nomad/nomad/endpoint/handler"
	"github.com/open-nomad/open-nomad/nomad/stream"
)

// Service handles the method of the event stream.
type Service struct {
	*handler.Core
	broker *stream.Broker
}

// New returns a Service. A nil broker disables events.
func New(core *handler.Core, broker *stream.Broker) *Service {
	return &Service{Core: core, broker: broker}
}
