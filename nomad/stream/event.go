package stream

import (
	"cmp"
	"fmt"
	"slices"
	"sync"

	"github.com/open-nomad/open-nomad/acl"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/codec"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/state/table"
)

// Batch is the set of changes of one log entry.
type Batch struct {
	// Index is the index of the entry.
	Index uint64

	command message.CommandType
	rows    []table.Write
	bytes   int // estimate of sizeOf
	once    sync.Once
	events  []*Event
}

// Events returns one event for each object that the entry changed. All readers share them.
func (b *Batch) Events() []*Event {
	b.once.Do(func() {
		last := map[[3]string]int{}
		for _, row := range b.rows {
			e := eventOf(row)
			if e == nil {
				continue
			}
			e.Type, e.Index = types[b.command], b.Index
			id := [3]string{string(e.Topic), e.Namespace, e.Key}
			if i, again := last[id]; again {
				b.events[i] = nil // the row was written again later
			}
			last[id] = len(b.events)
			b.events = append(b.events, e)
		}
		b.events = slices.DeleteFunc(b.events, func(e *Event) bool { return e == nil })
		b.rows = nil
	})
	return b.events
}

// Event is an event with a payload that is built on demand.
type Event struct {
	Topic      message.Topic
	Type       string
	Key        string
	Namespace  string
	FilterKeys []string
	Index      uint64

	payload func() map[string]any
	once    sync.Once
	text    []byte
	err     error
}

// JSON returns the event in the form of the API. The caller must not modify it.
func (e *Event) JSON() ([]byte, error) {
	e.once.Do(func() {
		e.text, e.err = codec.EncodeJSON(&message.Event{Topic: e.Topic, Type: e.Type, Key: e.Key, Namespace: e.Namespace,
			FilterKeys: e.FilterKeys, Index: e.Index, Payload: e.payload()})
		if e.err != nil {
			e.err = fmt.Errorf("encode event of %s %q: %w", e.Topic, e.Key, e.err)
		}
	})
	return e.text, e.err
}

// Need returns the right that the reader must have, or whether a management token is required.
func (e *Event) Need() (q acl.Question, management bool) {
	if e.Topic == message.TopicVariable {
		return acl.OfVariable(e.Namespace, e.Key, acl.VariableList), false
	}
	return ToRead(e.Topic, e.Namespace)
}

// ToRead returns the right for reading a topic, in a namespace if the topic has namespaces. For
// variables it is the right for an empty path: each path has its own rights.
func ToRead(topic message.Topic, namespace string) (q acl.Question, management bool) {
	switch topic {
	case message.TopicJob, message.TopicEvaluation, message.TopicAllocation, message.TopicDeployment, message.TopicService,
		message.TopicCSIPlugin:
		return acl.InNamespace(cmp.Or(namespace, nomad.DefaultNamespace), acl.ReadJob), false
	case message.TopicHostVolume:
		return acl.InNamespace(cmp.Or(namespace, nomad.DefaultNamespace), acl.HostVolumeRead), false
	case message.TopicCSIVolume:
		return acl.InNamespace(cmp.Or(namespace, nomad.DefaultNamespace), acl.CSIReadVolume), false
	case message.TopicNode:
		return acl.ToRead(acl.Nodes), false
	case message.TopicOperator:
		return acl.ToRead(acl.Operators), false
	case message.TopicVariable:
		return acl.OfVariable(namespace, "", acl.VariableList), false
	}
	return acl.Question{}, true
}
