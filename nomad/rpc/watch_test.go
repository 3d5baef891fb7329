package rpc_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rbac"
	"github.com/open-nomad/open-nomad/nomad/rpc"
)

// watching is an Authenticator whose answers change when changed is closed.
type watching struct {
	fading
	changed chan struct{}
	asked   *atomic.Int32
	blind   bool // changes are found only by polling
}

func (w watching) Authenticate(ctx context.Context, token string, rule rpc.Rule, conn *rpc.Conn) (*rbac.AuthenticatedIdentity, error) {
	w.asked.Add(1)
	return w.fading.Authenticate(ctx, token, rule, conn)
}

func (w watching) Watch(*rbac.AuthenticatedIdentity) func(context.Context) {
	if w.blind {
		return nil
	}
	return func(ctx context.Context) {
		select {
		case <-ctx.Done():
		case <-w.changed:
		}
	}
}

// A blocking read is not authenticated again while nothing changes. It ends at once when its
// token is revoked.
func TestRecheck_Watcher(t *testing.T) {
	for _, blind := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			auth := watching{fading: fading{&atomic.Bool{}, apierror.ErrPermissionDenied}, changed: make(chan struct{}), asked: &atomic.Int32{},
				blind: blind}
			row := rpc.Handle("Test.Wait", rpc.Token, rpc.Here,
				func(ctx context.Context, _ *rpc.Call, _ *message.NodeSpecificRequest) (*message.SingleNodeResponse, error) {
					<-ctx.Done()
					return nil, ctx.Err()
				}).Needs(rpc.AnyToken)
			s, err := rpc.NewServer(rpc.Config{Methods: []rpc.Method{row}, Auth: auth})
			if err != nil {
				t.Fatal(err)
			}
			req := ask("n", "t")
			req.MinQueryIndex = 7
			ended := make(chan error, 1)
			go func() { ended <- s.Call(t.Context(), "Test.Wait", req, nil) }()
			time.Sleep(2 * time.Minute) // synthetic time
			if n := auth.asked.Load(); !blind && n > 2 || blind && n < 100 {
				t.Errorf("blind %t: authenticated %d times in two minutes without a change", blind, n)
			}
			auth.over.Store(true)
			close(auth.changed)
			begun := time.Now()
			if err := <-ended; !errors.Is(err, apierror.ErrPermissionDenied) || time.Since(begun) > time.Second {
				t.Errorf("blind %t: %v after %v", blind, err, time.Since(begun))
			}
		})
	}
}
