package nodes

import (
	"context"
	"crypto/subtle"
	"net"
	"sync"
	"time"

	"github.com/hashicorp/go-metrics"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rpc"
)

// clones is the metric that counts agents that were refused because another one has the node.
var clones = []string{"nomad", "client", "clone_refused"}

// proven checks the key of a registration. Without a key it does nothing: agents of other projects have
// none. A key needs a proof.
func (s *Service) proven(req *message.NodeRegisterRequest) error {
	n := req.Node
	if len(n.Key) == 0 {
		return nil
	}
	if !req.Proof.Proves(n) {
		return apierror.Errorf(403, "the registration of node %s is not signed with its key", n.ID)
	}
	return s.challenges.check(req.Proof.Nonce, n.ID, n.Key, s.Now())
}

// spend makes the proof of an admitted registration useless for another one. A refused registration spends nothing:
// agents without an introduction would fill the record, and keep all others out.
func (s *Service) spend(req *message.NodeRegisterRequest) error {
	if len(req.Node.Key) == 0 {
		return nil
	}
	return s.challenges.spend(req.Proof.Nonce, req.Node.ID, req.Node.Key, s.Now())
}

// sameKey rejects an agent that does not have the key to which a node is bound. Its secret ID was right,
// so it is a copy of the node, or the node has lost its key. The operator of the node gets a node event,
// the other one the error in the log and the health of the agent.
func (s *Service) sameKey(ctx context.Context, c *rpc.Call, old, n *nomad.Node) error {
	if len(old.Key) == 0 || subtle.ConstantTimeCompare(old.Key, n.Key) == 1 {
		return nil
	}
	has := "another key"
	if len(n.Key) == 0 {
		has = "no key"
	}
	err := s.another(n, "node %s is bound to a key, and this agent has %s. If the node has lost its file node-key, "+
		"restore it, or purge the node and introduce it again. "+mending, n.ID, has)
	s.report(ctx, c, n, has)
	return err
}

// report writes an event of the node about a refused agent, at most one per node and reportEvery.
func (s *Service) report(ctx context.Context, c *rpc.Call, n *nomad.Node, has string) {
	now := s.Now()
	if !s.reports.due(n.ID, now) {
		return
	}
	e := &nomad.NodeEvent{Message: "Refused another agent with this node's ID and secret", Subsystem: nomad.NodeEventSubsystemCluster,
		Timestamp: now.UTC(), Details: map[string]string{"agent_has": has, "name": n.Name, "address": remote(c)}}
	_, err := s.Apply(ctx, message.UpsertNodeEventsType, &message.EmitNodeEventsRequest{NodeEvents: map[string][]*nomad.NodeEvent{n.ID: {e}}})
	if err != nil {
		s.Log.Warn("write the event of a refused agent", "node", n.ID, "err", err)
	}
}

// remote returns the address of a caller, or "" if a server has forwarded the call.
func remote(c *rpc.Call) string {
	if c.Conn == nil || c.Forwarded {
		return ""
	}
	host, _, err := net.SplitHostPort(c.Conn.RemoteAddr().String())
	if err != nil {
		return ""
	}
	return host
}

// Limits of events about refused agents: they are writes that an agent causes without being admitted.
const (
	reportEvery = 10 * time.Minute
	maxReports  = 1024 // nodes within reportEvery
)

// reports holds the times of the last events.
type reports struct {
	mu   sync.Mutex
	last map[string]time.Time // by node ID
}

// due reports whether an event may be written, and records it.
func (r *reports) due(node string, now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.last == nil {
		r.last = map[string]time.Time{}
	}
	for id, at := range r.last {
		if now.Sub(at) >= reportEvery {
			delete(r.last, id)
		}
	}
	if _, recent := r.last[node]; recent || len(r.last) >= maxReports {
		return false
	}
	r.last[node] = now
	return true
}

// countClone counts a refused agent.
func countClone() { metrics.IncrCounter(clones, 1) }
