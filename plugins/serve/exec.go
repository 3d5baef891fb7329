package serve

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/open-nomad/open-nomad/internal/firstbytes"
	"github.com/open-nomad/open-nomad/plugins/drivers"
	"github.com/open-nomad/open-nomad/plugins/proto"
	"github.com/open-nomad/open-nomad/plugins/wire"
)

// maxOutput limits the output of a command that is run without a session.
const maxOutput = 1 << 20

// ExecTask implements proto.DriverServer.
func (d *driver) ExecTask(ctx context.Context, req *proto.ExecTaskRequest) (*proto.ExecTaskResponse, error) {
	e, ok := d.Driver.(drivers.Execer)
	if !ok {
		return nil, errNoExec
	}
	if limit := wire.DecodeDuration(req.GetTimeout()); limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, limit)
		defer cancel()
	}
	stdout, stderr := &firstbytes.Buffer{Limit: maxOutput}, &firstbytes.Buffer{Limit: maxOutput}
	exit, err := e.ExecTask(ctx, req.GetTaskId(),
		&drivers.ExecOptions{Command: req.GetCommand(), Env: d.env(req.GetTaskId()), Stdin: strings.NewReader(""), Stdout: stdout,
			Stderr: stderr})
	if err != nil {
		return nil, wire.EncodeError(err)
	}
	result, _ := wire.EncodeExit(exit)
	return &proto.ExecTaskResponse{Stdout: stdout.Bytes(), Stderr: stderr.Bytes(), Result: result}, nil
}

var errNoExec = status.Error(codes.Unimplemented, drivers.ErrNoExec.Error())

type execStream = grpc.BidiStreamingServer[proto.ExecTaskStreamingRequest, proto.ExecTaskStreamingResponse]

// ExecTaskStreaming implements proto.DriverServer.
func (d *driver) ExecTaskStreaming(st execStream) error {
	e, ok := d.Driver.(drivers.Execer)
	if !ok {
		return errNoExec
	}
	first, err := st.Recv()
	if err != nil {
		return err
	}
	setup := first.GetSetup()
	if setup == nil {
		return status.Error(codes.InvalidArgument, "the first message of a session must be its setup")
	}
	ctx, cancel := context.WithCancel(st.Context())
	defer cancel()
	stdin, input := io.Pipe()
	defer stdin.Close()
	sizes := make(chan drivers.TerminalSize, 1)
	go receive(ctx, st, input, sizes)
	out := &output{stream: st}
	o := &drivers.ExecOptions{Command: setup.GetCommand(), Env: d.env(setup.GetTaskId()), Tty: setup.GetTty(), Stdin: stdin,
		Stdout: writer{out, false}, Stderr: writer{out, true}}
	if o.Tty {
		o.Resize = sizes
	}
	exit, err := e.ExecTask(ctx, setup.GetTaskId(), o)
	if err != nil {
		return wire.EncodeError(err)
	}
	result, _ := wire.EncodeExit(exit)
	end := &proto.IOOperation{Close: true}
	return errors.Join(
		out.send(&proto.ExecTaskStreamingResponse{Stdout: end}),
		out.send(&proto.ExecTaskStreamingResponse{Stderr: end}),
		out.send(&proto.ExecTaskStreamingResponse{Exited: true, Result: result}))
}

// receive passes on input and terminal sizes until the client disconnects or the session ends.
func receive(ctx context.Context, st execStream, input *io.PipeWriter, sizes chan drivers.TerminalSize) {
	defer input.Close()
	for {
		m, err := st.Recv()
		if err != nil || ctx.Err() != nil {
			return
		}
		if s := m.GetTtySize(); s != nil {
			select {
			case <-sizes: // only the last size counts
			default:
			}
			sizes <- drivers.TerminalSize{Height: int(s.GetHeight()), Width: int(s.GetWidth())}
		}
		if data := m.GetStdin().GetData(); len(data) > 0 {
			if _, err := input.Write(data); err != nil {
				return // the session is over
			}
		}
		if m.GetStdin().GetClose() {
			input.Close()
		}
	}
}

// output sends one message at a time.
type output struct {
	mu     sync.Mutex
	stream execStream
}

func (o *output) send(m *proto.ExecTaskStreamingResponse) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.stream.Send(m)
}

// writer sends one of the output streams.
type writer struct {
	*output
	errors bool
}

// outputChunk is the size of a part of the output.
const outputChunk = 1 << 10

// Write implements io.Writer.
func (w writer) Write(p []byte) (int, error) {
	n := 0
	for n < len(p) {
		part := p[n:min(len(p), n+outputChunk)]
		op := &proto.IOOperation{Data: bytes.Clone(part)}
		m := &proto.ExecTaskStreamingResponse{Stdout: op}
		if w.errors {
			m = &proto.ExecTaskStreamingResponse{Stderr: op}
		}
		if err := w.send(m); err != nil {
			return n, err
		}
		n += len(part)
	}
	return n, nil
}
