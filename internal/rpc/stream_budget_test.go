package rpc

import (
	"bytes"
	"context"
	"encoding/binary"
	"net"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/nomad"
)

// The request of a stream is charged while it is read, as that of a call.
func TestStreamRequestsAreCharged(t *testing.T) {
	m := HandleStream("Test.Stream", Anonymous, Here, func(context.Context, *Call, *nomad.NodeSpecificRequest, *Stream) error { return nil })
	s, err := NewServer(Config{Methods: []Method{m}, Auth: TrustPeer{}})
	if err != nil {
		t.Fatal(err)
	}
	all := func() bool {
		ok := s.strangerReading.used.TryAcquire(strangeReading)
		if ok {
			s.strangerReading.used.Release(strangeReading)
		}
		return ok
	}
	near, far := net.Pipe() // a write returns when the other side has read it
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.runStream(t.Context(), s.methods["Test.Stream"], &Conn{owner: s.nodes}, NewStream(far))
	}()
	near.SetDeadline(time.Now().Add(time.Minute))
	begun := append([]byte{0x81, 0xa6}, "NodeID\xdb"...)
	begun = append(binary.BigEndian.AppendUint32(begun, 100<<10), bytes.Repeat([]byte{'x'}, 90<<10)...)
	if _, err := near.Write(begun); err != nil {
		t.Fatal(err)
	}
	if all() {
		t.Error("a request of 100 KiB that is being read is not charged")
	}
	near.Close()
	<-done
	if !all() {
		t.Error("a request whose stream has ended is still charged")
	}
}
