// Package testpeer puts a strict proxy before an RPC server, for tests. The proxy answers and closes
// streams like a server of Nomad 2.0:
//
//   - A call of a method that the server does not have gets an error text of Go's net/rpc, and then the
//     stream is closed.
//   - So does a call whose arguments cannot be decoded.
//   - After any other error the stream stays open.
//
// A caller that uses a closed stream again gets io.EOF, and its request is lost.
package testpeer

import (
	"bufio"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	msgpack "github.com/hashicorp/go-msgpack/v2/codec"
	"github.com/hashicorp/yamux"

	"github.com/open-nomad/open-nomad/internal/testnet"
	"github.com/open-nomad/open-nomad/nomad/codec"
)

// The type byte of a connection or stream with calls.
const byteCalls = 0x01

// The beginnings of the errors of net/rpc about a method, and of an error about arguments.
const (
	noService = "rpc: can't find service "
	noMethod  = "rpc: can't find method "
	badArgs   = "msgpack decode error [pos 1]: "
)

// Strict is a running proxy.
type Strict struct {
	backend string
	lacks   []string
	ln      net.Listener
	lost    atomic.Int32

	mu      sync.Mutex
	garbled []string
	conns   []net.Conn
}

// New starts a proxy before the server at the address. It ends with the test. lacks are methods
// (Service.Method) or services that the proxy answers as unknown, even if the server has them.
func New(t testing.TB, backend string, lacks ...string) *Strict {
	t.Helper()
	s := &Strict{backend: backend, lacks: lacks, ln: testnet.Listen(t)}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			conn, err := s.ln.Accept()
			if err != nil {
				return
			}
			s.keep(conn)
			wg.Go(func() { s.serve(conn, &wg) })
		}
	})
	t.Cleanup(func() {
		s.ln.Close()
		s.mu.Lock()
		conns := s.conns
		s.mu.Unlock()
		for _, conn := range conns {
			conn.Close()
		}
		wg.Wait()
	})
	return s
}

// Addr returns the address of the proxy.
func (s *Strict) Addr() string { return s.ln.Addr().String() }

// Lost returns how many calls arrived on streams that the proxy had already closed.
func (s *Strict) Lost() int { return int(s.lost.Load()) }

// Garble makes the proxy answer calls of the method as if it could not decode their arguments.
func (s *Strict) Garble(method string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.garbled = append(s.garbled, method)
}

// keep records a connection, which is closed at the end of the test.
func (s *Strict) keep(conn net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.conns = append(s.conns, conn)
}

// serve answers the streams of a connection.
func (s *Strict) serve(conn net.Conn, wg *sync.WaitGroup) {
	defer conn.Close()
	if _, err := io.ReadFull(conn, make([]byte, 1)); err != nil { // the type of the connection
		return
	}
	cfg := yamux.DefaultConfig()
	cfg.LogOutput = io.Discard
	session, err := yamux.Server(conn, cfg)
	if err != nil {
		return
	}
	defer session.Close()
	for {
		stream, err := session.AcceptStream()
		if err != nil {
			return
		}
		wg.Go(func() { s.answer(stream) })
	}
}

// answer answers the calls of a stream, until one of them ends it.
func (s *Strict) answer(stream net.Conn) {
	defer stream.Close()
	if _, err := io.ReadFull(stream, make([]byte, 1)); err != nil { // the type of the stream
		return
	}
	server, err := net.Dial("tcp", s.backend)
	if err != nil {
		return
	}
	s.keep(server)
	defer server.Close()
	if _, err := server.Write([]byte{byteCalls}); err != nil {
		return
	}
	asked, answered := bufio.NewReader(stream), bufio.NewReader(server)
	for s.relay(stream, asked, server, answered) {
	}
	stream.Close() // this side; the caller may still send
	if _, err := asked.ReadByte(); err == nil {
		s.lost.Add(1)
	}
}

// header is the first value of a request, and of a response.
type header struct {
	ServiceMethod string
	Seq           uint64
	Error         string
}

// relay answers one call and reports whether the stream stays open.
func (s *Strict) relay(stream net.Conn, asked *bufio.Reader, server net.Conn, answered *bufio.Reader) bool {
	call, raw, err := readPair(asked)
	if err != nil {
		return false
	}
	if text := s.refusal(call.ServiceMethod); text != "" {
		return writeError(stream, call, text) == nil && false
	}
	if _, err := server.Write(raw); err != nil {
		return false
	}
	reply, raw, err := readPair(answered)
	if err != nil {
		return false
	}
	if _, err := stream.Write(raw); err != nil {
		return false
	}
	return !strings.HasPrefix(reply.Error, noService) && !strings.HasPrefix(reply.Error, noMethod)
}

// refusal returns the error of a call that the proxy itself answers, or "".
func (s *Strict) refusal(method string) string {
	service, _, _ := strings.Cut(method, ".")
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case slices.Contains(s.lacks, service):
		return noService + method
	case slices.Contains(s.lacks, method):
		return noMethod + method
	case slices.Contains(s.garbled, method):
		return badArgs + "cannot decode the arguments"
	}
	return ""
}

// writeError answers a call with an error and an empty value.
func writeError(w io.Writer, call header, text string) error {
	head, err := codec.Encode(&header{ServiceMethod: call.ServiceMethod, Seq: call.Seq, Error: text})
	if err != nil {
		return err
	}
	_, err = w.Write(append(head, 0x80))
	return err
}

// readPair reads a header and the value that follows it. raw holds both as they arrived.
func readPair(r *bufio.Reader) (h header, raw []byte, err error) {
	dec := msgpack.NewDecoder(r, codec.MsgpackHandle)
	var head, body msgpack.Raw
	if err := dec.Decode(&head); err != nil {
		return h, nil, err
	}
	if err := dec.Decode(&body); err != nil {
		return h, nil, err
	}
	err = codec.Decode(head, &h)
	return h, append(append(raw, head...), body...), err
}
