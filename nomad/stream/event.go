package stream

import (
	"cmp"
	"fmt"
	"slices"
	"sync"

	"github.com/open-nomad/open-nomad/acl"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// Batch is what one entry of the log wrote.
type Batch struct {
	// Index is that of the entry.
	Index uint64

	command nomad.MessageType
	rows    []state.Write
	once    sync.Once
	events  []*Event
}

// Events returns an event for each thing that the entry changed. They are shared by all
// readers.
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
				b.events[i] = nil // the row was written again
			}
			last[id] = len(b.events)
			b.events = append(b.events, e)
		}
		b.events = slices.DeleteFunc(b.events, func(e *Event) bool { return e == nil })
		b.rows = nil
	})
	return b.events
}

// Event is an event of which the payload is made when it is asked for.
type Event struct {
	Topic      nomad.Topic
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

// JSON returns the event as the API shows it. The caller must not write to it.
func (e *Event) JSON() ([]byte, error) {
	e.once.Do(func() {
		e.text, e.err = nomad.EncodeJSON(&nomad.Event{Topic: e.Topic, Type: e.Type, Key: e.Key, Namespace: e.Namespace,
			FilterKeys: e.FilterKeys, Index: e.Index, Payload: e.payload()})
		if e.err != nil {
			e.err = fmt.Errorf("encode event of %s %q: %w", e.Topic, e.Key, e.err)
		}
	})
	return e.text, e.err
}

// Need says what the reader of the event must have: a right, or all of them.
func (e *Event) Need() (q acl.Question, management bool) {
	if e.Topic == nomad.TopicVariable {
		return acl.OfVariable(e.Namespace, e.Key, acl.VariableList), false
	}
	return ToRead(e.Topic, e.Namespace)
}

// ToRead says what a reader of a topic needs, in a namespace where it has those. What is
// said of variables is for those whose path is empty: each path has rights of its own.
func ToRead(topic nomad.Topic, namespace string) (q acl.Question, management bool) {
	switch topic {
	case nomad.TopicJob, nomad.TopicEvaluation, nomad.TopicAllocation, nomad.TopicDeployment, nomad.TopicService, nomad.TopicCSIPlugin:
		return acl.InNamespace(cmp.Or(namespace, nomad.DefaultNamespace), acl.ReadJob), false
	case nomad.TopicHostVolume:
		return acl.InNamespace(cmp.Or(namespace, nomad.DefaultNamespace), acl.HostVolumeRead), false
	case nomad.TopicCSIVolume:
		return acl.InNamespace(cmp.Or(namespace, nomad.DefaultNamespace), acl.CSIReadVolume), false
	case nomad.TopicNode:
		return acl.ToRead(acl.Nodes), false
	case nomad.TopicOperator:
		return acl.ToRead(acl.Operators), false
	case nomad.TopicVariable:
		return acl.OfVariable(namespace, "", acl.VariableList), false
	}
	return acl.Question{}, true
}
