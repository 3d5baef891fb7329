package rpc_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/acls"
	"github.com/open-nomad/open-nomad/nomad/rpc"
)

// turning is a server that comes to lead while a call waits for that, and knows then
// whether the token is good. It is an Authenticator and a Router.
type turning struct {
	fading
	good, later bool
	led         atomic.Bool
	wait        time.Duration
}

func (t *turning) Route(context.Context, rpc.Where, nomad.Envelope) (string, error) {
	time.Sleep(t.wait) // of the test's own time
	t.led.Store(true)
	return "", nil
}

func (t *turning) Authenticate(context.Context, string, rpc.Rule, *rpc.Conn) (*acls.AuthenticatedIdentity, error) {
	if t.led.Load() && !t.later || !t.led.Load() && !t.good {
		return nil, nomad.ErrPermissionDenied
	}
	return &acls.AuthenticatedIdentity{}, nil
}

// A server that waited until it leads looks at the caller anew: it knew less before.
func TestWhoWaitsIsLookedAtAgain(t *testing.T) {
	for name, c := range map[string]*turning{
		"the token was not known yet": {good: false, later: true},
		"it was deleted meanwhile":    {good: true, later: false, wait: time.Second},
		"it is bad":                   {wait: time.Second},
		"it is good":                  {good: true, later: true, wait: time.Second},
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
				err = s.Call(t.Context(), "Test.Write", write(), &nomad.GenericResponse{})
				if c.later != (err == nil) || !c.later && !errors.Is(err, nomad.ErrPermissionDenied) || (done.Load() == 1) != c.later {
					t.Errorf("%v, done %d times", err, done.Load())
				}
			})
		})
	}
}
