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

// turning is a server that becomes leader while a call waits, and only then knows whether the
// token is valid. It is an Authenticator and a Router.
type turning struct {
	fading
	good, later bool
	led         atomic.Bool
	wait        time.Duration
}

func (t *turning) Route(context.Context, rpc.Where, message.Envelope) (string, error) {
	time.Sleep(t.wait) // synthetic time
	t.led.Store(true)
	return "", nil
}

func (t *turning) Authenticate(context.Context, string, rpc.Rule, *rpc.Conn) (*rbac.AuthenticatedIdentity, error) {
	if t.led.Load() && !t.later || !t.led.Load() && !t.good {
		return nil, apierror.ErrPermissionDenied
	}
	return &rbac.AuthenticatedIdentity{}, nil
}

// A server that waited until it is the leader authenticates the caller again, because its state
// was older before.
func TestReadmit_NewLeader(t *testing.T) {
	for name, c := range map[string]*turning{
		"token not in state yet":  {good: false, later: true},
		"token deleted meanwhile": {good: true, later: false, wait: time.Second},
		"invalid token":           {wait: time.Second},
		"valid token":             {good: true, later: true, wait: time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var done atomic.Int32
				cfg := rpc.Config{Auth: c}
				leaderMethods(&done, func() error { return nil })(&cfg)
				cfg.Router = c
				s, err := rpc.NewServer(cfg)
				if err != nil {
					t.Fatal(err)
				}
				err = s.Call(t.Context(), "Test.Write", write(), &message.GenericResponse{})
				if c.later != (err == nil) || !c.later && !errors.Is(err, apierror.ErrPermissionDenied) || (done.Load() == 1) != c.later {
					t.Errorf("%v, done %d times", err, done.Load())
				}
			})
		})
	}
}
