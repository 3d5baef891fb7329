package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/coder/websocket"
)

// TerminalSize is the size of a terminal in characters.
type TerminalSize struct {
	Height int `json:"height,omitempty"`
	Width  int `json:"width,omitempty"`
}

// ExecStreamingInput is a message from the caller of an exec session, with one field set.
// Without any field it is a heartbeat.
type ExecStreamingInput struct {
	Stdin   *ExecStreamingIOOperation `json:"stdin,omitempty"`
	TTYSize *TerminalSize             `json:"tty_size,omitempty"`
}

// ExecStreamingIOOperation is a chunk of a stream, or its end.
type ExecStreamingIOOperation struct {
	Data  []byte `json:"data,omitempty"`
	Close bool   `json:"close,omitempty"`
}

// ExecStreamingOutput is a message from an exec session, with one field set.
type ExecStreamingOutput struct {
	Stdout *ExecStreamingIOOperation `json:"stdout,omitempty"`
	Stderr *ExecStreamingIOOperation `json:"stderr,omitempty"`
	Exited bool                      `json:"exited,omitempty"`
	Result *ExecStreamingExitResult  `json:"result,omitempty"`
}

// ExecStreamingExitResult is the exit code of the command.
type ExecStreamingExitResult struct {
	ExitCode int `json:"exit_code"`
}

const (
	// execHeartbeat is the interval of the caller's heartbeats.
	execHeartbeat = 10 * time.Second
	// execChunk is the size of the read buffer for standard input in bytes.
	execChunk = 16 << 10
	// execFrame is the maximum size of a message of the agent in bytes.
	execFrame = 1 << 20
	// execFailed is the exit code that is returned with an error.
	execFailed = -2
)

// Exec runs a command in a running task and returns its exit code. With tty, the command
// gets a pseudo-terminal: its sizes are read from the channel, and all output goes to
// stdout. Stdin may be nil. A read of stdin can still be pending after Exec has returned.
func (a *Allocations) Exec(ctx context.Context, alloc *Allocation, task string, tty bool, command []string,
	stdin io.Reader, stdout, stderr io.Writer, terminalSizes <-chan TerminalSize, q *QueryOptions) (exitCode int, err error) {
	words, err := json.Marshal(command)
	if err != nil {
		return execFailed, fmt.Errorf("encode command: %w", err)
	}
	at := execTarget{clientAllocPath(alloc.ID, "/exec"), map[string]string{
		"task": task, "tty": strconv.FormatBool(tty), "command": string(words)}}
	return a.client.exec(ctx, at, execStreams{stdin, stdout, stderr, terminalSizes}, q)
}

// ActionExec runs an action of a job in a running task. It is like Allocations.Exec, with the
// command of the action. The parameter command is ignored.
func (j *Jobs) ActionExec(ctx context.Context, alloc *Allocation, job, task string, tty bool, _ []string, action string,
	stdin io.Reader, stdout, stderr io.Writer, terminalSizes <-chan TerminalSize, q *QueryOptions) (exitCode int, err error) {
	at := execTarget{jobPath(job, "/action"), map[string]string{
		"allocID": alloc.ID, "group": alloc.TaskGroup, "task": task, "tty": strconv.FormatBool(tty), "action": action}}
	return j.client.exec(ctx, at, execStreams{stdin, stdout, stderr, terminalSizes}, q)
}

// execTarget is the path and the query of a session.
type execTarget struct {
	path   string
	params map[string]string
}

// execStreams is what a session reads and writes on the caller's side.
type execStreams struct {
	stdin          io.Reader // may be nil
	stdout, stderr io.Writer
	sizes          <-chan TerminalSize
}

// exec runs a session until its command exits.
func (c *Client) exec(ctx context.Context, at execTarget, s execStreams, q *QueryOptions) (exitCode int, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ws, err := c.execDial(ctx, at, q)
	if err != nil {
		return execFailed, err
	}
	defer ws.CloseNow() //nolint:errcheck // the session is over
	ws.SetReadLimit(execFrame)
	x := execCall{ws: ws, stdout: s.stdout, stderr: s.stderr, failed: make(chan error, 1)}
	if s.stdin == nil {
		s.stdin = strings.NewReader("")
	}
	go x.sendInput(ctx, s.stdin, cancel)
	go x.sendRest(ctx, s.sizes)
	code, err := x.receive(ctx)
	select {
	case failed := <-x.failed:
		if err != nil {
			return execFailed, failed
		}
	default:
	}
	return code, err
}

