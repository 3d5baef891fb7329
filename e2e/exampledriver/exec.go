package main

import (
	"errors"
	"io"
	"os/exec"
	"sync"
	"syscall"

	"google.golang.org/grpc"

	"example.com/exampledriver/proto"
)

// ExecTaskStreaming runs a program beside the task: in its directory, with its environment. The first
// message is the setup; each stream ends with a message that closes it, and the last one has the exit.
func (d *driver) ExecTaskStreaming(st grpc.BidiStreamingServer[proto.ExecTaskStreamingRequest, proto.ExecTaskStreamingResponse]) error {
	first, err := st.Recv()
	if err != nil {
		return err
	}
	setup := first.GetSetup()
	switch {
	case setup == nil || len(setup.GetCommand()) == 0:
		return errors.New("a session begins with its setup")
	case setup.GetTty():
		return errors.New("the example driver has no terminals")
	}
	t, err := d.task(setup.GetTaskId())
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(st.Context(), setup.GetCommand()[0], setup.GetCommand()[1:]...)
	cmd.Dir, cmd.Env = t.WorkDir, t.Env
	input, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	out := &sender{send: st.Send}
	cmd.Stdout, cmd.Stderr = stream{out, false}, stream{out, true}
	if err := cmd.Start(); err != nil {
		return err
	}
	go func() {
		defer input.Close()
		for {
			m, err := st.Recv()
			if err != nil || m.GetStdin().GetClose() {
				return
			}
			io.WriteString(input, string(m.GetStdin().GetData()))
		}
	}()
	cmd.Wait()
	result := &proto.ExitResult{ExitCode: int32(cmd.ProcessState.ExitCode())}
	if ws := cmd.ProcessState.Sys().(syscall.WaitStatus); ws.Signaled() {
		result.Signal, result.ExitCode = int32(ws.Signal()), 128+int32(ws.Signal())
	}
	end := &proto.IOOperation{Close: true}
	return errors.Join(out.one(&proto.ExecTaskStreamingResponse{Stdout: end}), out.one(&proto.ExecTaskStreamingResponse{Stderr: end}),
		out.one(&proto.ExecTaskStreamingResponse{Exited: true, Result: result}))
}

// sender sends one message at a time.
type sender struct {
	mu   sync.Mutex
	send func(*proto.ExecTaskStreamingResponse) error
}

func (s *sender) one(m *proto.ExecTaskStreamingResponse) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.send(m)
}

// stream sends what is written to it.
type stream struct {
	*sender
	errors bool
}

func (s stream) Write(p []byte) (int, error) {
	op := &proto.IOOperation{Data: append([]byte(nil), p...)}
	m := &proto.ExecTaskStreamingResponse{Stdout: op}
	if s.errors {
		m = &proto.ExecTaskStreamingResponse{Stderr: op}
	}
	return len(p), s.one(m)
}
