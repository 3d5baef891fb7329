package endpoint_test

import (
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/client/clienttest"
	"github.com/open-nomad/open-nomad/client/exec"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rpc"
)

func TestExec(t *testing.T) {
	f := clienttest.StartServer(t)
	n := clienttest.Start(t, clienttest.Config(clienttest.Dir(t), f.Addr()))
	a := clienttest.Alloc(map[string]any{"run_for": "1h"})
	f.Place(a)
	f.Until(t, "the allocation runs", func() bool { return f.Status(a) == nomad.AllocClientStatusRunning })
	open := func() *rpc.Stream {
		t.Helper()
		s, err := f.RPC.NodeStream(t.Context(), n.NodeID(), "Allocations.Exec")
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	req := message.AllocExecRequest{AllocID: a.ID, Task: "main", Cmd: []string{"cat"}}
	out, errs, exit, err := clienttest.Exec(open(), &req, "hello")
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
		"long command": {func(r *message.AllocExecRequest) { r.Cmd = []string{strings.Repeat("x", 200<<10)} }, 400,
			"at most 131072 are allowed"},
		"large request": {func(r *message.AllocExecRequest) { r.Cmd = []string{strings.Repeat("x", 1<<20)} }, 413, "more than 262144 bytes"},
		"action":        {func(r *message.AllocExecRequest) { r.Action = "flush" }, 400, "action flush not found in task main"},
		"action's task": {func(r *message.AllocExecRequest) { r.Action, r.Task = "flush", "db" }, 400, "action flush not found in task db"},
		"other job":     {func(r *message.AllocExecRequest) { r.JobID = "else" }, 400, "is of another job than"},
	} {
		bad := req
		c.edit(&bad)
		if _, _, exit, err := clienttest.Exec(open(), &bad, ""); exit != nil || apierror.HTTPStatus(err) != c.code ||
			!strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %+v, %v; want %d %q", name, exit, err, c.code, c.want)
		}
	}
	// Sessions over the limit are refused. A closed session frees its slot.
	var sessions []*rpc.Stream
	for range exec.MaxPerAlloc {
		s := open()
		sessions = append(sessions, s)
		if err := s.Encode(&req); err != nil {
			t.Fatal(err)
		}
		if err := s.Encode(&message.ExecInput{Stdin: &message.ExecIO{Data: []byte("x")}}); err != nil {
			t.Fatal(err)
		}
		var w message.StreamErrWrapper
		if err := s.Decode(&w); err != nil || w.Error != nil {
			t.Fatalf("session: %+v, %v", w, err)
		}
	}
	if _, _, _, err := clienttest.Exec(open(), &req, ""); apierror.HTTPStatus(err) != 429 ||
		!strings.Contains(err.Error(), "has 32 exec sessions") {
		t.Errorf("session over the limit: %v", err)
	}
	for _, s := range sessions {
		s.Close()
	}
	f.Until(t, "the slots are free", func() bool {
		_, _, _, err := clienttest.Exec(open(), &req, "")
		return err == nil
	})
}

func TestExec_FinishedTask(t *testing.T) {
	f := clienttest.StartServer(t)
	n := clienttest.Start(t, clienttest.Config(clienttest.Dir(t), f.Addr()))
	a := clienttest.Alloc(map[string]any{"run_for": "1ms"})
	f.Place(a)
	f.Until(t, "the allocation is complete", func() bool { return f.Status(a) == nomad.AllocClientStatusComplete })
	s, err := n.Local("Allocations.Exec").Stream(t.Context(), "Allocations.Exec")
	if err != nil {
		t.Fatal(err)
	}
	if _, _, _, err := clienttest.Exec(s, &message.AllocExecRequest{AllocID: a.ID, Task: "main", Cmd: []string{"x"}},
		""); apierror.HTTPStatus(err) != 400 || !strings.Contains(err.Error(), "not running") {
		t.Errorf("exec in a finished task: %v", err)
	}
}

func TestExec_Disabled(t *testing.T) {
	f := clienttest.StartServer(t)
	cfg := clienttest.Config(clienttest.Dir(t), f.Addr())
	cfg.DisableRemoteExec = true
	n := clienttest.Start(t, cfg)
	a := clienttest.Alloc(map[string]any{"run_for": "1h"})
	f.Place(a)
	f.Until(t, "the allocation runs", func() bool { return f.Status(a) == nomad.AllocClientStatusRunning })
	s, err := n.RPC().Stream(t.Context(), "Allocations.Exec")
	if err != nil {
		t.Fatal(err)
	}
	if _, _, _, err := clienttest.Exec(s, &message.AllocExecRequest{AllocID: a.ID, Task: "main", Cmd: []string{"x"}},
		""); apierror.HTTPStatus(err) != 403 || !strings.Contains(err.Error(), "disable_remote_exec") {
		t.Errorf("exec where it is disabled: %v", err)
	}
}

// A session ends soon after the caller loses the right to it.
func TestExec_EndsWithTheToken(t *testing.T) {
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
	if err := s.Encode(&message.ExecInput{Stdin: &message.ExecIO{Data: []byte("x")}}); err != nil {
		t.Fatal(err)
	}
	var w message.StreamErrWrapper
	if err := s.Decode(&w); err != nil || w.Error != nil {
		t.Fatalf("session: %+v, %v", w, err)
	}
	g.f.Mu.Lock()
	g.f.Policies["both"] = `namespace "default" { capabilities = ["alloc-exec"] }`
	g.f.Mu.Unlock()
	for begun := time.Now(); ; {
		w = message.StreamErrWrapper{}
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
