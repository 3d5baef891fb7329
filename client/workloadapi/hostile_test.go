package workloadapi_test

import (
	"bytes"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// headers returns the header block of a call of FetchX509Bundles. Each of the repeated fields takes one byte, and
// about 80 bytes in the memory of the server.
func headers(t *testing.T, repeated int) []byte {
	t.Helper()
	var block bytes.Buffer
	enc := hpack.NewEncoder(&block)
	for _, f := range []struct{ name, value string }{{":method", "POST"}, {":scheme", "http"}, {":authority", "localhost"},
		{":path", "/SpiffeWorkloadAPI/FetchX509Bundles"}, {"content-type", "application/grpc"}, {"te", "trailers"},
		{"workload.spiffe.io", "true"}} {
		if err := enc.WriteField(hpack.HeaderField{Name: f.name, Value: f.value}); err != nil {
			t.Fatal(err)
		}
	}
	for range repeated {
		if err := enc.WriteField(hpack.HeaderField{Name: "x", Value: "y"}); err != nil {
			t.Fatal(err)
		}
	}
	return block.Bytes()
}

// call sends a header block and an empty message over a connection of its own. It reports whether the server answers
// the call, and does not reset it.
func call(t *testing.T, addr string, block []byte) bool {
	t.Helper()
	conn, err := net.Dial("unix", strings.TrimPrefix(addr, "unix://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(conn, http2.ClientPreface); err != nil {
		t.Fatal(err)
	}
	f := http2.NewFramer(conn, conn)
	const frame = 16 << 10
	err = f.WriteSettings()
	first, rest := block[:min(frame, len(block))], block[min(frame, len(block)):]
	err = errors.Join(err, f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: first, EndHeaders: len(rest) == 0}))
	for len(rest) > 0 && err == nil {
		first, rest = rest[:min(frame, len(rest))], rest[min(frame, len(rest)):]
		err = f.WriteContinuation(1, len(rest) == 0, first)
	}
	if err == nil {
		err = f.WriteData(1, true, make([]byte, 5))
	}
	if err != nil {
		return false // the server has closed the connection
	}
	for {
		frame, err := f.ReadFrame()
		if err != nil {
			return false
		}
		switch frame.(type) {
		case *http2.DataFrame:
			return true
		case *http2.RSTStreamFrame, *http2.GoAwayFrame:
			return false
		}
	}
}

// TestLongHeaders checks that a task cannot fill the memory of the agent with the headers of calls that never end.
func TestLongHeaders(t *testing.T) {
	addr := serve(t, newServers(t), inGroup(t))
	if !call(t, addr, headers(t, 10)) {
		t.Error("a call with few headers is refused")
	}
	for _, n := range []int{1_000, 400_000} {
		if call(t, addr, headers(t, n)) {
			t.Errorf("a call with %d more headers is answered", n)
		}
	}
}
