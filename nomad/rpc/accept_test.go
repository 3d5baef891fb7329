package rpc_test

import (
	"bufio"
	"context"
	"log/slog"
	"net"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	msgpack "github.com/hashicorp/go-msgpack/v2/codec"

	"github.com/open-nomad/open-nomad/nomad/codec"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rpc"
)

// exhausted is a listener of a process without free descriptors: only one accept in ten
// succeeds.
type exhausted struct {
	until time.Time
	conns chan net.Conn
	calls int
}

func (l *exhausted) Accept() (net.Conn, error) {
	if l.calls++; time.Now().Before(l.until) && l.calls%10 != 0 {
		return nil, &net.OpError{Op: "accept", Net: "tcp", Err: os.NewSyscallError("accept4", syscall.EMFILE)}
	}
	conn, ok := <-l.conns
	if !ok {
		return nil, net.ErrClosed
	}
	return conn, nil
}

func (l *exhausted) Close() error   { close(l.conns); return nil }
func (l *exhausted) Addr() net.Addr { return &net.TCPAddr{} }

// records counts the log lines with a message.
type records struct {
	mu   sync.Mutex
	seen map[string]int
}

func (r *records) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if strings.Contains(string(p), "accept rpc connection") {
		r.seen["accept"]++
	}
	return len(p), nil
}

// An agent without free descriptors logs this at intervals and does not spin. It answers once
// descriptors are free.
func TestServe_NoDescriptors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &records{seen: map[string]int{}}
		s, err := rpc.NewServer(rpc.Config{Methods: methods(), Auth: everybody{}, Log: slog.New(slog.NewTextHandler(log, nil))})
		if err != nil {
			t.Fatal(err)
		}
		ln := &exhausted{until: time.Now().Add(time.Minute), conns: make(chan net.Conn, 1000)}
		for range 1000 {
			near, far := net.Pipe()
			near.Close()
			ln.conns <- far
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- s.Serve(ctx, ln) }()
		time.Sleep(2 * time.Minute) // synthetic time
		near, far := net.Pipe()
		ln.conns <- far
		if _, err := near.Write(append([]byte{0x01}, callBytes(t, "Test.Get", ask("n", "me"))...)); err != nil {
			t.Fatal(err)
		}
		var head struct{ Error string }
		var out message.SingleNodeResponse
		dec := msgpack.NewDecoder(bufio.NewReader(near), codec.MsgpackHandle)
		if err := dec.Decode(&head); err != nil {
			t.Fatal(err)
		}
		if err := dec.Decode(&out); err != nil || out.Node.ID != "n" {
			t.Errorf("a call after the shortage: %q, %+v, %v", head.Error, out.Node, err)
		}
		near.Close()
		cancel()
		if err := <-ended; err != context.Canceled {
			t.Errorf("Serve() = %v", err)
		}
		log.mu.Lock()
		defer log.mu.Unlock()
		if n := log.seen["accept"]; n < 1 || n > 7 {
			t.Errorf("two minutes without descriptors were logged %d times, want once per 10 s", n)
		}
		if ln.calls > 20_000 {
			t.Errorf("%d tries to accept", ln.calls)
		}
	})
}
