package httpapi

import (
	"net/http"

	"github.com/open-nomad/open-nomad/acl"
	"github.com/open-nomad/open-nomad/command/agent/httpapi/web"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/message"
)

// memberRoutes returns the routes of gossip members, gossip keys and Raft peers.
func (s *Server) memberRoutes() []web.Route {
	return []web.Route{
		{Methods: "PUT POST", Path: "/v1/agent/join", Handle: web.ForOperators(acl.ToWrite(acl.Agents), s.agentJoin)},
		{Methods: "PUT POST", Path: "/v1/agent/force-leave", Handle: web.ForOperators(acl.ToWrite(acl.Agents), s.agentForceLeave)},
		{Methods: "GET", Path: "/v1/agent/keyring/list", Handle: web.ForOperators(acl.ToWrite(acl.Agents), s.gossipKeys)},
		{Methods: "PUT POST", Path: "/v1/agent/keyring/install",
			Handle: web.ForOperators(acl.ToWrite(acl.Agents), s.gossipKey(GossipKeys.InstallGossipKey))},
		{Methods: "PUT POST", Path: "/v1/agent/keyring/use",
			Handle: web.ForOperators(acl.ToWrite(acl.Agents), s.gossipKey(GossipKeys.UseGossipKey))},
		{Methods: "PUT POST", Path: "/v1/agent/keyring/remove",
			Handle: web.ForOperators(acl.ToWrite(acl.Agents), s.gossipKey(GossipKeys.RemoveGossipKey))},
		{Methods: "GET", Path: "/v1/operator/raft/configuration",
			Handle: web.Read("Operator.RaftGetConfiguration", web.NoFields[message.GenericRequest], web.Full[message.RaftConfigurationResponse])},
		{Methods: "DELETE", Path: "/v1/operator/raft/peer", Call: web.Write("Operator.RaftRemovePeerByID", raftPeer, web.Nothing[struct{}])},
		{Methods: "PUT POST", Path: "/v1/operator/raft/transfer-leadership",
			Call: web.Write("Operator.TransferLeadershipToPeer", raftTarget, web.Full[message.LeadershipTransferResponse])},
	}
}

// joinReply is the body of /v1/agent/join.
type joinReply struct {
	NumJoined int    `codec:"num_joined"`
	Error     string `codec:"error"`
}

var errNoServer = apierror.Errorf(http.StatusNotImplemented, "Invalid method: this agent is not a server")

func (s *Server) agentJoin(r *web.Request) (any, error) {
	if s.cfg.Members == nil {
		return nil, errNoServer
	}
	addrs := r.Query["address"]
	if len(addrs) == 0 {
		return nil, apierror.Errorf(http.StatusBadRequest, "missing address to join")
	}
	n, err := s.cfg.Members.Join(addrs)
	out := &joinReply{NumJoined: n}
	if err != nil {
		out.Error = err.Error()
	}
	return out, nil
}

func (s *Server) agentForceLeave(r *web.Request) (any, error) {
	if s.cfg.Members == nil {
		return nil, errNoServer
	}
	name := r.Query.Get("node")
	switch prune := r.Query.Get("prune"); {
	case name == "":
		return nil, apierror.Errorf(http.StatusBadRequest, "missing node to force leave")
	case prune == "true" || prune == "1":
		return nil, s.cfg.Members.Prune(name)
	}
	return nil, s.cfg.Members.ForceLeave(name)
}

func (s *Server) gossipKeys(*web.Request) (any, error) {
	if s.cfg.Keys == nil {
		return nil, errNoServer
	}
	return s.cfg.Keys.ListGossipKeys()
}

// gossipKey returns the handler of an operation on the gossip key in the body.
func (s *Server) gossipKey(do func(GossipKeys, string) (*message.KeyringResponse, error)) web.Handler {
	return func(r *web.Request) (any, error) {
		if s.cfg.Keys == nil {
			return nil, errNoServer
		}
		var body struct{ Key string }
		if err := r.Decode(&body); err != nil {
			return nil, err
		}
		return do(s.cfg.Keys, body.Key)
	}
}

// raftPeer reads the server ID from the query.
func raftPeer(r *web.Request, q *message.RaftPeerByIDRequest) error {
	if r.Query.Has("address") {
		return apierror.Errorf(http.StatusBadRequest, "servers are removed by ID, not by address")
	}
	if q.ID = r.Query.Get("id"); q.ID == "" {
		return apierror.Errorf(http.StatusBadRequest, "missing server id")
	}
	return nil
}

// raftTarget reads the new leader from the query.
func raftTarget(r *web.Request, q *message.RaftPeerRequest) error {
	q.ID, q.Address = r.Query.Get("id"), r.Query.Get("address")
	if (q.ID == "") == (q.Address == "") {
		return apierror.Errorf(http.StatusBadRequest, "specify either id or address")
	}
	return nil
}
