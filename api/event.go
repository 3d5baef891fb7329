package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strconv"
)

// Topic is the kind of object of an event.
type Topic string

// String returns the name of the topic.
func (t Topic) String() string { return string(t) }

// Topics of events. TopicAll means all topics.
const (
	TopicDeployment     Topic = "Deployment"
	TopicEvaluation     Topic = "Evaluation"
	TopicAllocation     Topic = "Allocation"
	TopicJob            Topic = "Job"
	TopicNode           Topic = "Node"
	TopicNodePool       Topic = "NodePool"
	TopicService        Topic = "Service"
	TopicVariable       Topic = "Variable"
	TopicACLPolicy      Topic = "ACLPolicy"
	TopicACLToken       Topic = "ACLToken"
	TopicACLRole        Topic = "ACLRole"
	TopicACLAuthMethod  Topic = "ACLAuthMethod"
	TopicACLBindingRule Topic = "ACLBindingRule"
	TopicAll            Topic = "*"
)

// Events are the events of one Raft log entry. An empty Events is a heartbeat. If Err is
// set, the other fields are empty and the stream has ended.
type Events struct {
	Index  uint64
	Events []Event
	Err    error `json:"-"`
}

// IsHeartbeat reports whether e is a heartbeat, without events and error.
func (e *Events) IsHeartbeat() bool { return e.Index == 0 && len(e.Events) == 0 && e.Err == nil }

// Event contains an object as of the Raft log entry at Index. Methods such as Job and
// Allocation decode the object.
type Event struct {
	Topic      Topic
	Type       string
	Key        string
	Namespace  string
	FilterKeys []string
	Index      uint64
	Payload    map[string]any
}

// Job returns the job of the event, or nil if its payload is not a job.
func (e *Event) Job() (*Job, error) { return inEvent[Job](e, "Job") }

// Evaluation returns the evaluation of the event, or nil if its payload is not an evaluation.
func (e *Event) Evaluation() (*Evaluation, error) { return inEvent[Evaluation](e, "Evaluation") }

// Allocation returns the allocation of the event, without its job. It returns nil if the
// payload is not an allocation.
func (e *Event) Allocation() (*Allocation, error) { return inEvent[Allocation](e, "Allocation") }

// Deployment returns the deployment of the event, or nil if its payload is not a deployment.
func (e *Event) Deployment() (*Deployment, error) { return inEvent[Deployment](e, "Deployment") }

// Node returns the node of the event, or nil if its payload is not a node.
func (e *Event) Node() (*Node, error) { return inEvent[Node](e, "Node") }

// NodePool returns the node pool of the event, or nil if its payload is not a node pool.
func (e *Event) NodePool() (*NodePool, error) { return inEvent[NodePool](e, "NodePool") }

// Service returns the service registration of the event, or nil if its payload is not one.
func (e *Event) Service() (*ServiceRegistration, error) {
	return inEvent[ServiceRegistration](e, "Service")
}

// inEvent decodes one object of the payload.
func inEvent[T any](e *Event, name string) (*T, error) {
	thing, ok := e.Payload[name]
	if !ok {
		return nil, nil
	}
	text, err := json.Marshal(thing)
	if err != nil {
		return nil, fmt.Errorf("decode %s of event: %w", name, err)
	}
	out := new(T)
	if err := json.Unmarshal(text, out); err != nil {
		return nil, fmt.Errorf("decode %s of event: %w", name, err)
	}
	return out, nil
}

// EventStream is the handle for events.
type EventStream struct{ client *Client }

// EventStream returns the handle for events.
func (c *Client) EventStream() *EventStream { return &EventStream{c} }

// Stream subscribes to topics, each with a list of keys or "*", from the Raft log entry
// index on. An index of 0 starts with the oldest stored event. The channel is closed when
// ctx ends, or after an Events with Err set.
func (e *EventStream) Stream(ctx context.Context, topics map[Topic][]string, index uint64, q *QueryOptions) (<-chan *Events, error) {
	params := url.Values{"index": {strconv.FormatUint(index, 10)}}
	for topic, keys := range topics {
		if len(keys) == 0 {
			keys = []string{"*"}
		}
		for _, key := range keys {
			params.Add("topic", string(topic)+":"+key)
		}
	}
	slices.Sort(params["topic"])
	body, err := e.client.stream("/v1/event/stream?"+params.Encode(), q.WithContext(ctx))
	if err != nil {
		return nil, err
	}
	out := make(chan *Events, frameBuffer)
	go func() {
		defer close(out)
		defer body.Close()
		if err := readEvents(ctx, body, out); err != nil && ctx.Err() == nil {
			select {
			case out <- &Events{Err: err}:
			case <-ctx.Done():
			}
		}
	}()
	return out, nil
}

// errEventsEnd is the error of a stream that the agent ended without an error.
var errEventsEnd = errors.New("the event stream ended: the token is no longer valid, or the agent has stopped")

// readEvents sends events to out until the body or ctx ends.
func readEvents(ctx context.Context, body io.Reader, out chan<- *Events) error {
	dec := json.NewDecoder(body)
	for {
		var line struct {
			Events
			Error string
		}
		switch err := dec.Decode(&line); {
		case err == io.EOF:
			return errEventsEnd
		case err != nil:
			return err
		case line.Error != "":
			return errors.New(line.Error)
		}
		select {
		case out <- &line.Events:
		case <-ctx.Done():
			return nil
		}
	}
}
