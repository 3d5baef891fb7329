// Package wire is the protocol between the agent and its supervisor: the messages, the socket, and the secret that
// authenticates a connection. Both sides import it. It executes no request.
//
//	frame    = 4-byte big-endian length, JSON
//	request  = frame of a Request, with Apart two more frames: the policy of its Spec and its Declared, unencoded
//	answer   = frame of a Response with the Seq of its request; answers arrive in any order
//
// The first request of a connection is a hello with the Secret of the directory, since tasks of a rootless agent have
// the uid of the agent. Supervisors and agents of different builds meet during an upgrade: fields are added, never
// changed. The package starts no goroutine.
package wire

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/open-nomad/open-nomad/internal/supervise/proc"
)

// Operations of a request.
const (
	OpHello    = "hello"    // Secret → Program, Apart, Guarded, Sockets; the first request of a connection
	OpStart    = "start"    // Spec → Task
	OpCollect  = "collect"  // ID, Spec with Logs only → Task with Pipes; repeatable
	OpList     = "list"     // Faulty → Tasks
	OpTask     = "task"     // ID, Brief → Task
	OpWait     = "wait"     // ID → Task with Exit, when it ended
	OpSignal   = "signal"   // ID, Signal, Main
	OpKill     = "kill"     // ID; answered when the task ended
	OpForget   = "forget"   // ID of an exited task
	OpUpgrade  = "upgrade"  // Path, Program; no answer: the connection closes
	OpShutdown = "shutdown" // kills every task, ends; no answer
	OpStopIdle = "rest"     // ends, unless a task runs or another client is connected
	OpKeep     = "keep"     // Sockets, instead of those kept before
)

// Request is a message of the agent.
type Request struct {
	Seq      uint64
	Op       string
	Separate bool       `json:"Apart,omitempty"` // two frames follow: the policy of Spec and its Declared, unencoded
	ID       string     `json:",omitempty"`
	Spec     *proc.Spec `json:",omitempty"`
	Signal   int        `json:",omitempty"`
	Path     string     `json:",omitempty"`
	Program  string     `json:",omitempty"`
	Secret   string     `json:",omitempty"`
	Faulty   bool       `json:",omitempty"` // list only tasks with LogFaults
	Brief    bool       `json:",omitempty"` // task without Declared; earlier builds send it
	Main     bool       `json:",omitempty"` // signal only the main process; earlier builds signal its process group
	Sockets  []int      `json:",omitempty"` // descriptors of the agent: see Descriptor
}

// Response is the answer of the supervisor to one request.
type Response struct {
	Seq      uint64
	Err      string      `json:",omitempty"`
	Kind     string      `json:",omitempty"` // kind of error
	Task     *proc.Task  `json:",omitempty"`
	Tasks    []proc.Task `json:",omitempty"`
	Program  string      `json:",omitempty"`
	Separate bool        `json:"Apart,omitempty"` // requests with separate parts are supported
	Guarded  bool        `json:",omitempty"`      // connections without the secret are refused
	Sockets  []int       `json:",omitempty"`      // descriptors of the supervisor: see Descriptor
}

// ErrRefused means that the first request of a connection did not present the secret.
var ErrRefused = errors.New("the connection did not present the supervisor's secret: " +
	"the agent has a version without secrets, or another state directory")

// Kinds of errors that a client distinguishes.
const (
	kindUnknown = "unknown-task"
	kindStart   = "start"
	kindRunning = "running"
	kindRefused = "refused"
)

// SetError puts the error of a request, or nil, into its answer.
func (r *Response) SetError(err error) {
	if err == nil {
		return
	}
	r.Err = err.Error()
	if _, ok := errors.AsType[*proc.StartError](err); ok {
		r.Kind = kindStart
	} else if errors.Is(err, proc.ErrUnknownTask) {
		r.Kind = kindUnknown
	} else if errors.Is(err, proc.ErrRunning) {
		r.Kind = kindRunning
	} else if errors.Is(err, ErrRefused) {
		r.Kind = kindRefused
	}
}

// Failure returns the error of the request, or nil.
func (r *Response) Failure() error {
	switch {
	case r.Err == "":
		return nil
	case r.Kind == kindStart:
		return &proc.StartError{Reason: r.Err}
	case r.Kind == kindUnknown:
		return proc.ErrUnknownTask
	case r.Kind == kindRunning:
		return proc.ErrRunning
	case r.Kind == kindRefused:
		return ErrRefused
	}
	return errors.New(r.Err)
}

// Limits of messages, in bytes.
const (
	readAhead = 32 << 10 // of a reader
	maxFrame  = 64 << 20 // a task's environment and arguments fit
	maxHello  = 4 << 10  // of the first request
)

// NewReader returns a buffered reader of the messages of a connection.
func NewReader(conn io.Reader) *bufio.Reader { return bufio.NewReaderSize(conn, readAhead) }

// WriteRequest sends the policy of a start as a separate part if the peer supports it. Encoding and
// decoding it as JSON would cost more than everything else in a start.
func WriteRequest(w io.Writer, req *Request, separate bool) error {
	if req.Spec == nil || !separate {
		return writeFrame(w, req)
	}
	r, spec := *req, *req.Spec
	r.Separate, r.Spec = true, &spec
	spec.Policy, spec.Declared = nil, nil
	return writeFrame(w, &r, req.Spec.Policy, req.Spec.Declared)
}

// ReadHello reads the first request of a connection. It reads only the little that a hello needs.
func ReadHello(r io.Reader) (*Request, error) {
	req := new(Request)
	return req, readFrame(r, req, maxHello)
}

// ReadRequest reads a request with its separate parts.
func ReadRequest(r io.Reader) (*Request, error) {
	req := new(Request)
	if err := readFrame(r, req, maxFrame); err != nil || !req.Separate {
		return req, err
	}
	if req.Spec == nil {
		return nil, errors.New("message without its parts")
	}
	var err error
	if req.Spec.Policy, err = readPart(r, maxFrame); err != nil {
		return nil, err
	}
	req.Spec.Declared, err = readPart(r, maxFrame)
	return req, err
}

// WriteResponse sends an answer.
func WriteResponse(w io.Writer, resp *Response) error { return writeFrame(w, resp) }

// ReadResponse reads an answer.
func ReadResponse(r io.Reader) (*Response, error) {
	resp := new(Response)
	return resp, readFrame(r, resp, maxFrame)
}

// writeFrame writes v, and the separate parts, in one write.
func writeFrame(w io.Writer, v any, parts ...[]byte) error {
	body, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode message: %w", err)
	}
	var frames []byte
	for _, b := range append([][]byte{body}, parts...) {
		if len(b) > maxFrame {
			return fmt.Errorf("message of %d bytes is too long", len(b))
		}
		frames = append(binary.BigEndian.AppendUint32(frames, uint32(len(b))), b...)
	}
	_, err = w.Write(frames)
	return err
}

func readFrame(r io.Reader, v any, limit uint32) error {
	body, err := readPart(r, limit)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(body, v); err != nil {
		return fmt.Errorf("decode message: %w", err)
	}
	return nil
}

// readPart reads one unencoded frame.
func readPart(r io.Reader, limit uint32) ([]byte, error) {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(head[:])
	if n > limit {
		return nil, fmt.Errorf("message of %d bytes is too long", n)
	}
	body := make([]byte, n)
	_, err := io.ReadFull(r, body)
	return body, err
}
