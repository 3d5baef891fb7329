package rpc_test

import (
	"bytes"
	"testing"

	"github.com/hashicorp/yamux"
)

// fill opens streams, each with an incomplete call of a full window. It returns how many were
// accepted before the server closed the session.
func fill(t *testing.T, s *yamux.Session, streams int) int {
	t.Helper()
	part := unfinished(t, 2<<20, 255<<10)[1:]
	for n := range streams {
		stream, err := s.OpenStream()
		if err != nil {
			return n
		}
		if _, err := stream.Write(part); err != nil {
			return n
		}
	}
	return streams
}

// Before the first authenticated call, the unread data of a session is limited, whatever the
// number of its streams. All such sessions share a budget.
func TestUnread_BeforeAuthentication(t *testing.T) {
	const streams = 200 // 50 MiB, of which the server reads 32 streams
	_, addr := serve(t, nil)
	if n := fill(t, muxTo(t, addr), streams); n == streams {
		t.Errorf("an unauthenticated session opened %d streams with 255 KiB each", n)
	}
	known := muxTo(t, addr)
	if err := onStream(t, known, "me"); err != nil {
		t.Fatal(err)
	}
	if n := fill(t, known, streams); n != streams {
		t.Errorf("a session of an authenticated caller was closed after %d streams", n)
	}
	if err := onStream(t, known, "me"); err != nil {
		t.Errorf("a concurrent call: %v", err)
	}
}

// Data that was read no longer counts: an unauthenticated caller may send many large requests.
func TestUnread_ReadData(t *testing.T) {
	_, addr := serve(t, nil)
	s := muxTo(t, addr)
	for range 3 {
		stream, err := s.OpenStream()
		if err != nil {
			t.Fatal(err)
		}
		call := callBytes(t, "Test.Open", ask(string(bytes.Repeat([]byte{'x'}, 3<<20)), ""))
		for n := range 4 {
			if _, err := stream.Write(call); err != nil {
				t.Fatalf("request %d: %v", n, err)
			}
			reply := make([]byte, 3<<20)
			for got := 0; got < len(reply); {
				n, err := stream.Read(reply[got:])
				if err != nil {
					t.Fatal(err)
				}
				got += n
			}
		}
		stream.Close()
	}
}
