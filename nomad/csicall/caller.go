// Package csicall calls CSI plugins on nodes, for the servers.
//
// A call of a controller plugin may be answered by any of its instances. Controller asks them in the order of their node IDs,
// and asks the next one only if the call has not reached a plugin:
//
//	instances of the plugin ──healthy, on a ready node──▶ call ──answer or error of the plugin──▶ done
//	                                                       │ ▲
//	           no connection, no instance, unknown node────▼ │ next instance
//
// A call of a node plugin (Node) has one node. Both use the connection of the node to this server, or else that of another
// server, with the method of ClientCSI that relays it.
//
// A plugin is not trusted. It has callWithin for one call. The transport limits the size of its reply. The texts of errors are
// shortened, and contain no secrets and mount flags of the request.
//
// Lock serializes the calls of one volume. Calls of different volumes never wait for each other, also if they have the same
// plugin. The package starts no goroutine. It keeps no state other than the locks, and reads no secret.
package csicall

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/go-metrics"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/csi"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rpc"
	"github.com/open-nomad/open-nomad/nomad/rpc/meter"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// callWithin limits a call, with all instances that are asked. A plugin has two minutes; the rest is for the answer.
const callWithin = 2*time.Minute + 10*time.Second

// Nodes calls clients over the sessions that they opened to this server.
type Nodes interface {
	NodeCall(ctx context.Context, node, method string, req rpc.Request, resp any) error
}

// Peers calls the server that a node is connected to.
type Peers interface {
	AsServer(ctx context.Context, node, method string, req rpc.ServerCall, resp any) error
}

// Config of a Caller. All fields are required.
type Config struct {
	Region string
	Nodes  func() Nodes // a function, because the transport is built from the method table
	Peers  Peers
	Store  func() *state.Store // the current store: a restore replaces it
	Log    *slog.Logger
}

// Caller calls plugins.
type Caller struct {
	cfg   Config
	locks locks
}

// New returns a Caller.
func New(cfg Config) *Caller { return &Caller{cfg: cfg} }

// ControllerRequest is a request to a controller plugin.
type ControllerRequest interface {
	rpc.ServerCall
	Controller() *message.CSIControllerQuery
}

// Controller calls a method of the controller plugin of a request, such as "AttachVolume". It sets the node of the request.
func (c *Caller) Controller(ctx context.Context, method string, req ControllerRequest, resp any) error {
	defer metrics.MeasureSince(timer("Controller", method), time.Now())
	ctx, cancel := context.WithTimeout(ctx, callWithin)
	defer cancel()
	id := req.Controller().PluginID
	nodes, err := instances(c.cfg.Store().Snapshot(), id)
	if err != nil {
		return err
	}
	for _, node := range nodes {
		req.Controller().ControllerNodeID = node
		err = c.call(ctx, nodeCall{node, "Controller" + method, req}, resp)
		if !elsewhere(err) || ctx.Err() != nil {
			return err
		}
		c.cfg.Log.Debug("instance of a controller plugin cannot answer", "plugin", id, "node", node, "method", method, "err", err)
	}
	return fmt.Errorf("failed to find clients running controller plugin %q: %w", id, err)
}

// Node calls a method of the node plugin on a node, such as "DetachVolume". The request has the ID of the node.
func (c *Caller) Node(ctx context.Context, node, method string, req rpc.ServerCall, resp any) error {
	defer metrics.MeasureSince(timer("Node", method), time.Now())
	ctx, cancel := context.WithTimeout(ctx, callWithin)
	defer cancel()
	return c.call(ctx, nodeCall{node, "Node" + method, req}, resp)
}

// timer returns the metric of the calls of a method.
func timer(kind, method string) []string {
	return append([]string{"nomad"}, strings.Split(meter.ServerName("ClientCSI."+kind+method), ".")...)
}

// nodeCall is a call of a method of CSI to a node.
type nodeCall struct {
	node, method string
	req          rpc.ServerCall
}

// call makes a call to a node, over a session of this server or of another one.
func (c *Caller) call(ctx context.Context, n nodeCall, resp any) error {
	n.req.Caller().Region, n.req.Caller().AuthToken = c.cfg.Region, ""
	err := c.cfg.Nodes().NodeCall(ctx, n.node, "CSI."+n.method, n.req, resp)
	if errors.Is(err, apierror.ErrNoNodeConn) {
		err = c.cfg.Peers.AsServer(ctx, n.node, "ClientCSI."+n.method, n.req, resp)
	}
	switch {
	case err == nil:
		return nil
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return fmt.Errorf("the plugin on node %s did not answer %s in time", n.node, n.method)
	case ctx.Err() != nil:
		return ctx.Err()
	}
	return cleaned(err, n.req)
}

// elsewhere reports whether another instance may answer the call, because it has not reached a plugin.
func elsewhere(err error) bool {
	return err != nil && (errors.Is(err, apierror.ErrNoNodeConn) || errors.Is(err, apierror.ErrUnsent) ||
		errors.Is(err, apierror.ErrNoStream) || errors.Is(err, apierror.ErrNoMethod) ||
		strings.Contains(err.Error(), csi.ErrRetryable.Error()) || strings.Contains(err.Error(), apierror.ErrUnknownNodePrefix))
}

// instances returns the nodes with a healthy instance of a controller plugin, sorted.
func instances(snap *state.Snapshot, id string) ([]string, error) {
	p := snap.CSIPlugin(nil, id)
	if p == nil {
		return nil, fmt.Errorf("plugin missing: %s", id)
	}
	var nodes []string
	for node, info := range p.Controllers {
		if info == nil || !info.Healthy {
			continue
		}
		if n := snap.Node(nil, node); n != nil && n.Status == nomad.NodeStatusReady {
			nodes = append(nodes, node)
		}
	}
	if len(nodes) == 0 {
		return nil, fmt.Errorf("failed to find instances of controller plugin %q", id)
	}
	slices.Sort(nodes)
	return nodes, nil
}
