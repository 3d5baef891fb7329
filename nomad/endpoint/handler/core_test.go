package handler_test

import (
	"context"
	"errors"
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
