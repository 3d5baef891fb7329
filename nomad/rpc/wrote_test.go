package rpc_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rpc"
)

// A call that lost its leader is repeated, unless it has already written something.
func TestRoute_Wrote(t *testing.T) {
	for _, wrote := range []bool{false, true} {
		calls := 0
		m := rpc.Handle("Test.Write", rpc.Anonymous, rpc.Leader,
			func(ctx context.Context, _ *rpc.Call, _ *message.NodeDeregisterRequest) (*message.GenericResponse, error) {
				if calls++; calls == 1 {
					if wrote {
						rpc.Wrote(ctx)
					}
					return nil, fmt.Errorf("the second entry: %w", apierror.ErrNoLeader)
				}
				return &message.GenericResponse{}, nil
			})
		s, err := rpc.NewServer(rpc.Config{Methods: []rpc.Method{m}, Auth: rpc.TrustPeer{}, Router: here{}})
		if err != nil {
			t.Fatal(err)
		}
		err = s.Call(within(t), "Test.Write", &message.NodeDeregisterRequest{}, nil)
		if wrote && (calls != 1 || !errors.Is(err, apierror.ErrMaybeApplied) || errors.Is(err, apierror.ErrNoLeader)) {
			t.Errorf("after a write: %d calls, %v", calls, err)
		}
		if !wrote && (calls != 2 || err != nil) {
			t.Errorf("before a write: %d calls, %v", calls, err)
		}
	}
}

// here routes every call to this server.
type here struct{}

func (here) Route(context.Context, rpc.Where, message.Envelope) (string, error) { return "", nil }
