package rpc_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/acl"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rbac"
	"github.com/open-nomad/open-nomad/nomad/rpc"
)

// fading admits all callers until over is set.
type fading struct {
	over *atomic.Bool
	err  error
}

func (f fading) Authenticate(_ context.Context, token string, _ rpc.Rule, _ *rpc.Conn) (*rbac.AuthenticatedIdentity, error) {
	if f.over.Load() && token != "" {
		return nil, f.err
	}
	return &rbac.AuthenticatedIdentity{}, nil
}

func (fading) Access(ctx context.Context, id *rbac.AuthenticatedIdentity) (*rpc.Access, error) {
	return rpc.TrustPeer{}.Access(ctx, id)
}

// A blocking read and a stream end without an answer when their token becomes invalid.
func TestRecheck_TokenExpires(t *testing.T) {
	over := &atomic.Bool{}
	expired := fmt.Errorf("%w: %w", apierror.ErrPermissionDenied, apierror.ErrIdentityExpired)
	wait := func(context.Context, *rpc.Call, *message.NodeSpecificRequest) (*message.SingleNodeResponse, error) {
		over.Store(true)
		return &message.SingleNodeResponse{Node: &nomad.Node{ID: "n"}}, nil
	}
	for _, c := range []struct {
		name    string
		rule    rpc.Rule
		token   string
		err     error
		refused bool
	}{
		{"revoked", rpc.Token, "t", apierror.ErrPermissionDenied, true},
		{"expired", rpc.Token, "t", expired, true},
		{"anonymous", rpc.Anonymous, "t", apierror.ErrPermissionDenied, false},
		{"no token", rpc.Token, "", apierror.ErrPermissionDenied, false},
		{"node token", rpc.NodeOnly, "t", apierror.ErrPermissionDenied, true},
		{"expired node token", rpc.NodeOnly, "t", expired, false},
		{"not verifiable", rpc.Token, "t", apierror.ErrNotReady, false},
	} {
		for way, caller := range callers(t, func(cfg *rpc.Config) {
			cfg.Auth, cfg.Recheck = fading{over, c.err}, time.Nanosecond
			row := rpc.Handle("Test.Long", c.rule, rpc.Here, wait)
			if c.rule == rpc.Token {
				row = row.Needs(rpc.AnyToken)
			}
			cfg.Methods = []rpc.Method{row}
		}) {
			over.Store(false)
			var out message.SingleNodeResponse
			err := caller.Call(within(t), "Test.Long", ask("n", c.token), &out)
			if errors.Is(err, apierror.ErrPermissionDenied) != c.refused || (out.Node != nil) == c.refused {
				t.Errorf("%s, %s: %v, %v", c.name, way, out.Node, err)
			}
		}
	}
	over.Store(false)
	s, _ := serve(t, func(cfg *rpc.Config) {
		cfg.Auth, cfg.Recheck = fading{over, apierror.ErrPermissionDenied}, time.Millisecond
	})
	echo := func(token string) *rpc.Stream {
		st := begin(t, s.Stream, &message.FsStreamRequest{Path: "a", QueryOptions: message.QueryOptions{AuthToken: token}})
		next(t, st)
		return st
	}
	with, without := echo("t"), echo("")
	over.Store(true)
	if err := with.Decode(&message.StreamErrWrapper{}); !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("the stream does not end: %v", err)
	}
	if err := without.Encode(&message.StreamErrWrapper{Payload: []byte("b")}); err != nil || string(next(t, without).Payload) != "b" {
		t.Errorf("a stream without a token: %v", err)
	}
}

// A blocking read ends soon after its token has expired, not after its wait time.
func TestRecheck_BlockingRead(t *testing.T) {
	over := &atomic.Bool{}
	for _, rule := range []rpc.Rule{rpc.Token, rpc.Management} {
		for way, caller := range callers(t, func(cfg *rpc.Config) {
			cfg.Auth, cfg.Recheck = fading{over, apierror.ErrPermissionDenied}, time.Millisecond
			row := rpc.Handle("Test.Wait", rule, rpc.Here,
				func(ctx context.Context, _ *rpc.Call, q *message.NodeSpecificRequest) (*message.SingleNodeResponse, error) {
					over.Store(true)
					<-ctx.Done()
					return &message.SingleNodeResponse{Node: &nomad.Node{ID: "n"}}, ctx.Err()
				})
			if rule == rpc.Token {
				row = row.Needs(rpc.AnyToken)
			}
			cfg.Methods = []rpc.Method{row}
		}) {
			over.Store(false)
			req := ask("n", "t")
			req.MinQueryIndex = 7
			var out message.SingleNodeResponse
			if err := caller.Call(within(t), "Test.Wait", req, &out); !errors.Is(err, apierror.ErrPermissionDenied) || out.Node != nil {
				t.Errorf("%v, %s: %v, %v", rule, way, out.Node, err)
			}
		}
	}
}

// If the caller's rights changed before the end of the wait time, the read does not wait again.
func TestRecheck_NoSecondWait(t *testing.T) {
	cfg := rights{now: &atomic.Pointer[acl.ACL]{}}
	s, _ := serve(t, func(c *rpc.Config) {
		c.Auth, c.Recheck = cfg, time.Nanosecond
		c.Methods = []rpc.Method{rpc.Handle("Test.Wait", rpc.Token, rpc.Here,
			func(_ context.Context, c *rpc.Call, q *message.NodeSpecificRequest) (*message.SingleNodeResponse, error) {
				if q.MinQueryIndex > 0 {
					cfg.now.Store(granted(t, `node { policy = "read" }`))
				}
				return readNode(fmt.Sprint(c.Access.Allows(acl.ToRead(acl.Nodes)), q.MinQueryIndex)), nil
			}).Needs(rpc.AnyToken)}
	})
	cfg.now.Store(acl.New(false))
	req := ask("n", "t")
	req.MinQueryIndex = 7
	var out message.SingleNodeResponse
	if err := s.Call(within(t), "Test.Wait", req, &out); err != nil || out.Node.ID != "true 0" || req.MinQueryIndex != 7 {
		t.Errorf("%+v, %v", out.Node, err)
	}
}
