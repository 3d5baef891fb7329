package client_test

import (
	"context"
	"encoding/json"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/client/exec"
	"github.com/open-nomad/open-nomad/drivers/mock"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rpc"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// echoing is a driver whose exec returns its input, the command unless it is cat, then NOMAD_TASK_NAME, and exits with 3.
type echoing struct{ *mock.Driver }

func (d echoing) Capabilities() drivers.Capabilities {
	c := d.Driver.Capabilities()
	c.Exec = true
	return c
}

func (d echoing) ExecTask(ctx context.Context, id string, o *drivers.ExecOptions) (*drivers.ExitResult, error) {
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

// execIn runs a session with an input and returns the output.
func execIn(s *rpc.Stream, req *message.AllocExecRequest, input string) (stdout, stderr string, exit *nomad.ExecResult, err error) {
	defer s.Close()
	if err := s.Encode(req); err != nil {
		return "", "", nil, err
	}
	// The server of a refused session may not read its input; the response has the reason.
	unread := s.Encode(&nomad.ExecInput{Stdin: &nomad.ExecIO{Data: []byte(input), Close: true}})
	for {
		var w nomad.StreamErrWrapper
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
			return stdout, stderr, exit, nomad.Errorf(code, "%s", e.Message)
		}
		var out nomad.ExecOutput
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

func TestExec(t *testing.T) {
	f := startServer(t)
	n := start(t, config(nodeDir(t), f.addr()))
	a := alloc(map[string]any{"run_for": "1h"})
	f.place(a)
	f.until(t, "the allocation runs", func() bool { return status(f, a) == nomad.AllocClientStatusRunning })
	open := func() *rpc.Stream {
		t.Helper()
		s, err := f.rpc.NodeStream(t.Context(), n.NodeID(), "Allocations.Exec")
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	req := message.AllocExecRequest{AllocID: a.ID, Task: "main", Cmd: []string{"cat"}}
	out, errs, exit, err := execIn(open(), &req, "hello")
	if err != nil || out != "hello" || errs != "main" || exit == nil || exit.ExitCode != 3 {
		t.Errorf("session: %q %q %+v %v", out, errs, exit, err)
	}
	for name, c := range map[string]struct {
		edit func(*message.AllocExecRequest)
		code int
		want string
	}{
		"no task":       {func(r *message.AllocExecRequest) { r.Task = "" }, 400, "must provide task name: the allocation has main"},
		"unknown task":  {func(r *message.AllocExecRequest) { r.Task = "web" }, 404, `unknown task name "web": the allocation has main`},
		"unknown alloc": {func(r *message.AllocExecRequest) { r.AllocID = nomad.NewID() }, 404, "Unknown allocation"},
		"no command":    {func(r *message.AllocExecRequest) { r.Cmd = nil }, 400, "must provide a command"},
		"empty command": {func(r *message.AllocExecRequest) { r.Cmd = []string{""} }, 400, "must provide a command"},
		"NUL":           {func(r *message.AllocExecRequest) { r.Cmd = []string{"a\x00b"} }, 400, "NUL"},
		"long command":  {func(r *message.AllocExecRequest) { r.Cmd = []string{strings.Repeat("x", 200<<10)} }, 400, "at most 131072 are allowed"},
		"large request": {func(r *message.AllocExecRequest) { r.Cmd = []string{strings.Repeat("x", 1<<20)} }, 413, "more than 262144 bytes"},
		"action":        {func(r *message.AllocExecRequest) { r.Action = "flush" }, 400, "action flush not found in task main"},
		"action's task": {func(r *message.AllocExecRequest) { r.Action, r.Task = "flush", "db" }, 400, "action flush not found in task db"},
		"other job":     {func(r *message.AllocExecRequest) { r.JobID = "else" }, 400, "is of another job than"},
	} {
		bad := req
		c.edit(&bad)
		if _, _, exit, err := execIn(open(), &bad, ""); exit != nil || nomad.HTTPStatus(err) != c.code || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %+v, %v; want %d %q", name, exit, err, c.code, c.want)
		}
	}
	// Sessions over the limit are refused. A closed session frees its slot.
	var held []*rpc.Stream
	for range exec.MaxPerAlloc {
		s := open()
		held = append(held, s)
		if err := s.Encode(&req); err != nil {
			t.Fatal(err)
		}
		if err := s.Encode(&nomad.ExecInput{Stdin: &nomad.ExecIO{Data: []byte("x")}}); err != nil {
			t.Fatal(err)
		}
		var w nomad.StreamErrWrapper
		if err := s.Decode(&w); err != nil || w.Error != nil {
			t.Fatalf("session: %+v, %v", w, err)
		}
	}
	if _, _, _, err := execIn(open(), &req, ""); nomad.HTTPStatus(err) != 429 || !strings.Contains(err.Error(), "has 32 exec sessions") {
		t.Errorf("session over the limit: %v", err)
	}
	for _, s := range held {
		s.Close()
	}
	f.until(t, "the slots are free", func() bool {
		_, _, _, err := execIn(open(), &req, "")
		return err == nil
	})
}

func TestExecInFinishedTask(t *testing.T) {
	f := startServer(t)
	n := start(t, config(nodeDir(t), f.addr()))
	a := alloc(map[string]any{"run_for": "1ms"})
	f.place(a)
	f.until(t, "the allocation is complete", func() bool { return status(f, a) == nomad.AllocClientStatusComplete })
	s, err := n.Local("Allocations.Exec").Stream(t.Context(), "Allocations.Exec")
	if err != nil {
		t.Fatal(err)
	}
	if _, _, _, err := execIn(s, &message.AllocExecRequest{AllocID: a.ID, Task: "main", Cmd: []string{"x"}}, ""); nomad.HTTPStatus(err) != 400 || !strings.Contains(err.Error(), "not running") {
		t.Errorf("exec in a finished task: %v", err)
	}
}

func TestExecIsDisabled(t *testing.T) {
	f := startServer(t)
	cfg := config(nodeDir(t), f.addr())
	cfg.DisableRemoteExec = true
	n := start(t, cfg)
	a := alloc(map[string]any{"run_for": "1h"})
	f.place(a)
	f.until(t, "the allocation runs", func() bool { return status(f, a) == nomad.AllocClientStatusRunning })
	s, err := n.RPC().Stream(t.Context(), "Allocations.Exec")
	if err != nil {
		t.Fatal(err)
	}
	if _, _, _, err := execIn(s, &message.AllocExecRequest{AllocID: a.ID, Task: "main", Cmd: []string{"x"}}, ""); nomad.HTTPStatus(err) != 403 || !strings.Contains(err.Error(), "disable_remote_exec") {
		t.Errorf("exec where it is disabled: %v", err)
	}
}

// A session ends soon after the caller loses the right to it.
func TestExecEndsWithTheToken(t *testing.T) {
	g := guard(t)
	s, err := g.Local("Allocations.Exec").Stream(t.Context(), "Allocations.Exec")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	req := &message.AllocExecRequest{AllocID: g.alloc, Task: "main", Cmd: []string{"x"}, QueryOptions: message.QueryOptions{AuthToken: "both"}}
	if err := s.Encode(req); err != nil {
		t.Fatal(err)
	}
	if err := s.Encode(&nomad.ExecInput{Stdin: &nomad.ExecIO{Data: []byte("x")}}); err != nil {
		t.Fatal(err)
	}
	var w nomad.StreamErrWrapper
	if err := s.Decode(&w); err != nil || w.Error != nil {
		t.Fatalf("session: %+v, %v", w, err)
	}
	g.f.mu.Lock()
	g.f.policies["both"] = `namespace "default" { capabilities = ["alloc-exec"] }`
	g.f.mu.Unlock()
	for begun := time.Now(); ; {
		w = nomad.StreamErrWrapper{}
		if err := s.Decode(&w); err != nil {
			break
		}
		// An idle session is probed for a connected caller.
		if string(w.Payload) != "{}" || w.Error != nil {
			t.Fatalf("after the token's end: %q, %+v", w.Payload, w.Error)
		}
		if took := time.Since(begun); took > time.Minute {
			t.Fatalf("it continues after %v", took)
		}
	}
}
