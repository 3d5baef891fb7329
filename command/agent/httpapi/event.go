package httpapi

import (
	"cmp"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"

	"github.com/open-nomad/open-nomad/command/agent/httpapi/web"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/codec"
	"github.com/open-nomad/open-nomad/nomad/message"
)

func eventRoutes() []web.Route {
	return []web.Route{{Methods: "GET", Path: "/v1/event/stream", CORS: true, Handle: eventStream}}
}

// eventStream writes one line of JSON for each log entry with events, and {} as a heartbeat. The
// first line is sent at once. An error before the first line becomes a status. A later error is the
// last line and ends the stream.
func eventStream(r *web.Request) (any, error) {
	req, err := eventRequest(r)
	if err != nil {
		return nil, err
	}
	stream, err := r.RPC().Stream(r.Context(), "Event.Stream")
	if err != nil {
		return nil, err
	}
	defer stream.Close()
	defer closeWhenGone(r, stream)()
	if err := stream.Encode(req); err != nil {
		return nil, err
	}
	h := r.Reply.Header()
	flusher := http.NewResponseController(r.Reply)
	for first := true; ; first = false {
		var line message.EventStreamWrapper
		switch err := stream.Decode(&line); {
		case err != nil && first:
			return nil, err
		case err != nil:
			return nil, web.ErrDone
		case line.Error != nil:
			if first {
				return nil, streamError(line.Error)
			}
			if line.Event, err = lastLine(line.Error); err != nil {
				return nil, web.ErrDone
			}
		case first:
			if line.Newest > 0 {
				h.Set("X-Nomad-Event-Restart", strconv.FormatUint(line.Newest, 10))
			}
			h.Set("Content-Type", "application/json")
			h.Set("Cache-Control", "no-cache")
			h.Set("Connection", "close")
			h.Set("Content-Encoding", "identity")  // disables gzip
			h.Set("Transfer-Encoding", "identity") // disables chunks, which some line readers do not support
		}
		if line.Event == nil {
			continue
		}
		if _, err := r.Reply.Write(append(line.Event.Data, '\n')); err != nil || line.Error != nil {
			return nil, web.ErrDone
		}
		flusher.Flush() // a writer without Flush sends at the end
	}
}

// lastLine returns the error of a stream as its last line. Clients that ignore the field treat the
// line as a heartbeat.
func lastLine(e *message.RpcError) (*message.EventJson, error) {
	if e.Message == io.EOF.Error() {
		return nil, errors.New("idle session")
	}
	text, err := codec.EncodeJSON(map[string]string{"Error": e.Message})
	return &message.EventJson{Data: text}, err
}

// eventRequest reads the topics and the index. The topic parameter may be repeated.
func eventRequest(r *web.Request) (*message.EventStreamRequest, error) {
	q := &message.EventStreamRequest{Topics: map[message.Topic][]string{}}
	if err := r.ReadOptions(&q.QueryOptions); err != nil {
		return nil, err
	}
	q.MinQueryIndex = 0 // index is the start of the stream: this is not a blocking query
	index, err := r.Number("index")
	if err != nil {
		return nil, err
	}
	if q.Index = int(index); q.Index < 0 {
		return nil, apierror.Errorf(http.StatusBadRequest, "Invalid index %d", index)
	}
	for _, text := range r.Query["topic"] {
		name, key, _ := strings.Cut(text, ":")
		if name == "" || strings.HasPrefix(key, "::") {
			return nil, apierror.Errorf(http.StatusBadRequest, "Invalid key value pair %q: use Topic or Topic:key", text)
		}
		topic := message.Topic(name)
		q.Topics[topic] = append(q.Topics[topic], cmp.Or(key, "*"))
	}
	return q, nil
}
