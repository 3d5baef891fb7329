package nodes

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/endpoint/handler"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rbac"
	"github.com/open-nomad/open-nomad/nomad/rpc"
)

// recordingRaft keeps the events of the last log entry.
type recordingRaft struct {
	handler.Raft
	wrote *[]*nomad.NodeEvent
}

func (r recordingRaft) Apply(_ context.Context, _ message.CommandType, payload any) (uint64, error) {
	*r.wrote = payload.(*message.EmitNodeEventsRequest).NodeEvents["n"]
	return 7, nil
}

// TestEmitEvents_Limits checks that a node cannot fill log entries and state with its events: only the newest are written,
// with short messages, and large details are refused.
func TestEmitEvents_Limits(t *testing.T) {
	var wrote []*nomad.NodeEvent
	s := &Service{Core: &handler.Core{Config: handler.Config{Raft: recordingRaft{wrote: &wrote}}}}
	emit := func(events ...*nomad.NodeEvent) error {
		wrote = nil
		_, err := s.EmitEvents(t.Context(), &rpc.Call{Identity: &rbac.AuthenticatedIdentity{ClientID: "n"}},
			&message.EmitNodeEventsRequest{NodeEvents: map[string][]*nomad.NodeEvent{"n": events}})
		return err
	}
	var many []*nomad.NodeEvent
	for i := range 10_000 {
		many = append(many, &nomad.NodeEvent{Subsystem: "Driver", Message: fmt.Sprint(i)})
	}
	if err := emit(many...); err != nil || len(wrote) != nomad.MaxRetainedNodeEvents || wrote[0].Message != "9990" ||
		wrote[9].Message != "9999" {
		t.Errorf("%d events were written, %v, want the newest %d", len(wrote), err, nomad.MaxRetainedNodeEvents)
	}
	if err := emit(&nomad.NodeEvent{Message: strings.Repeat("é", 1<<20)}); err != nil || len(wrote[0].Message) > maxEventMessage+3 {
		t.Errorf("a message of %d bytes was written: %v", len(wrote[0].Message), err)
	}
	for name, event := range map[string]*nomad.NodeEvent{
		"value":     {Details: map[string]string{"a": strings.Repeat("x", maxEventDetails)}},
		"key":       {Details: map[string]string{strings.Repeat("x", maxEventDetails+1): ""}},
		"subsystem": {Subsystem: strings.Repeat("x", maxEventDetails+1)},
	} {
		if err := emit(event); err == nil || apierror.HTTPStatus(err) != 400 || wrote != nil {
			t.Errorf("large %s: %v, %d events were written, want 400", name, err, len(wrote))
		}
	}
	if err := emit(&nomad.NodeEvent{Subsystem: "Driver",
		Details: map[string]string{"a": strings.Repeat("x", maxEventDetails-7)}}); err != nil {
		t.Errorf("an event of the largest size: %v", err)
	}
}
