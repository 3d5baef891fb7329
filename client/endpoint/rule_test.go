package endpoint_test

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/client"
	"github.com/open-nomad/open-nomad/client/clienttest"
	"github.com/open-nomad/open-nomad/internal/testpace"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rpc"
)

// guarded is a node with access control and one allocation.
type guarded struct {
	*clienttest.Node
	f     *clienttest.Server
	alloc string
	file  string // a file of its task
}

func guard(t *testing.T) guarded {
	t.Helper()
	f := clienttest.StartServer(t)
	f.Policies = map[string]string{
		"": "", "reader": `namespace "default" { policy = "read" }`, "logs": `namespace "default" { capabilities = ["read-logs"] }`,
		"files": `namespace "default" { capabilities = ["read-fs"] }`, "other": `namespace "other" { policy = "write" }`,
		"writer": `namespace "default" { policy = "write" }`, "nodes": `node { policy = "read" }`, "nodes write": `node { policy = "write" }`,
		"exec":      `namespace "default" { capabilities = ["alloc-exec"] }`,
		"node exec": `namespace "default" { capabilities = ["alloc-node-exec"] }`,
		"agents":    `agent { policy = "read" }`,
		"forwards":  `namespace "default" { capabilities = ["alloc-port-forward"] }`,
		"both":      `namespace "default" { capabilities = ["alloc-exec", "alloc-node-exec"] }`,
	}
	dir := clienttest.Dir(t)
	cfg := clienttest.Config(dir, f.Addr())
	cfg.Access = client.AccessControl{Enabled: true, TokenTTL: 50 * time.Millisecond, PolicyTTL: 50 * time.Millisecond}
	n := clienttest.Start(t, cfg)
	a := clienttest.Alloc(map[string]any{"run_for": "1h"})
	f.Place(a)
	f.Until(t, "the allocation runs", func() bool { return f.Status(a) == nomad.AllocClientStatusRunning })
	file := filepath.Join(dir, "alloc", a.ID, "main", "local", "hello.txt")
	if err := os.WriteFile(file, []byte("hello"), 0o644); err != nil {
		t.Fatal(err)
	}
	return guarded{n, f, a.ID, file}
}

// call calls a method with a token, as the agent of the process does or, if relayed, as the
// servers do.
func (g guarded) call(t *testing.T, relayed bool, method string, req rpc.Request, token string) error {
	t.Helper()
	switch r := req.(type) {
	case interface{ Query() *message.QueryOptions }:
		r.Query().AuthToken = token
	case interface{ Write() *message.WriteRequest }:
		r.Write().AuthToken = token
	case interface{ Caller() *message.NodeCall }:
		r.Caller().AuthToken = token
	}
	if strings.HasPrefix(method, "FileSystem.S") && method != "FileSystem.Stat" || method == "FileSystem.Logs" ||
		method == "Allocations.Exec" || method == "Allocations.PortForward" || strings.HasPrefix(method, "Agent.Monitor") {
		open := g.Local(method).Stream
		if relayed {
			open = g.RPC().Stream
		}
		s, err := open(t.Context(), method)
		if err != nil {
			return err
		}
		defer s.Close()
		if err := s.Encode(req); err != nil {
			return err
		}
		if method == "Allocations.Exec" {
			s.Encode(&message.ExecInput{Stdin: &message.ExecIO{Close: true}}) //nolint:errcheck // a refused caller's stream is closed
		}
		var w message.StreamErrWrapper
		if err := s.Decode(&w); err != nil && err != io.EOF {
			return err
		}
		if w.Error != nil {
			return apierror.FromText(w.Error.Message)
		}
		return nil
	}
	if relayed {
		return g.RPC().Call(t.Context(), strings.Replace(method, "ClientAllocations", "Allocations", 1), req, nil)
	}
	return g.Local(method).Call(t.Context(), method, req, nil)
}

// byHandler returns the names of the methods of a node whose handlers check the caller's rights.
func (g guarded) byHandler() map[string]bool {
	out := map[string]bool{}
	for _, m := range g.RPC().Methods() {
		if slices.ContainsFunc(m.Check.Any, func(all []rpc.Need) bool { return all[0].Scope == rpc.ByHandler }) {
			out[m.Name] = true
		}
	}
	return out
}

