package clienttest

import (
	"context"
	"encoding/json"
	"io"
	"strings"

	"github.com/open-nomad/open-nomad/drivers/mock"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rpc"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// Echo is a driver whose exec returns its input, the command unless it is cat, then NOMAD_TASK_NAME, and exits with 3.
type Echo struct{ *mock.Driver }

// Capabilities implements drivers.Driver.
func (d Echo) Capabilities() drivers.Capabilities {
	c := d.Driver.Capabilities()
	c.Exec = true
	return c
}

// ExecTask implements drivers.Execer.
func (d Echo) ExecTask(ctx context.Context, id string, o *drivers.ExecOptions) (*drivers.ExitResult, error) {
	if s, err := d.InspectTask(id); err != nil || s.State != drivers.TaskRunning {
		return nil, drivers.ErrTaskNotFound
	}
	done := make(chan error, 1)
	go func() {
		_, err := io.Copy(o.Stdout, o.Stdin)
		done <- err
	}()
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case err := <-done:
		if err != nil {
			return nil, err
		}
	}
	if o.Command[0] != "cat" {
		io.WriteString(o.Stdout, strings.Join(o.Command, " "))
	}
	io.WriteString(o.Stderr, o.Env["NOMAD_TASK_NAME"])
	return &drivers.ExitResult{ExitCode: 3}, nil
}

// Exec runs a session with an input and returns the output.
func Exec(s *rpc.Stream, req *message.AllocExecRequest, input string) (stdout, stderr string, exit *message.ExecResult, err error) {
	defer s.Close()
	if err := s.Encode(req); err != nil {
		return "", "", nil, err
	}
	// The server of a refused session may not read its input; the response has the reason.
	unread := s.Encode(&message.ExecInput{Stdin: &message.ExecIO{Data: []byte(input), Close: true}})
	for {
		var w message.StreamErrWrapper
		if err := s.Decode(&w); err != nil {
			if exit == nil && unread != nil {
				return stdout, stderr, nil, unread
			}
			return stdout, stderr, exit, nil
		}
		if e := w.Error; e != nil {
			code := 0
			if e.Code != nil {
				code = int(*e.Code)
			}
			return stdout, stderr, exit, apierror.Errorf(code, "%s", e.Message)
		}
		var out message.ExecOutput
		if err := json.Unmarshal(w.Payload, &out); err != nil {
			return stdout, stderr, exit, err
		}
		switch {
		case out.Stdout != nil:
			stdout += string(out.Stdout.Data)
		case out.Stderr != nil:
			stderr += string(out.Stderr.Data)
		case out.Exited:
			exit = out.Result
		}
	}
}
