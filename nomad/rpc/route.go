package rpc

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/message"
)

// How long a call waits while no server can answer it, and the interval between attempts, as in
// Nomad 2.0.
const (
	holdTimeout = 5 * time.Second
	holdPause   = 25 * time.Millisecond
)

// maxLosses is how often a lost connection may restart the hold time of a call. The hold time is for
// finding a server. Without the restart, a call to a server that hung would have none left.
const maxLosses = 3

// route finds the server that answers and calls attempt with its address. If that server certainly
// did not accept the call, route looks for another until the hold time ends. A new leader is
// usually elected within that time. route repeats a read whose connection was lost, however
// late the loss is noticed. It never repeats a write that may have been applied. Requests that
// another server forwarded are repeated by that server; streams are not repeated.
func (s *Server) route(ctx context.Context, m Method, env message.Envelope, attempt func(ctx context.Context, addr string) error) error {
	if s.cfg.Router == nil || m.Where == Here {
		return attempt(ctx, "")
	}
	end, losses := time.Now().Add(s.cfg.Hold), 0
	for {
		addr, err := s.findServer(ctx, end, m.Where, env)
		if err != nil {
			return err
		}
		err = attempt(ctx, addr)
		if err == nil || env.Forwarded && !m.Stream || !repeatable(err, addr, env) || addr == "" && losses > 0 && Lost(err) {
			return err
		}
		if Lost(err) && losses < maxLosses {
			end, losses = time.Now().Add(s.cfg.Hold), losses+1
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(holdPause):
		}
		if !time.Now().Before(end) {
			return err
		}
	}
}

// findServer waits until end for the address of the server that answers.
func (s *Server) findServer(ctx context.Context, end time.Time, where Where, env message.Envelope) (addr string, err error) {
	hold, cancel := context.WithDeadline(ctx, end)
	defer cancel()
	addr, err = s.cfg.Router.Route(hold, where, env)
	if err != nil {
		return "", cmp.Or(ctx.Err(), err)
	}
	return addr, nil
}

// envelope returns the envelope of a request, with the region that answers it.
func (s *Server) envelope(m Method, req Request) message.Envelope {
	env := req.Envelope()
	if s.cfg.Home != "" && m.Home != nil && m.Home(req) {
		env.Region = s.cfg.Home
	}
	return env
}

// repeatable reports whether a failed attempt did nothing or may safely be repeated. A read on
// this server may have lost the connection to a node. It is repeated once, because the node
// reconnects or is gone.
func repeatable(err error, addr string, env message.Envelope) bool {
	if env.Write && errors.Is(err, apierror.ErrMaybeApplied) {
		return false
	}
	if errors.Is(err, apierror.ErrNoLeader) || errors.Is(err, apierror.ErrNotReady) {
		return true
	}
	if addr == "" {
		return !env.Write && errors.Is(err, apierror.ErrLost)
	}
	return errors.Is(err, apierror.ErrUnsent) || errors.Is(err, apierror.ErrNoStream) || !env.Write && Lost(err)
}