// Every method of a node checks the caller's rights, on both paths.
func TestRule_ChecksRights(t *testing.T) {
	g := guard(t)
	untested := g.byHandler()
	people := []string{"", "reader", "logs", "files", "other", "writer", "nodes", "nodes write", "exec", "node exec", "both", "agents",
		"forwards", "all"}
	for _, c := range []struct {
		method string
		req    func() rpc.Request
		may    []string
	}{
		{"ClientAllocations.Checks", func() rpc.Request { return &message.AllocChecksRequest{AllocID: g.alloc} },
			[]string{"reader", "writer", "all"}},
		{"ClientAllocations.Stats", func() rpc.Request { return &message.AllocStatsRequest{AllocID: g.alloc} },
			[]string{"reader", "writer", "all"}},
		{"ClientAllocations.Restart", func() rpc.Request { return &message.AllocRestartRequest{AllocID: g.alloc, TaskName: "none"} },
			[]string{"writer", "all"}},
		{"ClientAllocations.Signal", func() rpc.Request { return &message.AllocSignalRequest{AllocID: g.alloc, Signal: "none"} },
			[]string{"writer", "all"}},
		{"ClientAllocations.GarbageCollect", func() rpc.Request { return &message.AllocSpecificRequest{AllocID: g.alloc} },
			[]string{"writer", "all"}},
		{"ClientAllocations.DiffTemplates", func() rpc.Request { return &message.AllocTemplatesRequest{AllocID: g.alloc, Task: "none"} },
			[]string{"files", "writer", "all"}},
		{"ClientAllocations.RenderTemplates", func() rpc.Request { return &message.AllocTemplatesRequest{AllocID: g.alloc, Task: "none"} },
			[]string{"writer", "all"}},
		{"ClientAllocations.GetPauseState", func() rpc.Request { return &message.AllocGetPauseStateRequest{AllocID: g.alloc, Task: "none"} },
			[]string{"reader", "writer", "all"}},
		{"ClientAllocations.SetPauseState", func() rpc.Request { return &message.AllocPauseRequest{AllocID: g.alloc, Task: "none"} },
			[]string{"writer", "all"}},
		{"Allocations.PortForward", func() rpc.Request { return &message.AllocPortForwardRequest{AllocID: g.alloc, Port: "none"} },
			[]string{"forwards", "all"}},
		{"ArtifactCache.Status", func() rpc.Request { return &message.NodeSpecificRequest{NodeID: g.NodeID()} },
			[]string{"nodes", "nodes write", "all"}},
		{"ArtifactCache.Purge", func() rpc.Request { return &message.NodeSpecificRequest{NodeID: g.NodeID()} },
			[]string{"nodes write", "all"}},
		{"VaultTokens.List", func() rpc.Request { return &message.NodeSpecificRequest{NodeID: g.NodeID()} },
			[]string{"nodes", "nodes write", "all"}},
		{"FileSystem.List", func() rpc.Request { return &message.FsListRequest{AllocID: g.alloc, Path: "/"} },
			[]string{"files", "writer", "all"}},
		{"FileSystem.Stat", func() rpc.Request { return &message.FsStatRequest{AllocID: g.alloc, Path: "/"} },
			[]string{"files", "writer", "all"}},
		{"ClientAllocations.Sandbox", func() rpc.Request { return &message.AllocSandboxRequest{AllocID: g.alloc} },
			[]string{"files", "writer", "all"}},
		{"FileSystem.Stream", func() rpc.Request {
			return &message.FsStreamRequest{AllocID: g.alloc, Path: "main/local/hello.txt", PlainText: true}
		}, []string{"files", "writer", "all"}},
		{"FileSystem.Logs", func() rpc.Request {
			return &message.FsLogsRequest{AllocID: g.alloc, Task: "main", LogType: "stdout", PlainText: true}
		}, []string{"files", "logs", "writer", "all"}},
		{"Allocations.Exec", func() rpc.Request {
			return &message.AllocExecRequest{AllocID: g.alloc, Task: "main", Cmd: []string{"x"}}
		}, []string{"both", "all"}}, // the driver provides no isolation
		{"Agent.Monitor", func() rpc.Request { return &message.MonitorRequest{NodeID: g.NodeID()} }, []string{"agents", "all"}},
		{"Agent.MonitorExport", func() rpc.Request { return &message.MonitorExportRequest{NodeID: g.NodeID()} }, []string{"agents", "all"}},
		{"Agent.Host", func() rpc.Request { return &message.HostDataRequest{NodeID: g.NodeID()} }, []string{"agents", "all"}},
		{"Agent.Profile", func() rpc.Request {
			return &message.AgentPprofRequest{NodeID: g.NodeID(), ReqType: message.ProfileCmdline}
		}, []string{"all"}}, // it needs to write agents
		{"ClientStats.Stats", func() rpc.Request { return &message.NodeSpecificRequest{NodeID: g.NodeID()} },
			[]string{"nodes", "nodes write", "all"}},
		{"NodeIdentity.Get", func() rpc.Request { return &message.NodeIdentityGetReq{NodeID: g.NodeID()} },
			[]string{"nodes", "nodes write", "all"}},
		{"NodeMeta.Read", func() rpc.Request { return &message.NodeSpecificRequest{NodeID: g.NodeID()} },
			[]string{"nodes", "nodes write", "all"}},
		{"NodeMeta.Apply", func() rpc.Request { return &message.NodeMetaApplyRequest{NodeID: g.NodeID()} }, []string{"nodes write", "all"}},
		{"NodeIdentity.Renew", func() rpc.Request { return &message.NodeIdentityRenewReq{NodeID: g.NodeID()} }, []string{"nodes write", "all"}},
		{"ClientAllocations.GarbageCollectAll", func() rpc.Request { return &message.NodeSpecificRequest{NodeID: g.NodeID()} },
			[]string{"nodes write", "all"}},
	} {
		delete(untested, strings.Replace(c.method, "ClientAllocations", "Allocations", 1))
		for _, relayed := range []bool{false, true} {
			for _, who := range people {
				err := g.call(t, relayed, c.method, c.req(), who)
				hidden := err != nil && strings.Contains(err.Error(), apierror.UnknownAlloc(g.alloc).Error()+" (or your token lacks ")
				if refused := hidden || errors.Is(err, apierror.ErrPermissionDenied); refused == slices.Contains(c.may, who) {
					t.Errorf("%q calls %s (relayed: %v): %v", who, c.method, relayed, err)
				}
			}
			if err := g.call(t, relayed, c.method, c.req(), "bad"); !errors.Is(err, apierror.ErrPermissionDenied) {
				t.Errorf("a bad token calls %s (relayed: %v): %v", c.method, relayed, err)
			}
		}
	}
	for name := range untested {
		t.Errorf("%s: no case for the rights that its handler checks", name)
	}
}

