package rpc_test

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/hashicorp/yamux"

	"github.com/open-nomad/open-nomad/internal/testnet"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rpc"
	"github.com/open-nomad/open-nomad/nomad/rpc/wire"
)

// hung accepts connections and answers nothing, like a stopped process.
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

// hasty pings the peer after a short time.
var hasty = rpc.PoolConfig{Patience: 20 * time.Millisecond, AnswerWithin: 50 * time.Millisecond}

func TestPool_HungServer(t *testing.T) {
	addr := hung(t)
	for name, c := range map[string]struct {
		call func(*rpc.Pool) error
		want error
	}{
		"read":  {func(p *rpc.Pool) error { return p.Call(within(t), addr, "Test.Get", ask("n", ""), nil) }, apierror.ErrLost},
		"write": {func(p *rpc.Pool) error { return p.Call(within(t), addr, "Job.Register", write(), nil) }, apierror.ErrMaybeApplied},
		"stream": {func(p *rpc.Pool) error {
			_, err := p.Stream(within(t), addr, "Test.Echo")
			return err
		}, apierror.ErrLost},
		"checked": {func(p *rpc.Pool) error {
			ended := make(chan error)
			blocking := &message.GenericRequest{QueryOptions: message.QueryOptions{MinQueryIndex: 1}}
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
		}, apierror.ErrLost},
	} {
		t.Run(name, func(t *testing.T) {
			err := c.call(pool(t, hasty))
			if !errors.Is(err, c.want) || !rpc.Lost(err) {
				t.Errorf("got %v, want %v", err, c.want)
			}
		})
	}
}

// keeping answers nothing and closes no stream, like a server during a blocking query. It
// reports each stream.
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
		conn.Read(make([]byte, 1)) // the type byte of the connection
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

// The end of a context ends a call and a stream at once, although the peer keeps its side open.
func TestPool_EndsCalls(t *testing.T) {
	addr, streams := keeping(t)
	p := pool(t, rpc.PoolConfig{Mux: wire.Mux{CloseTimeout: time.Hour}})
	for name, call := range map[string]func(context.Context) error{
		"call": func(ctx context.Context) error { return p.Call(ctx, addr, "Test.Wait", &message.GenericRequest{}, nil) },
		"stream": func(ctx context.Context) error {
			s, err := p.Stream(ctx, addr, "Test.Echo")
			if err != nil {
				return err
			}
			if err := s.Decode(new(message.StreamErrWrapper)); err == nil {
				return errors.New("unexpected data")
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
			t.Fatalf("%s does not end", name)
		}
	}
}

// A slow answer is awaited as long as the peer answers pings.
func TestPool_SlowServer(t *testing.T) {
	_, addr := serve(t, nil)
	p := pool(t, rpc.PoolConfig{Patience: hasty.Patience, AnswerWithin: time.Minute}) // it may be on a busy machine
	ctx, cancel := context.WithTimeout(context.Background(), 10*hasty.Patience)
	defer cancel()
	if err := p.Call(ctx, addr, "Test.Wait", &message.GenericRequest{}, nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Call() = %v, want it to wait until the caller gave up", err)
	}
	p.Check(addr)
	if err := p.Call(within(t), addr, "Test.Get", ask("n", ""), nil); err != nil {
		t.Errorf("the next call: %v", err)
	}
}

// A stream uses the session of calls and keeps it from being idle.
func TestPool_StreamKeepsSession(t *testing.T) {
	_, addr := serve(t, func(c *rpc.Config) { c.MaxConnsPerAddr = 1 })
	p := pool(t, rpc.PoolConfig{IdleTimeout: 20 * time.Millisecond})
	st, err := p.Stream(within(t), addr, "Test.Echo")
	if err != nil {
		t.Fatal(err)
	}
	var got message.StreamErrWrapper
	if err := errors.Join(st.Encode(&message.FsStreamRequest{Path: "x"}), st.Decode(&got)); err != nil {
		t.Fatal(err)
	}
	idle := time.NewTimer(100 * time.Millisecond)
	defer idle.Stop()
	<-idle.C // several idle times pass
	if err := errors.Join(st.Encode(&got), st.Decode(&got)); err != nil || string(got.Payload) != "x" {
		t.Errorf("the idle stream: %q, %v", got.Payload, err)
	}
	if err := p.Call(within(t), addr, "Test.Get", ask("n", ""), nil); err != nil {
		t.Errorf("a call during the stream: %v", err)
	}
	st.Close()
}

// takesRaft receives and holds Raft connections.
type takesRaft chan net.Conn

func (r takesRaft) HandOff(conn net.Conn) { r <- conn }

// Raft connections count towards the limit of an address until they are closed.
func TestRaft_Counted(t *testing.T) {
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
		t.Error("a second connection was accepted")
	}
	held.Close()
	held.Close() // a second Close releases only one slot
	for done := false; !done; {
		conn := dial()
		select {
		case <-got:
			done = true
		case <-closed(conn):
		case <-within(t).Done():
			t.Fatal("no connection is accepted after the first ended")
		}
	}
}

// closed returns a channel that is closed when the peer has closed the connection.
func closed(conn net.Conn) <-chan struct{} {
	c := make(chan struct{})
	go func() {
		defer close(c)
		conn.Read(make([]byte, 1)) // only the end matters
	}()
	return c
}
