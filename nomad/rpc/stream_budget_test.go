package rpc

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"net"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rpc/wire"
)

// The request of a stream is charged while it is read, like that of a call.
func TestBudget_StreamRequest(t *testing.T) {
	m := HandleStream("Test.Stream", Anonymous, Here, func(context.Context, *Call, *message.NodeSpecificRequest, *Stream) error { return nil })
	s, err := NewServer(Config{Methods: []Method{m}, Auth: TrustPeer{}})
	if err != nil {
		t.Fatal(err)
	}
	all := func() bool {
		ok := s.unauthenticatedReading.TryTake(readingUnauthenticated)
		if ok {
			s.unauthenticatedReading.Release(readingUnauthenticated)
		}
		return ok
	}
	near, far := net.Pipe() // a write returns after the other side has read it
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

// TestBudget_WaitingRequest checks that the charge of a request is released if its stream
// ends before its call begins.
func TestBudget_WaitingRequest(t *testing.T) {
	release := make(chan struct{})
	m := Handle("Test.Block", Anonymous, Here, func(context.Context, *Call, *message.NodeSpecificRequest) (*message.GenericResponse, error) {
		<-release
		return &message.GenericResponse{}, nil
	})
	s, err := NewServer(Config{Methods: []Method{m}, Auth: TrustPeer{}})
	if err != nil {
		t.Fatal(err)
	}
	near, far := net.Pipe()
	defer near.Close()
	near.SetDeadline(time.Now().Add(time.Minute))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	arrived, done := make(chan struct{}, maxPipelinedUnauthenticated+1), make(chan struct{})
	go func() {
		defer close(done)
		s.serveCalls(ctx, &Conn{owner: s.nodes}, far, func() { arrived <- struct{}{} })
	}()
	for n := range maxPipelinedUnauthenticated + 1 {
		req := &message.NodeSpecificRequest{}
		if n == maxPipelinedUnauthenticated {
			req.NodeID = string(bytes.Repeat([]byte{'x'}, 100<<10))
		}
		if err := wire.WritePair(near, &wire.RequestHeader{ServiceMethod: "Test.Block", Seq: uint64(n)}, req); err != nil {
			t.Fatal(err)
		}
		<-arrived
	}
	if s.unauthenticatedReading.TryTake(readingUnauthenticated) {
		t.Fatal("a request of 100 KiB waiting for its call is not charged")
	}
	cancel()
	limit, stop := context.WithTimeout(t.Context(), 10*time.Second)
	defer stop()
	if err := s.unauthenticatedReading.Take(limit, readingUnauthenticated, time.Minute); err != nil {
		t.Errorf("a request whose stream has ended is still charged: %v", err)
	}
	close(release)
	go io.Copy(io.Discard, near) // the replies of the calls that ran
	<-done
}
