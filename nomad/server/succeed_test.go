package server_test

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/internal/testnet"
	"github.com/open-nomad/open-nomad/nomad/server"
)

// stub is a leader whose connections and listener end when the test closes them.
type stub struct {
	ln    net.Listener
	conns chan net.Conn
}

func newStub(t *testing.T) *stub {
	s := &stub{ln: testnet.Listen(t), conns: make(chan net.Conn, 16)}
	go func() {
		for {
			conn, err := s.ln.Accept()
			if err != nil {
				return
			}
			s.conns <- conn
		}
	}()
	return s
}

// openConn returns the connection that is held.
func (s *stub) openConn(t *testing.T) net.Conn {
	t.Helper()
	select {
	case conn := <-s.conns:
		return conn
	case <-time.After(time.Minute):
		t.Fatal("nobody connects")
		return nil
	}
}

// A process that dies may close its connections before its listener. Another accepted
// connection in between does not mean that it is alive.
func TestLost_AcceptedConnection(t *testing.T) {
	leader := newStub(t)
	lost := make(chan bool, 1)
	go func() { lost <- server.Lost(t.Context(), nil, leader.ln.Addr().String()) }()
	leader.openConn(t).Close()
	leader.openConn(t).Close()
	last := leader.openConn(t)
	if len(lost) > 0 {
		t.Fatalf("the leader is reported lost (%v) while it accepts connections", <-lost)
	}
	leader.ln.Close()
	last.Close()
	select {
	case is := <-lost:
		if !is {
			t.Error("the leader refuses connections and is not reported lost")
		}
	case <-time.After(time.Minute):
		t.Fatal("the leader refuses connections, but Lost does not return")
	}
}

// A leader that breaks connections and accepts others is alive until there is another leader.
func TestLost_BrokenConnections(t *testing.T) {
	leader := newStub(t)
	changed := make(chan struct{})
	lost := make(chan bool, 1)
	go func() { lost <- server.Lost(context.Background(), changed, leader.ln.Addr().String()) }()
	for range 3 {
		leader.openConn(t).Close()
	}
	close(changed)
	if <-lost {
		t.Error("a leader that accepts connections is reported lost")
	}
}
