package endpoint_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/client/clienttest"
	"github.com/open-nomad/open-nomad/internal/jwt"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rpc"
	"github.com/open-nomad/open-nomad/nomad/ticket"
)

// signed returns a signed ticket for a node.
func signed(t *testing.T, key jwt.Key, k ticket.Ticket) string {
	t.Helper()
	raw, err := ticket.Sign(key, k, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// relays returns a request of every method of a node, with its object.
func (g guarded) relays() map[string]func() (rpc.Request, string) {
	ofAlloc := func(make func() rpc.Request) func() (rpc.Request, string) {
		return func() (rpc.Request, string) { return make(), g.alloc }
	}
	ofNode := func(make func() rpc.Request) func() (rpc.Request, string) {
		return func() (rpc.Request, string) { return make(), g.NodeID() }
	}
	return map[string]func() (rpc.Request, string){
		"Allocations.Checks":            ofAlloc(func() rpc.Request { return &message.AllocChecksRequest{AllocID: g.alloc} }),
		"Allocations.Stats":             ofAlloc(func() rpc.Request { return &message.AllocStatsRequest{AllocID: g.alloc} }),
		"Allocations.Restart":           ofAlloc(func() rpc.Request { return &message.AllocRestartRequest{AllocID: g.alloc, TaskName: "none"} }),
		"Allocations.Signal":            ofAlloc(func() rpc.Request { return &message.AllocSignalRequest{AllocID: g.alloc, Signal: "none"} }),
		"Allocations.Sandbox":           ofAlloc(func() rpc.Request { return &message.AllocSandboxRequest{AllocID: g.alloc} }),
		"Allocations.GarbageCollect":    ofAlloc(func() rpc.Request { return &message.AllocSpecificRequest{AllocID: g.alloc} }),
		"Allocations.GarbageCollectAll": ofNode(func() rpc.Request { return &message.NodeSpecificRequest{NodeID: g.NodeID()} }),
		"FileSystem.List":               ofAlloc(func() rpc.Request { return &message.FsListRequest{AllocID: g.alloc, Path: "/"} }),
		"FileSystem.Stat":               ofAlloc(func() rpc.Request { return &message.FsStatRequest{AllocID: g.alloc, Path: "/"} }),
		"FileSystem.Stream": ofAlloc(func() rpc.Request {
			return &message.FsStreamRequest{AllocID: g.alloc, Path: "main/local/hello.txt", PlainText: true}
		}),
		"FileSystem.Logs": ofAlloc(func() rpc.Request {
			return &message.FsLogsRequest{AllocID: g.alloc, Task: "main", LogType: "stdout", PlainText: true}
		}),
		"Allocations.Exec": ofAlloc(func() rpc.Request {
			return &message.AllocExecRequest{AllocID: g.alloc, Task: "main", Cmd: []string{"x"}}
		}),
		"Agent.Monitor":       ofNode(func() rpc.Request { return &message.MonitorRequest{NodeID: g.NodeID()} }),
		"Agent.MonitorExport": ofNode(func() rpc.Request { return &message.MonitorExportRequest{NodeID: g.NodeID()} }),
		"ClientStats.Stats":   ofNode(func() rpc.Request { return &message.NodeSpecificRequest{NodeID: g.NodeID()} }),
		"NodeIdentity.Get":    ofNode(func() rpc.Request { return &message.NodeIdentityGetReq{NodeID: g.NodeID()} }),
		"NodeMeta.Apply":      ofNode(func() rpc.Request { return &message.NodeMetaApplyRequest{NodeID: g.NodeID()} }),
		"NodeMeta.Read":       ofNode(func() rpc.Request { return &message.NodeSpecificRequest{NodeID: g.NodeID()} }),
		"NodeIdentity.Renew":  ofNode(func() rpc.Request { return &message.NodeIdentityRenewReq{NodeID: g.NodeID()} }),
	}
}

// A node serves exactly the call of a ticket, once. The ticket must include rights that depend
// on facts only the node has.
func TestTicket(t *testing.T) {
	g := guard(t)
	key := g.f.Signer(t, "k1")
	unknown := (&clienttest.Server{}).Signer(t, "k1")
	for method, make := range g.relays() {
		_, object := make()
		good := ticket.Ticket{Node: g.NodeID(), Method: method, Object: object, Rights: []string{"alloc-node-exec"}, Kind: "client",
			Accessor: "a"}
		call := func(credential string) error {
			req, _ := make()
			return g.call(t, true, method, req, credential)
		}
		raw := signed(t, key, good)
		if err := call(raw); errors.Is(err, apierror.ErrPermissionDenied) {
			t.Errorf("%s rejects its ticket: %v", method, err)
		}
		if err := call(raw); !errors.Is(err, apierror.ErrPermissionDenied) {
			t.Errorf("%s serves a ticket twice: %v", method, err)
		}
		for name, edit := range map[string]func(*ticket.Ticket){
			"another node":   func(k *ticket.Ticket) { k.Node = nomad.NewID() },
			"another method": func(k *ticket.Ticket) { k.Method = "Allocations.Other" },
			"another object": func(k *ticket.Ticket) { k.Object = nomad.NewID() },
		} {
			bad := good
			edit(&bad)
			if err := call(signed(t, key, bad)); !errors.Is(err, apierror.ErrPermissionDenied) {
				t.Errorf("%s serves a ticket for %s: %v", method, name, err)
			}
		}
		if err := call(signed(t, unknown, good)); !errors.Is(err, apierror.ErrPermissionDenied) {
			t.Errorf("%s serves a ticket not signed by a server: %v", method, err)
		}
		// The agent's own API accepts only tokens.
		req, _ := make()
		local := strings.Replace(method, "Allocations.", "ClientAllocations.", 1)
		if method == "Allocations.Exec" {
			local = method
		}
		if err := g.call(t, false, local, req, signed(t, key, good)); !errors.Is(err, apierror.ErrPermissionDenied) {
			t.Errorf("%s of the agent accepts a ticket: %v", method, err)
		}
	}
	unprivileged := ticket.Ticket{Node: g.NodeID(), Method: "Allocations.Exec", Object: g.alloc}
	req, _ := g.relays()["Allocations.Exec"]()
	if err := g.call(t, true, "Allocations.Exec", req, signed(t, key, unprivileged)); !errors.Is(err, apierror.ErrPermissionDenied) ||
		!strings.Contains(err.Error(), "alloc-node-exec") {
		t.Errorf("exec in a task without isolation, without the right: %v", err)
	}
}

// The registration reports to the servers that the node accepts tickets.
func TestTicket_Registered(t *testing.T) {
	f := clienttest.StartServer(t)
	clienttest.Start(t, clienttest.Config(clienttest.Dir(t), f.Addr()))
	f.Until(t, "the node registers", func() bool { return f.Node != nil })
	f.Mu.Lock()
	defer f.Mu.Unlock()
	if !ticket.Accepted(f.Node) {
		t.Errorf("the node registered with %v", f.Node.Attributes)
	}
}

// Without access control a ticket must still be valid.
func TestTicket_WithoutAccessControl(t *testing.T) {
	f := clienttest.StartServer(t)
	key := f.Signer(t, "k1")
	n := clienttest.Start(t, clienttest.Config(clienttest.Dir(t), f.Addr()))
	call := func(k ticket.Ticket) error {
		req := &message.NodeSpecificRequest{NodeID: n.NodeID(), QueryOptions: message.QueryOptions{AuthToken: signed(t, key, k)}}
		return n.RPC().Call(t.Context(), "ClientStats.Stats", req, nil)
	}
	if err := call(ticket.Ticket{Node: n.NodeID(), Method: "ClientStats.Stats", Object: n.NodeID()}); err != nil {
		t.Error(err)
	}
	if err := call(ticket.Ticket{Node: n.NodeID(), Method: "NodeIdentity.Get", Object: n.NodeID()}); !errors.Is(err,
		apierror.ErrPermissionDenied) {
		t.Error(err)
	}
}
