package rpc_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/yamux"

	"github.com/open-nomad/open-nomad/nomad/codec"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rpc"
)

// callBytes returns the encoding of a call: a header and a body.
func callBytes(t *testing.T, method string, body any) []byte {
	t.Helper()
	head, err := codec.Encode(map[string]any{"ServiceMethod": method, "Seq": 1})
	if err != nil {
		t.Fatal(err)
	}
	b, err := codec.Encode(body)
	if err != nil {
		t.Fatal(err)
	}
	return append(head, b...)
}

// unfinished returns a call whose body claims n bytes, of which have are included.
func unfinished(t *testing.T, n uint32, have int) []byte {
	t.Helper()
	wire := append([]byte{0x01}, callBytes(t, "Test.Get", map[string]any{})...)
	wire = append(wire[:len(wire)-1], 0x81, 0xa6)
	wire = append(append(wire, "NodeID"...), 0xdb)
	return append(binary.BigEndian.AppendUint32(wire, n), bytes.Repeat([]byte{'x'}, have)...)
}

// ends reads from a connection until the server closes it.
func ends(t *testing.T, name string, conn net.Conn) {
	t.Helper()
	if _, err := io.Copy(io.Discard, conn); isTimeout(err) {
		t.Errorf("%s: the connection stays open", name)
	}
}

// The server closes the connection of an incomplete request, wherever it stops. It keeps a
// stream between two requests.
func TestServe_IncompleteRequests(t *testing.T) {
	_, addr := serve(t, func(c *rpc.Config) { c.FrameTimeout = 50 * time.Millisecond })
	p := pool(t, rpc.PoolConfig{})
	if err := p.Call(within(t), addr, "Test.Get", ask("n", "me"), nil); err != nil {
		t.Fatal(err)
	}
	complete := append([]byte{0x01}, callBytes(t, "Test.Get", ask("n", "me"))...)
	for name, wire := range map[string][]byte{
		"no request":            {0x01},
		"half a header":         complete[:5],
		"no body":               complete[:len(callBytes(t, "Test.Get", nil))],
		"half a body":           complete[:len(complete)-3],
		"a large body":          unfinished(t, 1<<20, 200_000),
		"half a second request": append(complete[:len(complete):len(complete)], complete[1:9]...),
		"half a stream header":  {0x05, 0x81, 0xa6},
		"no stream request":     append([]byte{0x05}, streamHead(t, "Test.Echo")...),
	} {
		conn := dial(t, addr)
		if _, err := conn.Write(wire); err != nil {
			t.Fatal(err)
		}
		ends(t, name, conn)
	}
	var out message.SingleNodeResponse
	if err := p.Call(within(t), addr, "Test.Get", ask("n2", "me"), &out); err != nil || out.Node.ID != "n2" {
		t.Errorf("a call over a session that was idle: %+v, %v", out.Node, err)
	}
}

