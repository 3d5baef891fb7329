package rpc

import (
	"bytes"
	"io"
	"net"
	"sync"
	"testing"

	"github.com/hashicorp/yamux"
)

// writeCounter counts what is written to it.
type writeCounter struct {
	net.Conn
	mu     sync.Mutex
	writes int
}

func (c *writeCounter) Write(p []byte) (int, error) {
	c.mu.Lock()
	c.writes++
	c.mu.Unlock()
	return c.Conn.Write(p)
}

func (c *writeCounter) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.writes
}

// What is sent over a session arrives as it was, whatever its size, each small piece
// by one write.
func TestJoinedWrites(t *testing.T) {
	near, far := net.Pipe()
	counted := &writeCounter{Conn: near}
	cfg := yamux.DefaultConfig()
	cfg.EnableKeepAlive = false
	cfg.LogOutput = io.Discard
	out, err := yamux.Client(&joinedConn{Conn: counted}, cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	in, err := yamux.Server(&joinedConn{Conn: far}, cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	stream, err := out.OpenStream()
	if err != nil {
		t.Fatal(err)
	}
	other, err := in.AcceptStream()
	if err != nil {
		t.Fatal(err)
	}
	for _, size := range []int{1, frameHeader, 100, joinedMost, joinedMost + 1, 200 << 10} {
		piece := bytes.Repeat([]byte{byte(size), 0, 0}, size/3+1)[:size]
		before := counted.count()
		if _, err := stream.Write(piece); err != nil {
			t.Fatal(err)
		}
		got := make([]byte, size)
		if _, err := io.ReadFull(other, got); err != nil || !bytes.Equal(got, piece) {
			t.Fatalf("%d bytes arrive as others: %v", size, err)
		}
		if writes := counted.count() - before; size <= joinedMost && writes != 1 {
			t.Errorf("%d bytes were sent by %d writes", size, writes)
		}
		if _, err := other.Write(piece); err != nil { // the session goes on both ways
			t.Fatal(err)
		}
		if _, err := io.ReadFull(stream, got); err != nil {
			t.Fatal(err)
		}
	}
}
