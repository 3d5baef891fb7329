package servertest

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rpc"
	"github.com/open-nomad/open-nomad/nomad/server"
)

// Event is one event as a subscriber receives it.
type Event struct {
	Topic, Type, Key, Namespace string
	Index                       uint64
	Payload                     map[string]any
}

// EventReader is a subscriber of events.
type EventReader struct {
	t     *testing.T
	st    *rpc.Stream
	lines chan line
	Text  strings.Builder // what until and end have read
}

// line is one line of a stream, or its end.
type line struct {
	events []Event
	text   []byte
	err    error
}

// Follow opens an event stream, or returns the error.
func Follow(t *testing.T, s *server.Server, req *message.EventStreamRequest) (*EventReader, error) {
	t.Helper()
	req.Region = "global"
	st, err := s.Stream(t.Context(), "Event.Stream")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { st.Close() })
	if err := st.Encode(req); err != nil {
		t.Fatal(err)
	}
	r := &EventReader{t: t, st: st, lines: make(chan line, 1<<10)}
	if first := r.line(); first.err != nil || string(first.text) != "{}" {
		return nil, cmp.Or(first.err, fmt.Errorf("the first line is %q", first.text))
	}
	go func() {
		defer close(r.lines)
		for {
			next := r.line()
			if r.lines <- next; next.err != nil {
				return
			}
		}
	}()
	return r, nil
}

// line reads one line.
func (r *EventReader) line() line {
	var w message.EventStreamWrapper
	if err := r.st.Decode(&w); err != nil {
		return line{err: err}
	}
	if w.Error != nil && w.Error.Code != nil {
		return line{err: apierror.Errorf(int(*w.Error.Code), "%s", w.Error.Message)}
	}
	if w.Error != nil {
		return line{err: apierror.FromText(w.Error.Message)}
	}
	var body struct {
		Index  uint64
		Events []Event
	}
	if err := json.Unmarshal(w.Event.Data, &body); err != nil {
		return line{err: fmt.Errorf("%q: %w", w.Event.Data, err)}
	}
	for _, e := range body.Events {
		if e.Index != body.Index {
			return line{err: fmt.Errorf("event of entry %d in a line of %d", e.Index, body.Index)}
		}
	}
	return line{events: body.Events, text: w.Event.Data}
}

// Until reads up to an event for which holds is true, and returns the events.
func (r *EventReader) Until(holds func(Event) bool) (out []Event) {
	r.t.Helper()
	ctx := Context(r.t)
	for {
		select {
		case <-ctx.Done():
			r.t.Fatalf("the event did not come, but %v", out)
		case got, open := <-r.lines:
			if got.err != nil || !open {
				r.t.Fatalf("the stream ended with %v, after %v", got.err, out)
			}
			r.Text.Write(got.text)
			for _, e := range got.events {
				if out = append(out, e); holds(e) {
					return out
				}
			}
		}
	}
}

// End reads to the end of the stream and returns the events before it.
func (r *EventReader) End() (out []Event, err error) {
	r.t.Helper()
	ctx := Context(r.t)
	for {
		select {
		case <-ctx.Done():
			r.t.Fatal("the stream did not end")
		case got := <-r.lines:
			if got.err != nil {
				return out, got.err
			}
			out = append(out, got.events...)
		}
	}
}

// Topics parses pairs "topic:key" of a subscription.
func Topics(pairs ...string) map[message.Topic][]string {
	out := map[message.Topic][]string{}
	for _, p := range pairs {
		topic, key, _ := strings.Cut(p, ":")
		out[message.Topic(topic)] = append(out[message.Topic(topic)], key)
	}
	return out
}

// EventRequest returns a subscription of topics in a namespace.
func EventRequest(ns string, topics map[message.Topic][]string) *message.EventStreamRequest {
	return &message.EventStreamRequest{Topics: topics, QueryOptions: message.QueryOptions{Namespace: ns}}
}
