package allochook

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"github.com/open-nomad/open-nomad/client/connect"
	"github.com/open-nomad/open-nomad/client/hook"
	"github.com/open-nomad/open-nomad/nomad"
)

// errNoConsul is returned for services of a mesh on a client without Consul.
var errNoConsul = errors.New("the services of the group are in the service mesh of Consul: this client has no consul block")

// consulSocketHook creates a socket in alloc/tmp through which the tasks of a group with its own network reach the local
// agent of Consul. The rights there are those of the tasks' own tokens (package connect).
type consulSocketHook struct {
	name   string
	socket string
	wanted func(*nomad.ConsulConnect) bool // of a service of the group
	dial   func(*connect.Node) connect.Dial
	mesh   *connect.Node
	alloc  string
	log    *slog.Logger
}

// newConsulGRPCHook returns the hook of the socket from which proxies get their configuration.
func newConsulGRPCHook(c Config) hook.Hook {
	return &consulSocketHook{name: "consul_grpc_socket", socket: connect.GRPCSocket, mesh: c.Mesh, alloc: c.Alloc.ID, log: c.Log,
		wanted: func(s *nomad.ConsulConnect) bool { return s.SidecarService != nil || s.Gateway != nil },
		dial:   func(n *connect.Node) connect.Dial { return n.DialGRPC }}
}

// newConsulHTTPHook returns the hook of the socket for tasks that are in the mesh without a proxy.
func newConsulHTTPHook(c Config) hook.Hook {
	return &consulSocketHook{name: "consul_http_socket", socket: connect.HTTPSocket, mesh: c.Mesh, alloc: c.Alloc.ID, log: c.Log,
		wanted: func(s *nomad.ConsulConnect) bool { return s.Native },
		dial:   func(n *connect.Node) connect.Dial { return n.DialHTTP }}
}

func (h *consulSocketHook) Name() string { return h.name }

func (h *consulSocketHook) Prerun(ctx context.Context, req *PrerunRequest, resp *PrerunResponse) error {
	group := req.Alloc.Job.TaskGroup(req.Alloc.TaskGroup)
	if group == nil || req.Alloc.TerminalStatus() || !connect.InMesh(group, h.wanted) || !connected(group) {
		return nil
	}
	err := h.serve(ctx, req, resp)
	if err != nil && req.Restored { // it would end the tasks
		h.log.Warn("tasks run without the socket of Consul", "alloc", h.alloc, "socket", h.socket, "err", err)
		return nil
	}
	return err
}

// connected reports whether the tasks of a group have a network of their own that is connected.
func connected(group *nomad.TaskGroup) bool {
	mode := group.NetworkMode()
	return mode == nomad.NetworkModeBridge || strings.HasPrefix(mode, nomad.NetworkModeCNI)
}

func (h *consulSocketHook) serve(ctx context.Context, req *PrerunRequest, resp *PrerunResponse) error {
	if h.mesh == nil {
		return errNoConsul
	}
	if req.Dir == nil {
		return fmt.Errorf("create the socket %s: the allocation has no directory", h.socket)
	}
	dir := req.Dir
	l, err := dir.Listen(ctx, h.socket)
	if err != nil {
		return err
	}
	p := &connect.Proxy{Dial: h.dial(h.mesh), Limit: h.mesh.Limit, Key: h.alloc + "/" + h.socket, Log: h.log.With("socket", h.socket)}
	resp.Background = func(ctx context.Context) {
		p.Serve(ctx, l)
		if err := dir.RemoveSocket(h.socket); err != nil {
			h.log.Warn("remove the socket of Consul", "socket", h.socket, "err", err)
		}
	}
	return nil
}
