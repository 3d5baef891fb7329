package nodes

import (
	"context"
	"errors"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/open-nomad/open-nomad/internal/pattern"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rpc"
)

// askWithin is the timeout for asking whether the agent of a node is running. After a restart
// the old agent has no connection, and the call returns within a millisecond. An agent that
// is running may be slow on a busy machine.
const askWithin = time.Second

// bootID matches the digest of a boot ID. Agents may omit it.
var bootID = pattern.Lazy(`^([0-9a-f]{64})?$`)

// mending explains to an operator how to fix two agents with one node ID.
const mending = "If this machine is a copy (of a disk, an image or a backup), stop this agent and remove client-id " +
	"and secret-id from its client state directory: " +
	"it then joins as a new node."

// succeeds decides whether a new agent session may replace the current session of a node. A
// rejection writes nothing, so it does not affect the current session:
//
//	the node is silent (see Heartbeats)     a restart, or a backup: allow
//	the current session is of another boot  reject until the node is silent
//	the same boot, and the agent answers    reject
//	the same boot, and it does not answer   a restart: allow; if the old agent sends a
//	                                        heartbeat later, the FSM decides (nomad.NodeSession)
//	the call ends meanwhile                 reject
func (s *Service) succeeds(ctx context.Context, old, n *nomad.Node) error {
	had, next := old.Session, n.Session
	if had == nil || next == nil || next.ID == had.ID {
		return nil
	}
	in := s.cfg.Heartbeats.UntilMissed(n.ID)
	contest := next.ID == had.PreviousID && s.Now().Sub(time.Unix(had.Since, 0)) <= nomad.SessionContest
	if in == 0 || old.TerminalStatus() || contest {
		return nil
	}
	switch {
	case next.ID == had.RefusedID:
		return s.another(n, "two agents use the ID of node %s, and this one registered later. "+mending, n.ID)
	case had.BootID != "" && next.BootID != "" && had.BootID != next.BootID:
		return s.another(n, "node %s runs on another machine, or ran before this machine booted. If this machine "+
			"was rebooted, it is admitted in %d s. "+mending,
			n.ID, int(math.Ceil(in.Seconds())))
	case s.lives(ctx, n.ID, had.ID):
		return s.another(n, "another running agent on this machine uses the ID of node %s. "+mending, n.ID)
	}
	return ctx.Err() // the agent may have answered after the end of the call
}

// another rejects an agent because another agent holds the node ID.
func (s *Service) another(n *nomad.Node, why string, args ...any) error {
	err := apierror.Errorf(403, apierror.ErrNodeHeld.Error()+": "+why, args...)
	s.Log.Warn("rejected agent", "node", n.ID, "name", n.Name, "err", err)
	countClone()
	return err
}

// current rejects a heartbeat of an agent whose session does not hold the node. The agent
// must register again, which decides who holds it.
func current(n *nomad.Node, session string) error {
	if n.Session == nil || session == "" || session == n.Session.ID {
		return nil
	}
	return apierror.ErrNodeSession
}

// disowned unbinds the connection of an agent that was rejected because another agent holds
// the node. Calls to the node must not reach it.
func disowned(c *rpc.Call, err error) error {
	other := errors.Is(err, apierror.ErrNodeHeld) || errors.Is(err, apierror.ErrNodeSession)
	if other && c.Conn != nil && !c.Forwarded {
		c.Conn.UnbindNode()
	}
	return err
}

// lives reports whether the agent with the session answers, over a connection of this server
// or another one.
func (s *Service) lives(ctx context.Context, node, session string) bool {
	ctx, cancel := context.WithTimeout(ctx, askWithin)
	defer cancel()
	var found atomic.Bool
	var wg sync.WaitGroup
	for _, ask := range []func(context.Context, string) (string, error){s.askNode, s.Peers.NodeSession} {
		wg.Go(func() {
			id, err := ask(ctx, node)
			if err != nil {
				s.Log.Debug("request node session", "node", node, "err", err)
			}
			if id == session {
				found.Store(true)
				cancel()
			}
		})
	}
	wg.Wait()
	return found.Load()
}

// askNode gets the session of a node over a connection of this server.
func (s *Service) askNode(ctx context.Context, node string) (string, error) {
	req := &message.NodeSpecificRequest{NodeID: node, QueryOptions: message.QueryOptions{Region: s.Region}}
	var out message.NodeSessionResponse
	err := s.Nodes().NodeCall(ctx, node, "NodeIdentity.Session", req, &out)
	return out.ID, err
}

// Session returns the session of a node that is connected to this server.
func (s *Service) Session(ctx context.Context, _ *rpc.Call, req *message.NodeSpecificRequest) (*message.NodeSessionResponse, error) {
	id, err := s.askNode(ctx, req.NodeID)
	return &message.NodeSessionResponse{ID: id}, err
}

// BoundNode returns the ID of the node that sent a call which another server has answered. It
// returns "" for methods that do not bind a connection to a node. The server that answered has
// authenticated the node.
func BoundNode(method string, req rpc.Request) string {
	switch r := req.(type) {
	case *message.NodeRegisterRequest:
		if r.Node != nil {
			return r.Node.ID
		}
	case *message.NodeUpdateStatusRequest:
		return r.NodeID
	case *message.NodeSpecificRequest:
		if method == "Node.GetClientAllocs" {
			return r.NodeID
		}
	}
	return ""
}
