package httpclient

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/url"
	"slices"
	"strconv"

	"github.com/open-nomad/open-nomad/api"
)

// EventStream is the handle for events.
type EventStream struct{ client *Client }

// EventStream returns the handle for events.
func (c *Client) EventStream() *EventStream { return &EventStream{c} }

// Stream subscribes to topics, each with a list of keys or "*", from the Raft log entry
// index on. An index of 0 starts with the oldest stored event. The channel is closed when
// ctx ends, or after an Events with Err set.
func (e *EventStream) Stream(ctx context.Context, topics map[api.Topic][]string, index uint64, q *QueryOptions) (<-chan *api.Events, error) {
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
	out := make(chan *api.Events, frameBuffer)
	go func() {
		defer close(out)
		defer body.Close()
		if err := readEvents(ctx, body, out); err != nil && ctx.Err() == nil {
			select {
			case out <- &api.Events{Err: err}:
			case <-ctx.Done():
			}
		}
	}()
	return out, nil
}

// errEventsEnd is the error of a stream that the agent ended without an error.
var errEventsEnd = errors.New("the event stream ended: the token is no longer valid, or the agent has stopped")

// readEvents sends events to out until the body or ctx ends.
func readEvents(ctx context.Context, body io.Reader, out chan<- *api.Events) error {
	dec := json.NewDecoder(body)
	for {
		var line struct {
			api.Events
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
