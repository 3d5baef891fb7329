package httpapi

import (
	"net/http"

	"github.com/open-nomad/open-nomad/acl"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/message"
)

// memberRoutes returns the routes of gossip members, gossip keys and Raft peers.
func (s *Server) memberRoutes() []route {
	return []route{
		{methods: "PUT POST", path: "/v1/agent/join", handle: s.forOperators(acl.ToWrite(acl.Agents), s.agentJoin)},
		{methods: "PUT POST", path: "/v1/agent/force-leave", handle: s.forOperators(acl.ToWrite(acl.Agents), s.agentForceLeave)},
		{methods: "GET", path: "/v1/agent/keyring/list", handle: s.forOperators(acl.ToWrite(acl.Agents), s.gossipKeys)},
		{methods: "PUT POST", path: "/v1/agent/keyring/install", handle: s.forOperators(acl.ToWrite(acl.Agents), s.gossipKey(GossipKeys.InstallGossipKey))},
		{methods: "PUT POST", path: "/v1/agent/keyring/use", handle: s.forOperators(acl.ToWrite(acl.Agents), s.gossipKey(GossipKeys.UseGossipKey))},
		{methods: "PUT POST", path: "/v1/agent/keyring/remove", handle: s.forOperators(acl.ToWrite(acl.Agents), s.gossipKey(GossipKeys.RemoveGossipKey))},
		{methods: "GET", path: "/v1/operator/raft/configuration", handle: read("Operator.RaftGetConfiguration", noFields[message.GenericRequest], whole[message.RaftConfigurationResponse])},
		{methods: "DELETE", path: "/v1/operator/raft/peer", call: write("Operator.RaftRemovePeerByID", raftPeer, nothing[struct{}])},
		{methods: "PUT POST", path: "/v1/operator/raft/transfer-leadership", call: write("Operator.TransferLeadershipToPeer", raftTarget, whole[message.LeadershipTransferResponse])},
	}
}

// joinReply is the body of /v1/agent/join.
type joinReply struct {
	NumJoined int    `codec:"num_joined"`
	Error     string `codec:"error"`
}

var errNoServer = nomad.Errorf(http.StatusNotImplemented, "Invalid method: this agent is not a server")

func (s *Server) agentJoin(r *request) (any, error) {
	if s.cfg.Members == nil {
		return nil, errNoServer
	}
	addrs := r.query["address"]
	if len(addrs) == 0 {
		return nil, nomad.Errorf(http.StatusBadRequest, "missing address to join")
	}
	n, err := s.cfg.Members.Join(addrs)
	out := &joinReply{NumJoined: n}
	if err != nil {
		out.Error = err.Error()
	}
	return out, nil
}

func (s *Server) agentForceLeave(r *request) (any, error) {
	if s.cfg.Members == nil {
		return nil, errNoServer
	}
	name := r.query.Get("node")
	switch prune := r.query.Get("prune"); {
	case name == "":
		return nil, nomad.Errorf(http.StatusBadRequest, "missing node to force leave")
	case prune == "true" || prune == "1":
		return nil, s.cfg.Members.Prune(name)
	}
	return nil, s.cfg.Members.ForceLeave(name)
}

func (s *Server) gossipKeys(*request) (any, error) {
	if s.cfg.Keys == nil {
		return nil, errNoServer
	}
	return s.cfg.Keys.ListGossipKeys()
}

// gossipKey returns the handler of an operation on the gossip key in the body.
func (s *Server) gossipKey(do func(GossipKeys, string) (*message.KeyringResponse, error)) func(*request) (any, error) {
	return func(r *request) (any, error) {
		if s.cfg.Keys == nil {
			return nil, errNoServer
		}
		var body struct{ Key string }
		if err := r.decode(&body); err != nil {
			return nil, err
		}
		return do(s.cfg.Keys, body.Key)
	}
}

// raftPeer reads the server ID from the query.
func raftPeer(r *request, q *message.RaftPeerByIDRequest) error {
	if r.query.Has("address") {
		return nomad.Errorf(http.StatusBadRequest, "servers are removed by ID, not by address")
	}
	if q.ID = r.query.Get("id"); q.ID == "" {
		return nomad.Errorf(http.StatusBadRequest, "missing server id")
	}
	return nil
}

// raftTarget reads the new leader from the query.
func raftTarget(r *request, q *message.RaftPeerRequest) error {
	q.ID, q.Address = r.query.Get("id"), r.query.Get("address")
	if (q.ID == "") == (q.Address == "") {
		return nomad.Errorf(http.StatusBadRequest, "specify either id or address")
	}
	return nil
}
