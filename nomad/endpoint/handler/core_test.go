package handler_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/endpoint/handler"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rpc"
)

// log is a Raft log whose entries all have the result true.
type log struct{ handler.Raft }

// Apply implements consensus.Log.
func (log) Apply(context.Context, message.CommandType, any) (uint64, error) { return 5, nil }

// ApplyResult implements consensus.ResultLog.
func (log) ApplyResult(context.Context, message.CommandType, any) (any, uint64, error) {
	return true, 5, nil
}

// here routes every call to this server.
type here struct{}

// Route implements rpc.Router.
func (here) Route(context.Context, rpc.Where, message.Envelope) (string, error) { return "", nil }

// A call that has written an entry is not repeated when its server stops to lead, whatever function wrote it.
func TestCore_WritesAreRecorded(t *testing.T) {
	core := handler.New(handler.Config{Raft: log{}})
	for name, write := range map[string]func(context.Context) error{
		"Apply": func(ctx context.Context) error {
			_, err := core.Apply(ctx, message.NodeRegisterRequestType, nil)
			return err
		},
		"ApplyFor": func(ctx context.Context) error {
			done, index, err := handler.ApplyFor[bool](ctx, core, message.SchedulerConfigRequestType, nil)
			if err == nil && (!done || index != 5) {
				t.Errorf("ApplyFor() = %t, %d", done, index)
			}
			return err
		},
	} {
		calls := 0
		m := rpc.Handle("Test.Write", rpc.Anonymous, rpc.Leader,
			func(ctx context.Context, _ *rpc.Call, _ *message.NodeDeregisterRequest) (*message.GenericResponse, error) {
				calls++
				if err := write(ctx); err != nil {
					t.Error(err)
				}
				return nil, apierror.ErrNoLeader
			})
		s, err := rpc.NewServer(rpc.Config{Methods: []rpc.Method{m}, Auth: rpc.TrustPeer{}, Router: here{}})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Call(t.Context(), "Test.Write", &message.NodeDeregisterRequest{}, nil); calls != 1 ||
			!errors.Is(err, apierror.ErrMaybeApplied) {
			t.Errorf("%s: %d calls, %v", name, calls, err)
		}
	}
}

// TestBadRequest checks that errors of the log keep their identity over RPC, so that a call can be repeated.
func TestBadRequest(t *testing.T) {
	for _, want := range []error{apierror.ErrNoLeader, apierror.ErrNotReady, apierror.ErrMaybeApplied} {
		err := handler.BadRequest(fmt.Errorf("write to the Raft log: %w: node is not the leader", want))
		if got := apierror.FromText(apierror.Text(err)); !errors.Is(got, want) {
			t.Errorf("BadRequest() of %v = %v, and after RPC %v", want, err, got)
		}
	}
	if got := apierror.HTTPStatus(handler.BadRequest(errors.New("the index is not the latest"))); got != 400 {
		t.Errorf("status = %d, want 400", got)
	}
	if got := apierror.HTTPStatus(handler.BadRequest(apierror.Errorf(409, "in use"))); got != 409 {
		t.Errorf("status = %d, want 409", got)
	}
}
