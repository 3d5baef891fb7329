package endpoint_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/client/clienttest"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rpc"
)

// Calls of servers use the session that the node opened.
func TestMethods_CalledByServer(t *testing.T) {
	f := clienttest.StartServer(t)
	dir := clienttest.Dir(t)
	n := clienttest.Start(t, clienttest.Config(dir, f.Addr()))
	a := clienttest.Alloc(map[string]any{"run_for": "1h"})
	f.Place(a)
	f.Until(t, "the allocation runs", func() bool { return f.Status(a) == nomad.AllocClientStatusRunning })
	local := filepath.Join(dir, "alloc", a.ID, "main", "local", "hello.txt")
	if err := os.WriteFile(local, []byte("hello"), 0o644); err != nil {
		t.Fatal(err)
	}
	ctx, id := t.Context(), n.NodeID()
	var ls message.FsListResponse
	if err := f.RPC.NodeCall(ctx, id, "FileSystem.List", &message.FsListRequest{AllocID: a.ID, Path: "/main/local"}, &ls); err != nil ||
		len(ls.Files) != 1 {
		t.Errorf("list = %+v, %v", ls.Files, err)
	}
	if err := f.RPC.NodeCall(ctx, id, "FileSystem.List", &message.FsListRequest{AllocID: a.ID, Path: "/main/secrets"},
		&ls); clienttest.Code(err) != 403 {
		t.Errorf("list of secrets = %v, want 403", err)
	}
	var stat message.FsStatResponse
	if err := f.RPC.NodeCall(ctx, id, "FileSystem.Stat", &message.FsStatRequest{AllocID: a.ID, Path: "/main/local/hello.txt"},
		&stat); err != nil || stat.Info.Size != 5 {
		t.Errorf("stat = %+v, %v", stat.Info, err)
	}
	if text, err := file(ctx, f, id,
		&message.FsStreamRequest{AllocID: a.ID, Path: "main/local/hello.txt", PlainText: true}); text != "hello" || err != nil {
		t.Errorf("stream = %q, %v", text, err)
	}
	if text, err := file(ctx, f, id, &message.FsStreamRequest{AllocID: a.ID, Path: "main/secrets/nomad_token", PlainText: true}); text != "" ||
		clienttest.Code(err) != 403 {
		t.Errorf("stream of a secret = %q, %v, want 403", text, err)
	}
	var host message.ClientStatsResponse
	if err := f.RPC.NodeCall(ctx, id, "ClientStats.Stats", &message.NodeSpecificRequest{NodeID: id}, &host); err != nil ||
		host.HostStats.Memory.Total == 0 || len(host.HostStats.CPU) == 0 || host.HostStats.AllocDirStats == nil {
		t.Errorf("stats = %+v, %v", host.HostStats, err)
	}
}

// file reads a complete file over a stream.
func file(ctx context.Context, f *clienttest.Server, node string, req *message.FsStreamRequest) (string, error) {
	s, err := f.RPC.NodeStream(ctx, node, "FileSystem.Stream")
	return readFile(s, err, req)
}

// readFile requests a file over an open stream and reads it.
func readFile(s *rpc.Stream, err error, req *message.FsStreamRequest) (string, error) {
	if err != nil {
		return "", err
	}
	defer s.Close()
	if err := s.Encode(req); err != nil {
		return "", err
	}
	var text strings.Builder
	for {
		var w message.StreamErrWrapper
		if err := s.Decode(&w); err != nil {
			return text.String(), nil // the end
		}
		if w.Error != nil {
			c := 0
			if w.Error.Code != nil {
				c = int(*w.Error.Code)
			}
			return text.String(), apierror.Errorf(c, "%s", w.Error.Message)
		}
		text.Write(w.Payload)
	}
}

func TestMethods_BadRequests(t *testing.T) {
	f := clienttest.StartServer(t)
	n := clienttest.Start(t, clienttest.Config(clienttest.Dir(t), f.Addr()))
	a := clienttest.Alloc(map[string]any{"run_for": "1h"})
	f.Place(a)
	f.Until(t, "the allocation runs", func() bool { return f.Status(a) == nomad.AllocClientStatusRunning })
	for _, c := range []struct {
		method string
		req    rpc.Request
		want   int
	}{
		{"Allocations.Signal", &message.AllocSignalRequest{AllocID: a.ID, Signal: "SIGNOPE"}, 400},
		{"Allocations.Signal", &message.AllocSignalRequest{AllocID: a.ID, Signal: ""}, 400},
		{"Allocations.Signal", &message.AllocSignalRequest{AllocID: a.ID, Task: "nope", Signal: "SIGHUP"}, 400},
		{"Allocations.Signal", &message.AllocSignalRequest{AllocID: nomad.NewID(), Signal: "SIGHUP"}, 404},
		{"Allocations.Restart", &message.AllocRestartRequest{AllocID: a.ID, TaskName: "nope"}, 400},
		{"Allocations.Restart", &message.AllocRestartRequest{AllocID: "../../etc"}, 404},
		{"Allocations.Stats", &message.AllocStatsRequest{AllocID: a.ID, Task: "nope"}, 400},
		{"Allocations.GarbageCollect", &message.AllocSpecificRequest{AllocID: nomad.NewID()}, 404},
		{"FileSystem.List", &message.FsListRequest{AllocID: "../..", Path: "/"}, 404},
		{"FileSystem.Stat", &message.FsStatRequest{AllocID: a.ID, Path: "../../client/secret-id"}, 403},
	} {
		if err := n.RPC().Call(t.Context(), c.method, c.req, nil); clienttest.Code(err) != c.want {
			t.Errorf("%s %+v = %v, want %d", c.method, c.req, err, c.want)
		}
	}
	f.Mu.Lock()
	defer f.Mu.Unlock()
	if f.Status(a) != nomad.AllocClientStatusRunning {
		t.Error("a refused request changed the allocation")
	}
}

func TestAllocations_SignalAndRestart(t *testing.T) {
	f := clienttest.StartServer(t)
	n := clienttest.Start(t, clienttest.Config(clienttest.Dir(t), f.Addr()))
	a := clienttest.Alloc(map[string]any{"run_for": "1h"})
	f.Place(a)
	f.Until(t, "the allocation runs", func() bool { return f.Status(a) == nomad.AllocClientStatusRunning })
	if err := n.RPC().Call(t.Context(), "Allocations.Signal", &message.AllocSignalRequest{AllocID: a.ID, Signal: "SIGHUP"}, nil); err != nil {
		t.Errorf("signal = %v", err)
	}
	if err := n.RPC().Call(t.Context(), "Allocations.Restart", &message.AllocRestartRequest{AllocID: a.ID, TaskName: "main"},
		nil); err != nil {
		t.Errorf("restart = %v", err)
	}
	f.Until(t, "the task was restarted", func() bool { return f.Updated[a.ID].TaskStates["main"].Restarts == 1 })
	over := clienttest.Alloc(map[string]any{"run_for": "1ms"})
	f.Place(over)
	f.Until(t, "the allocation is complete", func() bool { return f.Status(over) == nomad.AllocClientStatusComplete })
	for _, task := range []string{"", "main"} {
		err := n.RPC().Call(t.Context(), "Allocations.Signal", &message.AllocSignalRequest{AllocID: over.ID, Task: task, Signal: "SIGHUP"}, nil)
		if clienttest.Code(err) != 400 || !strings.Contains(err.Error(), "task is not running") {
			t.Errorf("signal of task %q after its end = %v, want 400", task, err)
		}
	}
}
