package endpoint

import (
	"context"
	"errors"
	"math"
	"regexp"
	"sync"
	"sync/atomic"
	"time"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/rpc"
)

// askWithin bounds the question whether the agent that holds a node lives. One that
// was killed has no connection any more: then the answer is there within a
// millisecond, and a restart waits for nothing. One that lives may be on a machine that
// is busy.
const askWithin = time.Second

// bootID is the form of a digest of a boot; agents may tell none.
var bootID = regexp.MustCompile(`^([0-9a-f]{64})?$`)

// How two agents with one node ID are mended.
const mending = "If this is a copy (of a disk, an image or a backup), stop this agent and remove client-id and secret-id from its client state directory: " +
	"it joins as a node of its own then."

// succeeds judges an agent that wants to hold a node in another's place. Nothing of
// one that is refused is written, so that the other isn't disturbed:
//
//	the other missed its heartbeat      a restart, or a backup: let in
//	it runs on another boot             refused until the other is silent
//	the same boot, and it answers       refused
//	the same boot, and it does not      a restart: let in; should the other be heard
//	                                    again, the log decides (nomad.NodeSession)
func (s *Service) succeeds(ctx context.Context, old, n *nomad.Node) error {
	had, next := old.Session, n.Session
	if had == nil || next == nil || next.ID == had.ID {
		return nil
	}
	in := s.cfg.Heartbeats.Silent(n.ID)
	contest := next.ID == had.PreviousID && s.cfg.Now().Sub(time.Unix(had.Since, 0)) <= nomad.SessionContest
	if in == 0 || old.TerminalStatus() || contest {
		return nil
	}
	switch {
	case next.ID == had.RefusedID:
		return s.another(n, "two agents present the ID of node %s, and this one came later. "+mending, n.ID)
	case had.BootID != "" && next.BootID != "" && had.BootID != next.BootID:
		return s.another(n, "node %s runs on another machine, or did before this one booted. If this machine was restarted, it is let in by itself in %d s. "+mending,
			n.ID, int(math.Ceil(in.Seconds())))
	case s.lives(ctx, n.ID, had.ID):
		return s.another(n, "another agent on this machine is node %s, and answers. "+mending, n.ID)
	}
	return nil
}

// another refuses an agent for whom a node is another's.
func (s *Service) another(n *nomad.Node, why string, args ...any) error {
	err := nomad.Errorf(403, nomad.ErrNodeHeld.Error()+": "+why, args...)
	s.log.Warn("refused an agent", "node", n.ID, "name", n.Name, "err", err)
	return err
}

// current refuses a heartbeat of an agent that does not hold the node. It must
// register: that decides whose the node is.
func current(n *nomad.Node, session string) error {
	if n.Session == nil || session == "" || session == n.Session.ID {
		return nil
	}
	return nomad.ErrNodeSession
}

// disowned takes the connection of an agent that is refused as another's: what is
// asked of the node must not reach it.
func disowned(c *rpc.Call, err error) error {
	other := errors.Is(err, nomad.ErrNodeHeld) || errors.Is(err, nomad.ErrNodeSession)
	if other && c.Conn != nil && !c.Forwarded {
		c.Conn.UnbindNode()
	}
	return err
}

// lives says whether the agent with the session answers, over a connection of this
// server or another.
func (s *Service) lives(ctx context.Context, node, session string) bool {
	ctx, cancel := context.WithTimeout(ctx, askWithin)
	defer cancel()
	var found atomic.Bool
	var wg sync.WaitGroup
	for _, ask := range []func(context.Context, string) (string, error){s.askNode, s.cfg.Peers.NodeSession} {
		wg.Go(func() {
			id, err := ask(ctx, node)
			if err != nil {
				s.log.Debug("ask for the session of a node", "node", node, "err", err)
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

// askNode asks a node for its session over a connection of this server.
func (s *Service) askNode(ctx context.Context, node string) (string, error) {
	req := &nomad.NodeSpecificRequest{NodeID: node, QueryOptions: nomad.QueryOptions{Region: s.cfg.Region}}
	var out nomad.NodeSessionResponse
	err := s.cfg.Nodes().NodeCall(ctx, node, "NodeIdentity.Session", req, &out)
	return out.ID, err
}

// nodeSession tells another server the session of a node that is connected here.
func (s *Service) nodeSession(ctx context.Context, _ *rpc.Call, req *nomad.NodeSpecificRequest) (*nomad.NodeSessionResponse, error) {
	id, err := s.askNode(ctx, req.NodeID)
	return &nomad.NodeSessionResponse{ID: id}, err
}