// execDial opens the websocket of an exec session.
func (c *Client) execDial(ctx context.Context, at execTarget, q *QueryOptions) (*websocket.Conn, error) {
	r, err := c.newRequest(http.MethodGet, at.path)
	if err != nil {
		return nil, err
	}
	q.apply(r)
	r.params.Del("wait")
	for name, value := range at.params {
		r.params.Set(name, value)
	}
	if auth := c.conf.HttpAuth; auth != nil {
		req := http.Request{Header: r.headers}
		req.SetBasicAuth(auth.Username, auth.Password)
	}
	ws, resp, err := websocket.Dial(ctx, c.base.String()+r.path+"?"+r.params.Encode(),
		&websocket.DialOptions{HTTPClient: c.http, HTTPHeader: r.headers})
	if err != nil && resp != nil && resp.StatusCode != http.StatusSwitchingProtocols {
		text, _ := io.ReadAll(io.LimitReader(resp.Body, maxErrorBody)) // a truncated body is still useful
		return nil, UnexpectedResponseError{code: resp.StatusCode, body: strings.TrimSpace(string(text))}
	}
	return ws, err
}

// execCall is the caller's side of an exec session.
type execCall struct {
	ws             *websocket.Conn
	stdout, stderr io.Writer
	failed         chan error // the error of reading standard input
}

// send sends a message and reports success. receive returns the error of a failed connection.
func (x *execCall) send(ctx context.Context, msg *ExecStreamingInput) bool {
	text, err := json.Marshal(msg)
	return err == nil && x.ws.Write(ctx, websocket.MessageText, text) == nil
}

func (x *execCall) sendInput(ctx context.Context, stdin io.Reader, fail func()) {
	buf := make([]byte, execChunk)
	for {
		n, err := stdin.Read(buf)
		if n > 0 && !x.send(ctx, &ExecStreamingInput{Stdin: &ExecStreamingIOOperation{Data: buf[:n]}}) {
			return
		}
		switch {
		case errors.Is(err, io.EOF):
			x.send(ctx, &ExecStreamingInput{Stdin: &ExecStreamingIOOperation{Close: true}})
			return
		case err != nil:
			x.failed <- fmt.Errorf("read standard input: %w", err)
			fail()
			return
		}
	}
}

// sendRest sends terminal sizes and heartbeats.
func (x *execCall) sendRest(ctx context.Context, sizes <-chan TerminalSize) {
	tick := time.NewTicker(execHeartbeat)
	defer tick.Stop()
	for {
		msg := &ExecStreamingInput{}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case size, ok := <-sizes:
			if !ok {
				sizes = nil
				continue
			}
			msg.TTYSize = &size
		}
		if !x.send(ctx, msg) {
			return
		}
	}
}

// receive copies the command's output until the command exits, and returns the exit code.
func (x *execCall) receive(ctx context.Context) (int, error) {
	for {
		_, text, err := x.ws.Read(ctx)
		var end websocket.CloseError
		switch {
		case errors.As(err, &end) && end.Reason != "":
			return execFailed, errors.New(end.Reason)
		case ctx.Err() != nil:
			return execFailed, ctx.Err()
		case err != nil:
			return execFailed, fmt.Errorf("the connection was closed before the command exited: %w", err)
		}
		var msg ExecStreamingOutput
		if err := json.Unmarshal(text, &msg); err != nil {
			return execFailed, fmt.Errorf("decode message: %w", err)
		}
		switch {
		case msg.Stdout != nil:
			_, err = x.stdout.Write(msg.Stdout.Data)
		case msg.Stderr != nil:
			_, err = x.stderr.Write(msg.Stderr.Data)
		case msg.Exited && msg.Result != nil:
			return msg.Result.ExitCode, nil
		}
		if err != nil {
			return execFailed, fmt.Errorf("write output: %w", err)
		}
	}
}