// A node that cannot reach the servers denies every request once its cache has expired.
func TestRule_WithoutServers(t *testing.T) {
	g := guard(t)
	call := func(method string, req any) error {
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond) // calls take longer while no server answers
		defer cancel()
		return g.Local(method).Call(ctx, method, req, nil)
	}
	stat := func() error {
		return call("FileSystem.Stat",
			&message.FsStatRequest{AllocID: g.alloc, Path: "/main/local/hello.txt", QueryOptions: message.QueryOptions{AuthToken: "files"}})
	}
	testpace.Until(t, "who may reads", func() bool { return stat() == nil })
	g.f.Stop()
	testpace.Until(t, "every request is denied", func() bool { return stat() != nil })
	// The first refusal may be a timeout.
	testpace.Until(t, "stats are denied without a server", func() bool {
		return call("ClientStats.Stats", &message.NodeSpecificRequest{NodeID: g.NodeID()}) != nil
	})
}

// A stream ends when its caller loses the right to it.
func TestRule_StreamEndsWithTheRight(t *testing.T) {
	g := guard(t)
	s, err := g.Local("FileSystem.Stream").Stream(t.Context(), "FileSystem.Stream")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := s.Encode(&message.FsStreamRequest{AllocID: g.alloc, Path: "main/local/hello.txt", PlainText: true, Follow: true,
		QueryOptions: message.QueryOptions{AuthToken: "files"}}); err != nil {
		t.Fatal(err)
	}
	var w message.StreamErrWrapper
	if err := s.Decode(&w); err != nil || string(w.Payload) != "hello" {
		t.Fatalf("%q, %v", w.Payload, err)
	}
	g.f.Mu.Lock()
	g.f.Policies["files"] = `namespace "default" { policy = "deny" }`
	g.f.Mu.Unlock()
	if err := s.Decode(&w); err == nil {
		t.Errorf("the stream continues: %q", w.Payload)
	}
}
