package rpc_test

import (
	"context"
	"errors"
	"io"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/yamux"

	"github.com/open-nomad/open-nomad/internal/testnet"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rpc"
)

// inTurn routes calls for the leader to one address after another; the last one stays.
type inTurn struct {
	addrs []string
	asked atomic.Int32
}

func (r *inTurn) Route(_ context.Context, _ rpc.Where, env message.Envelope) (string, error) {
	if env.Forwarded {
		return "", nil
	}
	n := int(r.asked.Add(1)) - 1
	return r.addrs[min(n, len(r.addrs)-1)], nil
}

// leaderMethods returns methods that count their calls and return the result of answer.
func leaderMethods(calls *atomic.Int32, answer func() error) func(*rpc.Config) {
	return func(c *rpc.Config) {
		c.Methods = []rpc.Method{
			rpc.Handle("Test.Write", rpc.Token, rpc.Leader,
				func(context.Context, *rpc.Call, *message.JobRegisterRequest) (*message.GenericResponse, error) {
					calls.Add(1)
					return &message.GenericResponse{}, answer()
				}).Needs(rpc.AnyToken),
			rpc.Handle("Test.Read", rpc.Token, rpc.Leader,
				func(context.Context, *rpc.Call, *message.GenericRequest) (*message.GenericResponse, error) {
					calls.Add(1)
					return &message.GenericResponse{}, answer()
				}).Needs(rpc.AnyToken),
		}
		c.Router = to("")
	}
}

func TestRoute_Repeats(t *testing.T) {
	gone := testnet.Take(t).Addr(4647) // nobody listens there
	for name, c := range map[string]struct {
		method string
		req    func() rpc.Request
		first  error // of the first server; nil closes the connection, errGone means there is no server
		again  bool
	}{
		"no server":              {"Test.Write", write, errGone, true},
		"not the leader":         {"Test.Write", write, apierror.ErrNoLeader, true},
		"leader not ready":       {"Test.Write", write, apierror.ErrNotReady, true},
		"write refused":          {"Test.Write", write, apierror.Errorf(400, "no"), false},
		"write possibly applied": {"Test.Write", write, errors.New("leadership lost while committing log"), false},
		"reply of a write lost":  {"Test.Write", write, nil, false},
		"reply of a read lost":   {"Test.Read", readAll, nil, true},
	} {
		t.Run(name, func(t *testing.T) {
			var second atomic.Int32
			addr := gone
			switch {
			case c.first == nil:
				addr = swallow(t)
			case !errors.Is(c.first, errGone):
				_, addr = serve(t, leaderMethods(new(atomic.Int32), func() error { return c.first }))
			}
			_, good := serve(t, leaderMethods(&second, func() error { return nil }))
			router := &inTurn{addrs: []string{addr, good}}
			follower, _ := serve(t, func(cfg *rpc.Config) {
				leaderMethods(new(atomic.Int32), nil)(cfg)
				cfg.Router, cfg.Peers = router, pool(t, rpc.PoolConfig{})
			})
			req := c.req()
			err := follower.Call(within(t), c.method, req, &message.GenericResponse{})
			if (err == nil) != c.again || (second.Load() == 1) != c.again {
				t.Errorf("Call() = %v; the second server was called %d times", err, second.Load())
			}
			if req.Envelope().Forwarded {
				t.Error("the caller's request was modified")
			}
		})
	}
}

var errGone = errors.New("gone")

func write() rpc.Request { return &message.JobRegisterRequest{} }

func readAll() rpc.Request { return &message.GenericRequest{} }

// swallow accepts one connection, reads part of a call and closes the connection without an
// answer.
func swallow(t *testing.T) string {
	t.Helper()
	ln := testnet.Listen(t)
	go func() {
		conn, err := ln.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		if _, err := io.ReadFull(conn, make([]byte, 1)); err != nil {
			return
		}
		session, err := yamux.Server(conn, nil)
		if err != nil {
			return
		}
		defer session.Close()
		if stream, err := session.AcceptStream(); err == nil {
			io.ReadFull(stream, make([]byte, 2)) // the kind of the stream, and the call begins
		}
	}()
	return ln.Addr().String()
}

// A read at a leader that hangs for longer than the hold time continues at the next leader.
func TestRoute_HungLeader(t *testing.T) {
	t.Parallel()
	hangs := rpc.PoolConfig{Patience: 100 * time.Millisecond, AnswerWithin: 6 * time.Second} // the next server may be on a busy machine
	_, good := serve(t, leaderMethods(new(atomic.Int32), func() error { return nil }))
	follower, _ := serve(t, func(cfg *rpc.Config) {
		leaderMethods(new(atomic.Int32), nil)(cfg)
		cfg.Router, cfg.Peers = &inTurn{addrs: []string{hung(t), good}}, pool(t, hangs)
		cfg.Hold = 100 * time.Millisecond
	})
	if err := follower.Call(within(t), "Test.Read", readAll(), &message.GenericResponse{}); err != nil {
		t.Errorf("Call() = %v", err)
	}
}

// A forwarding server loses its connection to the next server. It repeats a read; a write may
// have been applied.
func TestForward_ReportsLoss(t *testing.T) {
	for name, c := range map[string]struct {
		method string
		req    rpc.Request
		want   error
		made   int32
	}{
		"read":  {"Test.Read", readAll(), nil, 1},
		"write": {"Test.Write", write(), apierror.ErrMaybeApplied, 0},
	} {
		t.Run(name, func(t *testing.T) {
			var made atomic.Int32
			_, good := serve(t, leaderMethods(&made, func() error { return nil }))
			_, before := serve(t, func(cfg *rpc.Config) {
				leaderMethods(new(atomic.Int32), nil)(cfg)
				cfg.Router, cfg.Peers = always(swallow(t)), pool(t, rpc.PoolConfig{})
			})
			follower, _ := serve(t, func(cfg *rpc.Config) {
				leaderMethods(new(atomic.Int32), nil)(cfg)
				cfg.Router, cfg.Peers = &inTurn{addrs: []string{before, good}}, pool(t, rpc.PoolConfig{})
			})
			err := follower.Call(within(t), c.method, c.req, &message.GenericResponse{})
			if !errors.Is(err, c.want) || made.Load() != c.made {
				t.Errorf("Call() = %v; the leader was called %d times", err, made.Load())
			}
		})
	}
}

// always routes all calls to one address, including forwarded ones.
type always string

func (a always) Route(context.Context, rpc.Where, message.Envelope) (string, error) {
	return string(a), nil
}
