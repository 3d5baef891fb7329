package rpc_test

import (
	"context"
	"errors"
	"testing"

	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rpc"
	"github.com/open-nomad/open-nomad/nomad/rpc/testpeer"
)

// strictMethods returns methods that all succeed, except for one.
func strictMethods(where rpc.Where) (out []rpc.Method) {
	for _, name := range []string{"Test.Get", "Test.Open", "Test.Register", "Test.Fail", "Other.Get"} {
		out = append(out, rpc.Handle(name, rpc.Token, where,
			func(context.Context, *rpc.Call, *message.NodeSpecificRequest) (*message.SingleNodeResponse, error) {
				if name == "Test.Fail" {
					return nil, apierror.Errorf(409, "no, thanks")
				}
				return &message.SingleNodeResponse{}, nil
			}).Needs(rpc.AnyToken))
	}
	return out
}

// A server of Nomad closes a stream after a call that it does not have or cannot read. The next calls
// succeed, whatever the error was, also through a server that forwards them.
func TestPool_CallAfterError(t *testing.T) {
	var coded *apierror.Coded
	for name, c := range map[string]struct {
		method string
		want   func(error) bool
	}{
		"unknown method":        {"Test.Open", is(apierror.ErrNoMethod)},
		"unknown service":       {"Other.Get", is(apierror.ErrNoMethod)},
		"undecodable arguments": {"Test.Register", func(err error) bool { return err != nil && !rpc.Lost(err) && !errors.As(err, &coded) }},
		"application's error":   {"Test.Fail", func(err error) bool { return errors.As(err, &coded) }},
		"no error":              {"Test.Get", func(err error) bool { return err == nil }},
	} {
		t.Run(name, func(t *testing.T) {
			answer := func(where rpc.Where) func(*rpc.Config) {
				return func(cfg *rpc.Config) { cfg.Methods = strictMethods(where) }
			}
			_, addr := serve(t, answer(rpc.Here))
			p := testpeer.New(t, addr, "Test.Open", "Other")
			p.Garble("Test.Register")
			follower, _ := serve(t, func(cfg *rpc.Config) {
				answer(rpc.Leader)(cfg)
				cfg.Router, cfg.Peers = always(p.Addr()), pool(t, rpc.PoolConfig{})
			})
			for way, caller := range map[string]message.Caller{"direct": over{pool(t, rpc.PoolConfig{}), p.Addr()}, "forwarded": follower} {
				for range 20 {
					if err := caller.Call(within(t), c.method, ask("n", "token"), &message.SingleNodeResponse{}); !c.want(err) {
						t.Fatalf("%s: Call(%s) = %v", way, c.method, err)
					}
					if err := caller.Call(within(t), "Test.Get", ask("n", "token"), &message.SingleNodeResponse{}); err != nil {
						t.Fatalf("%s: the next call: %v", way, err)
					}
				}
			}
			if n := p.Lost(); n > 0 {
				t.Errorf("%d calls were sent on closed streams", n)
			}
		})
	}
}
