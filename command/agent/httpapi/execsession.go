package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coder/websocket"

	"github.com/open-nomad/open-nomad/command/agent/httpapi/web"
	"github.com/open-nomad/open-nomad/internal/untrusted"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rpc"
)

const (
	// maxFrame bounds one message of a caller.
	maxFrame = 1 << 20
	// maxCloseReason is the maximum length of a close reason (RFC 6455, section 5.5).
	maxCloseReason = 123
	// pingEvery is the interval of pings to the caller. Proxies drop idle connections.
	pingEvery = 20 * time.Second
	// silentFor is how long a caller may send nothing, not even a pong, while the session reads
	// from it.
	silentFor = 90 * time.Second
)

// execSession is one websocket of "alloc exec" and the stream behind it.
//
//	caller ──text frames──▶ fromCaller ──msgpack──▶ stream ──▶ node
//	       ◀─────────────── toCaller ◀──payloads── stream ◀──┘
//
// Each direction buffers one message. If one side does not read, the session stops reading from the
// other side.
type execSession struct {
	ws          *websocket.Conn
	open        func(ctx context.Context, method string) (*rpc.Stream, error)
	every, most time.Duration // pingEvery and silentFor
	lastMessage atomic.Int64  // time of the last message of the caller, in Unix nanoseconds
	busy        atomic.Bool   // a message is being sent to the node: the caller is not read

	once  sync.Once
	cause error // why the caller's side ended the session, if it did

	closing sync.Once
}

func newExecSession(to web.RPC) *execSession {
	return &execSession{open: to.Stream, every: pingEvery, most: silentFor}
}

// pong records the reply to a ping.
func (x *execSession) pong(context.Context, []byte) { x.received() }

func (x *execSession) received() { x.lastMessage.Store(time.Now().UnixNano()) }

// errLeft means that the caller has disconnected.
var errLeft = errors.New("the caller disconnected")

// errCut means that the stream ended before the command.
var errDisconnected = apierror.Errorf(http.StatusInternalServerError,
	"session ended before the command: the node is unreachable, or the token is no longer valid")

// run copies messages in both directions until either side ends. It returns the error to report to
// the caller.
func (x *execSession) run(ctx context.Context, method string, q session) error {
	stream, err := x.open(ctx, method)
	if err != nil {
		return err
	}
	defer stream.Close()
	if err := stream.Encode(q); err != nil {
		return err
	}
	x.ws.SetReadLimit(maxFrame)
	x.received()
	over := make(chan struct{})
	defer close(over)
	end := func(err error) {
		x.once.Do(func() { x.cause = err })
		stream.Close()
	}
	// These goroutines are not waited for. They use the socket until it is closed, after run
	// returns.
	go func() { end(x.fromCaller(ctx, stream)) }()
	go func() {
		if err := x.keepAlive(over); err != nil {
			end(err)
		}
	}()
	err = x.toCaller(ctx, stream)
	x.once.Do(func() {}) // a later error is not the cause
	if x.cause != nil && (err == nil || errors.Is(err, errDisconnected)) {
		return x.cause
	}
	return err
}

// toCaller copies the messages of the node to the caller until the command has exited and the
// stream ends.
func (x *execSession) toCaller(ctx context.Context, stream *rpc.Stream) error {
	exited := false
	for {
		var chunk message.StreamErrWrapper
		switch err := stream.DecodeWithin(&chunk, maxFrame); {
		case err != nil && exited:
			return nil
		case errors.Is(err, io.EOF):
			return errDisconnected
		case err != nil:
			return errors.Join(errDisconnected, err)
		case chunk.Error != nil:
			if err := streamError(chunk.Error); !errors.Is(err, web.ErrDone) {
				return err
			}
			return errDisconnected
		}
		if len(chunk.Payload) == 0 {
			continue
		}
		exited = exited || isExit(chunk.Payload)
		if err := x.ws.Write(ctx, websocket.MessageText, chunk.Payload); err != nil {
			return errLeft
		}
	}
}

// isExit reports whether a message of the node is the exit of the command.
func isExit(payload []byte) bool {
	var msg struct{ Exited bool }
	return json.Unmarshal(payload, &msg) == nil && msg.Exited
}

// fromCaller copies the messages of the caller to the node. It returns why it stopped.
func (x *execSession) fromCaller(ctx context.Context, stream *rpc.Stream) error {
	for {
		_, text, err := x.ws.Read(ctx)
		if err != nil {
			return errLeft
		}
		x.received()
		var msg message.ExecInput
		if err := json.Unmarshal(text, &msg); err != nil {
			return apierror.Errorf(http.StatusBadRequest, "invalid JSON in a message of an exec session")
		}
		x.busy.Store(true)
		err = stream.Encode(&msg)
		x.busy.Store(false)
		x.received()
		if err != nil {
			return nil // toCaller returns the cause
		}
	}
}

// keepAlive pings the caller until over is closed or the caller is gone.
func (x *execSession) keepAlive(over <-chan struct{}) error {
	tick := time.NewTicker(x.every)
	defer tick.Stop()
	for {
		select {
		case <-over:
			return nil
		case <-tick.C:
		}
		if !x.busy.Load() && time.Since(time.Unix(0, x.lastMessage.Load())) > x.most {
			return apierror.Errorf(http.StatusRequestTimeout, "no message from the caller for %v", x.most)
		}
		// The context of the session is not used: its cancellation would close the socket during a
		// write.
		within, cancel := context.WithTimeout(context.Background(), x.every/2)
		err := x.ws.Ping(within)
		late := within.Err() != nil
		cancel()
		if err != nil && !late {
			return errLeft
		}
	}
}

// disconnect ends a session without waiting for the caller.
func (x *execSession) disconnect() {
	x.ws.CloseNow() //nolint:errcheck // the caller may be gone
}

// close closes the websocket with the code and reason of err.
func (x *execSession) close(err error) {
	x.closing.Do(func() {
		code, reason := websocket.StatusNormalClosure, ""
		switch {
		case err == nil:
		case errors.Is(err, errLeft):
			x.ws.CloseNow() //nolint:errcheck // the caller is gone
			return
		case apierror.HTTPStatus(err) >= http.StatusInternalServerError:
			code, reason = websocket.StatusInternalError, err.Error()
		default:
			code, reason = websocket.StatusPolicyViolation, err.Error()
		}
		reason = untrusted.Shorten(strings.ToValidUTF8(reason, "?"), maxCloseReason-3)
		x.ws.Close(code, reason) //nolint:errcheck // the caller is gone when this fails
	})
}
