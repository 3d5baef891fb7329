package rpc_test

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/hashicorp/yamux"

	"github.com/open-nomad/open-nomad/internal/testnet"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/rpc"
)

// hung takes connections and answers nothing, as a process that is stopped does.
func hung(t *testing.T) string {
	t.Helper()
	ln := testnet.Listen(t)
	go func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			t.Cleanup(func() { conn.Close() })
		}
	}()
	return ln.Addr().String()
}

// hasty soon asks whether the other side is there.
var hasty = rpc.PoolConfig{Patience: 20 * time.Millisecond, AnswerWithin: 50 * time.Millisecond}

func TestAServerThatHangsEndsItsCalls(t *testing.T) {
	addr := hung(t)
	for name, c := range map[string]struct {
		call func(*rpc.Pool) error
		want error
	}{
		"read":  {func(p *rpc.Pool) error { return p.Call(within(t), addr, "Test.Get", ask("n", ""), nil) }, nomad.ErrLost},
		"write": {func(p *rpc.Pool) error { return p.Call(within(t), addr, "Job.Register", write(), nil) }, nomad.ErrMaybeApplied},
		"stream": {func(p *rpc.Pool) error {
			_, err := p.Stream(within(t), addr, "Test.Echo")
			return err
		}, nomad.ErrLost},
		"checked": {func(p *rpc.Pool) error {
			ended := make(chan error)
			blocking := &nomad.GenericRequest{QueryOptions: nomad.QueryOptions{MinQueryIndex: 1}}
			go func() { ended <- p.Call(within(t), addr, "Test.Wait", blocking, nil) }()
			for ctx := within(t); ; p.Check(addr) {
				select {
				case err := <-ended:
					return err
				case <-ctx.Done():
					return ctx.Err()
				default:
				}
			}
		}, nomad.ErrLost},
	} {
		t.Run(name, func(t *testing.T) {
			err := c.call(pool(t, hasty))
			if !errors.Is(err, c.want) || !rpc.Lost(err) {
				t.Errorf("got %v, want %v", err, c.want)
			}
		})
	}
}

// keeping answers nothing and closes no stream, as a server does while a query waits. It tells of
// each stream.
func keeping(t *testing.T) (addr string, streams chan *yamux.Stream) {
	t.Helper()
	ln := testnet.Listen(t)
	streams = make(chan *yamux.Stream, 9)
	go func() {
		conn, err := ln.Accept()
		if err != nil {
			return
		}
		t.Cleanup(func() { conn.Close() })
		conn.Read(make([]byte, 1)) // the kind of the connection
		session, err := yamux.Server(conn, nil)
		if err != nil {
			t.Error(err)
			return
		}
		for {
			s, err := session.AcceptStream()
			if err != nil {
				return
			}
			streams <- s
		}
	}()
	return ln.Addr().String(), streams
}

// The end of a context ends a call and a stream at once, though the other side keeps its half.
func TestCallsEndWithoutTheServer(t *testing.T) {
	addr, streams := keeping(t)
	p := pool(t, rpc.PoolConfig{Mux: rpc.Mux{CloseTimeout: time.Hour}})
	for name, call := range map[string]func(context.Context) error{
		"call": func(ctx context.Context) error { return p.Call(ctx, addr, "Test.Wait", &nomad.GenericRequest{}, nil) },
		"stream": func(ctx context.Context) error {
			s, err := p.Stream(ctx, addr, "Test.Echo")
			if err != nil {
				return err
			}
			if err := s.Decode(new(nomad.StreamErrWrapper)); err == nil {
				return errors.New("something was read")
			}
			return ctx.Err()
		},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- call(ctx) }()
		<-streams
		cancel()
		select {
		case err := <-ended:
			if !errors.Is(err, context.Canceled) {
				t.Errorf("%s: %v, want the end of the context", name, err)
			}
		case <-within(t).Done():
			t.Fatalf("%s goes on", name)
		}
	}
}

// A slow answer is waited for: the other side is there.
func TestASlowServerIsWaitedFor(t *testing.T) {
	_, addr := serve(t, nil)
	p := pool(t, rpc.PoolConfig{Patience: hasty.Patience, AnswerWithin: time.Minute}) // it may be on a machine that is busy
	ctx, cancel := context.WithTimeout(context.Background(), 10*hasty.Patience)
	defer cancel()
	if err := p.Call(ctx, addr, "Test.Wait", &nomad.GenericRequest{}, nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Call() = %v, want it to wait until the caller gave up", err)
	}
	p.Check(addr)
	if err := p.Call(within(t), addr, "Test.Get", ask("n", ""), nil); err != nil {
		t.Errorf("the next call: %v", err)
	}
}

// A stream goes over the session of calls, and keeps it in use.
func TestAStreamKeepsItsSession(t *testing.T) {
	_, addr := serve(t, func(c *rpc.Config) { c.MaxConnsPerAddr = 1 })
	p := pool(t, rpc.PoolConfig{IdleTimeout: 20 * time.Millisecond})
	st, err := p.Stream(within(t), addr, "Test.Echo")
	if err != nil {
		t.Fatal(err)
	}
	var got nomad.StreamErrWrapper
	if err := errors.Join(st.Encode(&nomad.FsStreamRequest{Path: "x"}), st.Decode(&got)); err != nil {
		t.Fatal(err)
	}
	idle := time.NewTimer(100 * time.Millisecond)
	defer idle.Stop()
	<-idle.C // several idle times pass
	if err := errors.Join(st.Encode(&got), st.Decode(&got)); err != nil || string(got.Payload) != "x" {
		t.Errorf("the idle stream: %q, %v", got.Payload, err)
	}
	if err := p.Call(within(t), addr, "Test.Get", ask("n", ""), nil); err != nil {
		t.Errorf("a call beside the stream: %v", err)
	}
	st.Close()
}

// takesRaft holds the connections that it is given.
type takesRaft chan net.Conn

func (r takesRaft) HandOff(conn net.Conn) { r <- conn }

// Connections of Raft count among those of an address until they are closed.
func TestRaftConnectionsAreCounted(t *testing.T) {
	got := make(takesRaft, 2)
	_, addr := serve(t, func(c *rpc.Config) { c.MaxConnsPerAddr, c.Raft = 1, got })
	dial := func() net.Conn {
		conn, err := net.Dial("tcp", addr)
		if err == nil {
			_, err = conn.Write([]byte{2})
		}
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		return conn
	}
	dial()
	held := <-got
	if _, err := dial().Read(make([]byte, 1)); err == nil {
		t.Error("a second connection was taken")
	}
	held.Close()
	held.Close() // twice gives one place free
	for done := false; !done; {
		conn := dial()
		select {
		case <-got:
			done = true
		case <-closed(conn):
		case <-within(t).Done():
			t.Fatal("no connection is taken after the first ended")
		}
	}
}

// closed is closed when the other side closed the connection.
func closed(conn net.Conn) <-chan struct{} {
	c := make(chan struct{})
	go func() {
		defer close(c)
		conn.Read(make([]byte, 1)) // its end is what counts
	}()
	return c
}
