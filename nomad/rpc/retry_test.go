package rpc_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rbac"
	"github.com/open-nomad/open-nomad/nomad/rpc"
)

// starting is an Authenticator that has no rights of callers yet for the first calls of Access.
type starting struct {
	everybody
	authenticated, asked atomic.Int32
	first                int32
}

func (s *starting) Authenticate(ctx context.Context, token string, rule rpc.Rule, conn *rpc.Conn) (*rbac.AuthenticatedIdentity, error) {
	s.authenticated.Add(1)
	return s.everybody.Authenticate(ctx, token, rule, conn)
}

func (s *starting) Access(ctx context.Context, id *rbac.AuthenticatedIdentity) (*rpc.Access, error) {
	if s.asked.Add(1) <= s.first {
		return nil, apierror.ErrNotReady
	}
	return s.everybody.Access(ctx, id)
}

// A stream is authorized at each attempt of route. A server that is not ready yet does not refuse it.
func TestRoute_StreamNotReady(t *testing.T) {
	for name, c := range map[string]struct {
		first int32
		want  string
	}{
		"ready soon":  {first: 3, want: "served"},
		"never ready": {first: 1 << 20, want: apierror.ErrNotReady.Error()},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				row := rpc.HandleStream("Test.Stream", rpc.Token, rpc.Leader,
					func(_ context.Context, _ *rpc.Call, _ *message.GenericRequest, s *rpc.Stream) error {
						return s.SendError(apierror.Errorf(400, "served"))
					}).Needs(rpc.AnyToken)
				s, err := rpc.NewServer(rpc.Config{Auth: &starting{first: c.first}, Router: to(""), Methods: []rpc.Method{row}})
				if err != nil {
					t.Fatal(err)
				}
				stream, err := s.Stream(t.Context(), "Test.Stream")
				if err != nil {
					t.Fatal(err)
				}
				defer stream.Close()
				if err := stream.Encode(&message.GenericRequest{}); err != nil {
					t.Fatal(err)
				}
				var got message.StreamErrWrapper
				if err := stream.Decode(&got); err != nil || got.Error == nil || !strings.Contains(got.Error.Message, c.want) {
					t.Errorf("the stream answers %+v, %v, want %q", got.Error, err, c.want)
				}
			})
		})
	}
}

// A request of another type is an error of the calling code. The server does not authenticate its caller.
func TestCall_WrongType(t *testing.T) {
	auth, done := &starting{}, atomic.Int32{}
	s, _ := serve(t, func(c *rpc.Config) {
		leaderMethods(&done, func() error { return nil })(c)
		c.Auth = auth
	})
	for name, req := range map[string]any{"another request": &message.NodeSpecificRequest{}, "not a request": "x"} {
		err := s.Call(within(t), "Test.Write", req, nil)
		if err == nil || !strings.Contains(err.Error(), "Test.Write does not take a ") {
			t.Errorf("%s: Call() = %v, want an error about its type", name, err)
		}
	}
	if n := auth.authenticated.Load(); n != 0 || done.Load() != 0 {
		t.Errorf("%d callers were authenticated and %d handlers ran, want none", n, done.Load())
	}
	if err := s.Call(within(t), "Test.Write", write(), nil); err != nil || auth.authenticated.Load() != 1 {
		t.Errorf("the right type: Call() = %v, %d callers were authenticated, want 1", err, auth.authenticated.Load())
	}
}
