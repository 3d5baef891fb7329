package server

import (
	"cmp"
	"net/http"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/audit"
	"github.com/open-nomad/open-nomad/nomad/rpc"
)

// audited puts a call that came over the network on record, before and after. What
// another server passed on is on its record already. Calls of nodes and servers are
// never refused for the record: a disk that is full must not take nodes down.
func (s *Server) audited(m rpc.Method, c *rpc.Call, req rpc.Request, refused error) (func(error) error, error) {
	log := s.cfg.Audit
	if !log.On() || passedOn(c) {
		return func(err error) error { return err }, nil
	}
	who := audit.AuthOf(c.Identity)
	if refused != nil {
		who = audit.Auth{Kind: audit.KindInvalid, Name: c.Identity.TLSName}
	}
	before := audit.Event{Type: audit.RPC, Stage: audit.Received, Auth: who, Request: askedFor(m, c, req)}
	must := m.Rule == rpc.Anonymous || m.Rule == rpc.Token || m.Rule == rpc.Management
	if err := log.Record(&before); err != nil && must {
		return nil, err
	}
	return func(err error) error {
		after := audit.Event{Type: audit.RPC, Stage: audit.Complete, Auth: who, Request: before.Request,
			Response: &audit.Response{Status: http.StatusOK}}
		if err != nil {
			after.Response = &audit.Response{Status: nomad.HTTPStatus(err), Error: err.Error()}
		}
		if lost := log.Record(&after); lost != nil && must {
			return lost
		}
		return err
	}, nil
}

// passedOn says whether a call certainly came from another server, which has it on
// record. That it says so itself proves nothing.
func passedOn(c *rpc.Call) bool {
	if !c.Forwarded {
		return false
	}
	if claims := c.Identity.Claims; claims != nil && claims.ServerIdentityClaims != nil {
		return true
	}
	peer := c.Conn.Peer()
	return peer != nil && peer.ServesAny()
}

// askedFor says what a call asks for.
func askedFor(m rpc.Method, c *rpc.Call, req rpc.Request) audit.Request {
	env := req.Envelope()
	out := audit.Request{Endpoint: m.Name, Operation: "read", Namespace: env.Namespace,
		RemoteAddress: c.Conn.RemoteAddr().String(), Forwarded: c.Forwarded}
	var namespace string
	out.Object, namespace = variableOf(req)
	if r, ok := req.(*nomad.AllocExecRequest); ok {
		out.Object = r.AllocID + "/" + r.Task // never the command: it may hold secrets
	}
	out.Namespace = cmp.Or(out.Namespace, namespace)
	switch {
	case m.Stream:
		out.Operation = "stream"
	case env.Write:
		out.Operation = "write"
	}
	return out
}

// variableOf is the path of the variable that a call is about, or their prefix, and the
// namespace that its body names.
func variableOf(req rpc.Request) (path, namespace string) {
	switch r := req.(type) {
	case *nomad.VariablesReadRequest:
		return r.Path, ""
	case *nomad.VariablesListRequest:
		return r.Prefix, ""
	case *nomad.VariablesRenewLockRequest:
		return r.Path, ""
	case *nomad.VariablesApplyRequest:
		if r.Var != nil {
			return r.Var.Path, r.Var.Namespace
		}
	}
	return "", ""
}
