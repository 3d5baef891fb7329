package rpc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/yamux"

	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rpc/wire"
)

// leaders routes to a server that is the leader from a given time after the first call.
type leaders struct {
	none time.Duration // time without a leader after an attempt
	last time.Time     // of the last attempt
	addr string
}

func (l *leaders) Route(ctx context.Context, _ Where, _ message.Envelope) (string, error) {
	if l.last.IsZero() {
		return l.addr, nil
	}
	select {
	case <-ctx.Done():
		return "", apierror.ErrNoLeader
	case <-time.After(time.Until(l.last.Add(l.none))):
		return l.addr, nil
	}
}

// try is the duration and the result of one attempt.
type try struct {
	takes time.Duration
	err   error
}

func TestRoute_LostRead(t *testing.T) {
	late := holdTimeout - holdPause/2 // the hold time ends in the pause after it
	lost := fmt.Errorf("%w: %w", apierror.ErrLost, io.EOF)
	remote := apierror.FromText(lost.Error())
	read, write := &message.GenericRequest{}, &message.JobRegisterRequest{}
	forwarded := &message.GenericRequest{QueryOptions: message.QueryOptions{InternalRpcInfo: message.InternalRpcInfo{Forwarded: true}}}
	for name, c := range map[string]struct {
		req   Request
		addr  string
		none  time.Duration
		tries []try // the first is made at once, the others each after a failure
		made  int
		want  error
	}{
		"immediately":                       {read, "a", 0, []try{{0, lost}, {}}, 2, nil},
		"just before the hold ends":         {read, "a", 0, []try{{late, lost}, {}}, 2, nil},
		"when the hold ends":                {read, "a", 0, []try{{holdTimeout, lost}, {}}, 2, nil},
		"long after":                        {read, "a", 0, []try{{10 * holdTimeout, lost}, {}}, 2, nil},
		"late, and a leader is missing":     {read, "a", 3 * time.Second, []try{{late, lost}, {}}, 2, nil},
		"late, a leader is missing for two": {read, "a", 3 * time.Second, []try{{late, lost}, {late, lost}, {late, lost}, {}}, 4, nil},
		"next leader not ready":             {read, "a", 0, []try{{late, lost}, {0, apierror.ErrNotReady}, {}}, 3, nil},
		"lost by another server":            {read, "a", 0, []try{{late, remote}, {}}, 2, nil},
		"a node's connection":               {read, "", 0, []try{{late, remote}, {}}, 2, nil},
		"a node's connection, twice":        {read, "", 0, []try{{0, lost}, {0, lost}}, 2, io.EOF},
		"no leader for long":                {read, "a", 2 * holdTimeout, []try{{late, lost}}, 1, apierror.ErrNoLeader},
		"again and again":                   {read, "a", 0, []try{{late, lost}, {late, lost}, {late, lost}, {holdTimeout, lost}}, 4, io.EOF},
		"forwarded request":                 {forwarded, "a", 0, []try{{late, lost}}, 1, io.EOF},
		"a write": {write, "a", 0, []try{{late, fmt.Errorf("%w: %w", apierror.ErrMaybeApplied, lost)}}, 1,
			apierror.ErrMaybeApplied},
		"a write during a leader change": {write, "a", 0, []try{{0, fmt.Errorf("%w: %w", apierror.ErrNoLeader, apierror.ErrMaybeApplied)}}, 1,
			apierror.ErrMaybeApplied},
		"an unsent write":           {write, "a", 0, []try{{time.Second, apierror.ErrUnsent}, {}}, 2, nil},
		"a write lost in a handler": {write, "", 0, []try{{0, lost}}, 1, io.EOF},
		"a restart": {&message.AllocRestartRequest{}, "a", 0, []try{{late, maybeApplied(&message.AllocRestartRequest{}, lost)}},
			1, apierror.ErrMaybeApplied},
		"a signal": {&message.AllocSignalRequest{}, "a", 0, []try{{late, maybeApplied(&message.AllocSignalRequest{}, lost)}}, 1,
			apierror.ErrMaybeApplied},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				router := &leaders{none: c.none, addr: c.addr}
				s := &Server{cfg: Config{Router: router, Hold: holdTimeout}}
				left := slices.Clone(c.tries)
				made := 0
				err := s.route(t.Context(), Method{Where: Leader}, c.req.Envelope(), func(context.Context, string) error {
					this := left[0]
					if len(left) > 1 {
						left = left[1:]
					}
					made++
					<-time.After(this.takes)
					router.last = time.Now()
					return this.err
				})
				if !errors.Is(err, c.want) || made != c.made {
					t.Errorf("route() = %v after %d tries, want %v after %d", err, made, c.want, c.made)
				}
			})
		})
	}
}

// failing is a connection that returns errors.
type failing struct{ read, write error }

func (f failing) Read([]byte) (int, error)    { return 0, f.read }
func (f failing) Write(b []byte) (int, error) { return len(b), f.write }
func (f failing) Close() error                { return nil }

// Every kind of connection error is reported as a lost connection, on this server and on the
// agent that it answers.
func TestLost_ConnectionErrors(t *testing.T) {
	for _, end := range []error{io.EOF, io.ErrUnexpectedEOF, io.ErrClosedPipe, net.ErrClosed, yamux.ErrSessionShutdown, yamux.ErrStreamClosed,
		yamux.ErrConnectionReset, yamux.ErrConnectionWriteTimeout, yamux.ErrKeepAliveTimeout, yamux.ErrTimeout, errors.New("no route to host")} {
		for name, conn := range map[string]failing{"read": {read: end}, "write": {write: end}} {
			t.Run(name+" "+end.Error(), func(t *testing.T) {
				broken, err := wire.NewCaller(conn).Call("Test.Read", &message.GenericRequest{}, nil)
				if !broken || !Lost(err) || !errors.Is(err, end) || !Lost(apierror.FromText(err.Error())) {
					t.Errorf("call() = %v, %v", broken, err)
				}
				err = maybeApplied(&message.JobRegisterRequest{}, err)
				if remote := apierror.FromText(err.Error()); !errors.Is(remote, apierror.ErrMaybeApplied) || Lost(remote) {
					t.Errorf("a write: %v", remote)
				}
				if _, err := openStream(conn, "Test.Echo"); !errors.Is(err, apierror.ErrNoStream) || !Lost(err) {
					t.Errorf("openStream() = %v", err)
				}
			})
		}
	}
}
