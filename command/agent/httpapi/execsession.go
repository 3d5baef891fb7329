package httpapi

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/coder/websocket"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/rpc"
)

const (
	// maxFrame bounds a message of a caller.
	maxFrame = 1 << 20
	// maxCloseReason is the longest reason that a websocket closes with.
	maxCloseReason = 123
	// pingEvery is how often something goes to an idle caller: what stands between
	// forgets connections that are silent.
	pingEvery = 20 * time.Second
	// silentFor is how long a caller that is listened to may say nothing, not even that it
	// got a ping.
	silentFor = 90 * time.Second
)

// execSession is one websocket of "alloc exec" and the stream behind it.
//
//	caller ──text frames──▶ fromCaller ──msgpack──▶ stream ──▶ node
//	       ◀─────────────── toCaller ◀──payloads── stream ◀──┘
//
// Each direction holds one message. Where one side does not read, nothing is read from
// the other.
type execSession struct {
	ws          *websocket.Conn
	open        func(ctx context.Context, method string) (*rpc.Stream, error)
	every, most time.Duration // pingEvery and silentFor
	heard       atomic.Int64  // when something came from the caller, in nanoseconds
	busy        atomic.Bool   // the node does not take more: the caller is not listened to

	once  sync.Once
	cause error // why the session ended, when the caller's side ended it

	closing sync.Once
}

func newExecSession(s *Server) *execSession {
	return &execSession{open: s.cfg.RPC.Stream, every: pingEvery, most: silentFor}
}

// pong is told of each answer to a ping.
func (x *execSession) pong(context.Context, []byte) { x.listened() }

func (x *execSession) listened() { x.heard.Store(time.Now().UnixNano()) }

// errLeft is of a caller that is gone.
var errLeft = errors.New("the caller left")

// errCut is of a session whose far end is gone.
var errCut = nomad.Errorf(http.StatusInternalServerError, "session ended before the command: the node is gone, or the token is no longer good")

// run moves messages both ways until either side is done. The error is for the caller.
func (x *execSession) run(ctx context.Context, q *nomad.AllocExecRequest) error {
	stream, err := x.open(ctx, execMethod)
	if err != nil {
		return err
	}
	defer stream.Close()
	if err := stream.Encode(q); err != nil {
		return err
	}
	x.ws.SetReadLimit(maxFrame)
	x.listened()
	over := make(chan struct{})
	defer close(over)
	end := func(err error) {
		x.once.Do(func() { x.cause = err })
		stream.Close()
	}
	// Not waited for: they use the socket until it is closed, which comes after this.
	go func() { end(x.fromCaller(ctx, stream)) }()
	go func() {
		if err := x.keepAlive(over); err != nil {
			end(err)
		}
	}()
	err = x.toCaller(ctx, stream)
	x.once.Do(func() {}) // what ends now did not end it
	if x.cause != nil && (err == nil || errors.Is(err, errCut)) {
		return x.cause
	}
	return err
}

// toCaller passes on what the node says until that was its last word.
func (x *execSession) toCaller(ctx context.Context, stream *rpc.Stream) error {
	exited := false
	for {
		var chunk nomad.StreamErrWrapper
		switch err := stream.DecodeWithin(&chunk, maxFrame); {
		case err != nil && exited:
			return nil
		case errors.Is(err, io.EOF):
			return errCut
		case err != nil:
			return errors.Join(errCut, err)
		case chunk.Error != nil:
			if err := streamError(chunk.Error); !errors.Is(err, errDone) {
				return err
			}
			return errCut
		}
		if len(chunk.Payload) == 0 {
			continue
		}
		// What programs write is in base64 there: no text of theirs can look like this.
		exited = exited || bytes.Contains(chunk.Payload, []byte(`"exited":true`))
		if err := x.ws.Write(ctx, websocket.MessageText, chunk.Payload); err != nil {
			return errLeft
		}
	}
}

// fromCaller passes on what the caller says until it leaves, and says why that ended.
func (x *execSession) fromCaller(ctx context.Context, stream *rpc.Stream) error {
	for {
		_, text, err := x.ws.Read(ctx)
		if err != nil {
			return errLeft
		}
		x.listened()
		var msg nomad.ExecInput
		if err := json.Unmarshal(text, &msg); err != nil {
			return nomad.Errorf(http.StatusBadRequest, "a message is not the JSON of an exec session")
		}
		x.busy.Store(true)
		err = stream.Encode(&msg)
		x.busy.Store(false)
		x.listened()
		if err != nil {
			return nil // the other direction knows why
		}
	}
}

// keepAlive pings the caller until the session is over, or until nobody is there.
func (x *execSession) keepAlive(over <-chan struct{}) error {
	tick := time.NewTicker(x.every)
	defer tick.Stop()
	for {
		select {
		case <-over:
			return nil
		case <-tick.C:
		}
		if !x.busy.Load() && time.Since(time.Unix(0, x.heard.Load())) > x.most {
			return nomad.Errorf(http.StatusRequestTimeout, "nothing was heard of the caller for %v", x.most)
		}
		// Not to be canceled by the end: that would cut the socket off in a write.
		within, cancel := context.WithTimeout(context.Background(), x.every/2)
		err := x.ws.Ping(within)
		late := within.Err() != nil
		cancel()
		if err != nil && !late {
			return errLeft
		}
	}
}

// close ends the websocket, as the error says.
func (x *execSession) close(err error) {
	x.closing.Do(func() {
		code, reason := websocket.StatusNormalClosure, ""
		switch {
		case err == nil:
		case errors.Is(err, errLeft):
			x.ws.CloseNow() //nolint:errcheck // nobody is there
			return
		case status(err) >= http.StatusInternalServerError:
			code, reason = websocket.StatusInternalError, err.Error()
		default:
			code, reason = websocket.StatusPolicyViolation, err.Error()
		}
		x.ws.Close(code, short(reason)) //nolint:errcheck // the caller is gone when this fails
	})
}

// short cuts a reason to what a websocket may close with.
func short(text string) string {
	text = strings.ToValidUTF8(text, "?")
	if len(text) <= maxCloseReason {
		return text
	}
	text = text[:maxCloseReason-3]
	for !utf8.ValidString(text) {
		text = text[:len(text)-1]
	}
	return text + "..."
}
