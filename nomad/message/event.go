package message

import "github.com/open-nomad/open-nomad/nomad"

// EventStreamRequest is the request of Event.Stream. Topics maps each topic to the requested keys; "*" selects
// all keys. Index is the first index to send; 0 selects all retained events.
type EventStreamRequest struct {
	Topics map[nomad.Topic][]string
	Index  int
	QueryOptions
}
