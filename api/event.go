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

// Topic is what an event is about.
type Topic string

// The topics of events; TopicAll is all of them.
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

// Events are what one entry of the log changed; without any they are a heartbeat. Err
// ends a stream and comes alone.
type Events struct {
	Index  uint64
	Events []Event
	Err    error `json:"-"`
}

// IsHeartbeat says whether there is nothing in it but that the stream lives.
func (e *Events) IsHeartbeat() bool { return e.Index == 0 && len(e.Events) == 0 && e.Err == nil }

// Event tells of one thing as it is after the log entry at Index. The things themselves
// are read with Job, Allocation and so on.
type Event struct {
	Topic      Topic
	Type       string
	Key        string
	Namespace  string
	FilterKeys []string
	Index      uint64
	Payload    map[string]any
}

// Job returns the job of an event about one, nil for another.
func (e *Event) Job() (*Job, error) { return inEvent[Job](e, "Job") }

// Evaluation returns the evaluation of an event about one, nil for another.
func (e *Event) Evaluation() (*Evaluation, error) { return inEvent[Evaluation](e, "Evaluation") }

// Allocation returns the allocation of an event about one, without its job; nil for
// another.
func (e *Event) Allocation() (*Allocation, error) { return inEvent[Allocation](e, "Allocation") }

// Deployment returns the deployment of an event about one, nil for another.
func (e *Event) Deployment() (*Deployment, error) { return inEvent[Deployment](e, "Deployment") }

// Node returns the node of an event about one, nil for another.
func (e *Event) Node() (*Node, error) { return inEvent[Node](e, "Node") }

// NodePool returns the node pool of an event about one, nil for another.
func (e *Event) NodePool() (*NodePool, error) { return inEvent[NodePool](e, "NodePool") }

// inEvent reads one thing of the payload.
func inEvent[T any](e *Event, name string) (*T, error) {
	thing, ok := e.Payload[name]
	if !ok {
		return nil, nil
	}
	text, err := json.Marshal(thing)
	if err != nil {
		return nil, fmt.Errorf("%s of an event: %w", name, err)
	}
	out := new(T)
	if err := json.Unmarshal(text, out); err != nil {
		return nil, fmt.Errorf("%s of an event: %w", name, err)
	}
	return out, nil
}

// EventStream follows what changes in the cluster.
type EventStream struct{ client *Client }

// EventStream returns the handle for events.
func (c *Client) EventStream() *EventStream { return &EventStream{c} }

// Stream follows the topics, each with the keys of interest or "*", from the log entry
// index on; 0 begins with the oldest that is kept. The channel is closed when ctx ends,
// or after Events whose Err says why there will be no more.
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

// errEventsEnd is the end of a stream for which the agent gave no reason.
var errEventsEnd = errors.New("the event stream ended: the token is no longer good, or the agent is gone")

// readEvents sends what comes until the body or ctx ends.
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