func streamHead(t *testing.T, method string) []byte {
	t.Helper()
	b, err := codec.Encode(map[string]any{"Method": method})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// A large request gets more time than a small one while data arrives.
func TestServe_LargeRequests(t *testing.T) {
	_, addr := serve(t, func(c *rpc.Config) { c.FrameTimeout = 100 * time.Millisecond })
	conn := dial(t, addr)
	req := ask(string(bytes.Repeat([]byte{'x'}, 1<<20)), "me")
	wire := append([]byte{0x01}, callBytes(t, "Test.Get", req)...)
	half := len(wire) / 2
	if _, err := conn.Write(wire[:half]); err != nil {
		t.Fatal(err)
	}
	other := dial(t, addr) // it ends after the timeout of a small request, and before this one
	if _, err := other.Write(wire[:9]); err != nil {
		t.Fatal(err)
	}
	ends(t, "half a header", other)
	if _, err := conn.Write(wire[half:]); err != nil {
		t.Fatal(err)
	}
	if n, err := io.ReadFull(conn, make([]byte, 1<<20)); err != nil {
		t.Errorf("the reply to a slow request: %d bytes, %v", n, err)
	}
}

// Incomplete requests of unauthenticated callers share a memory budget, however many there are.
// Other callers are served meanwhile.
func TestServe_UnfinishedRequests(t *testing.T) {
	const conns = 300
	_, addr := serve(t, func(c *rpc.Config) {
		c.FrameTimeout, c.MaxConnsPerAddr = 2*time.Second, -1
	})
	p := pool(t, rpc.PoolConfig{})
	if err := p.Call(within(t), addr, "Test.Get", ask("n", "me"), nil); err != nil {
		t.Fatal(err)
	}
	wire := unfinished(t, 2<<20, 1<<20)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	var wg sync.WaitGroup
	for i := range conns {
		conn := dial(t, addr)
		wg.Go(func() {
			conn.Write(wire) // the server may close the connection meanwhile
			ends(t, fmt.Sprintf("connection %d", i), conn)
		})
	}
	if err := p.Call(within(t), addr, "Test.Get", ask(string(bytes.Repeat([]byte{'y'}, 1<<20)), "me"), nil); err != nil {
		t.Errorf("a large call of an authenticated caller: %v", err)
	}
	wg.Wait()
	runtime.ReadMemStats(&after)
	if used := after.TotalAlloc - before.TotalAlloc; used > 384<<20 {
		t.Errorf("%d unfinished requests of 1 MB allocated %d MB", conns, used>>20)
	}
}

// muxTo opens a session to a server.
func muxTo(t *testing.T, addr string) *yamux.Session {
	t.Helper()
	conn := dial(t, addr)
	if _, err := conn.Write([]byte{0x03}); err != nil {
		t.Fatal(err)
	}
	s, err := yamux.Client(conn, quietMux())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// onStream makes a call over a new stream and keeps the stream open.
func onStream(t *testing.T, s *yamux.Session, token string) error {
	t.Helper()
	stream, err := s.OpenStream()
	if err != nil {
		return err
	}
	if _, err := stream.Write(callBytes(t, "Test.Get", ask("n", token))); err != nil {
		return err
	}
	_, err = stream.Read(make([]byte, 4096))
	return err
}

// Before the first authenticated call, a session has a limited number of streams, and a session
// without streams is closed.
func TestUnauthenticated_Streams(t *testing.T) {
	_, addr := serve(t, func(c *rpc.Config) { c.FrameTimeout = 50 * time.Millisecond })
	<-muxTo(t, addr).CloseChan()
	for _, c := range []struct {
		token string
		many  bool
	}{{"", false}, {"bad", false}, {"me", true}} {
		s, n, err := muxTo(t, addr), 0, error(nil)
		for ; n < 1200 && err == nil; n++ {
			err = onStream(t, s, c.token)
		}
		if (err == nil) != c.many {
			t.Errorf("%d streams with the token %q: %v", n, c.token, err)
		}
	}
}

// Streams that send no request end in time. Others wait for their slots.
func TestUnauthenticated_NewStreams(t *testing.T) {
	_, addr := serve(t, func(c *rpc.Config) { c.FrameTimeout = 50 * time.Millisecond })
	s := muxTo(t, addr)
	var silent []*yamux.Stream
	for range 40 {
		stream, err := s.OpenStream()
		if err != nil {
			t.Fatal(err)
		}
		silent = append(silent, stream)
	}
	if err := onStream(t, s, "me"); err != nil {
		t.Fatal(err)
	}
	ended := 0
	for _, stream := range silent {
		stream.SetReadDeadline(time.Now())
		if _, err := stream.Read(make([]byte, 1)); errors.Is(err, io.EOF) {
			ended++
		}
	}
	if ended < 9 {
		t.Errorf("a call was answered when %d of 40 silent streams had ended: 32 may be open at a time", ended)
	}
}

func quietMux() *yamux.Config {
	cfg := yamux.DefaultConfig()
	cfg.LogOutput = io.Discard
	return cfg
}
