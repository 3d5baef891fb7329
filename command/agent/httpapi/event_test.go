package httpapi

import (
	"context"
	"net/http/httptest"
	"testing"

	"github.com/open-nomad/open-nomad/command/agent/httpapi/web"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rpc"
)

// eventServers sends one message on each event stream.
type eventServers struct {
	web.RPC
	first message.EventStreamWrapper
}

func (s eventServers) Stream(context.Context, string) (*rpc.Stream, error) {
	near, far := rpc.Pipe()
	go func() {
		defer far.Close()
		var req message.EventStreamRequest
		if far.Decode(&req) == nil {
			far.Encode(&s.first) //nolint:errcheck // the test sees a missing line
		}
	}()
	return near, nil
}

// The header of a stream reports that it does not begin where it was asked to. The lines are unchanged, for consumers of
// Nomad.
func TestEventStream_Restart(t *testing.T) {
	for newest, want := range map[uint64]string{0: "", 41: "41"} {
		s := changed(newTestServer(t, 0), func(c *Config) {
			c.RPC = eventServers{c.RPC, message.EventStreamWrapper{Event: &message.EventJson{Data: []byte("{}")}, Newest: newest}}
		})
		w := httptest.NewRecorder()
		req := httptest.NewRequest("GET", "/v1/event/stream?index=1000", nil)
		req.Host = "127.0.0.1:4646"
		s.ServeHTTP(w, req)
		if got := w.Header().Get("X-Nomad-Event-Restart"); w.Code != 200 || got != want || w.Body.String() != "{}\n" {
			t.Errorf("newest entry %d: %d %q, header %q, want %q", newest, w.Code, w.Body, got, want)
		}
	}
}
