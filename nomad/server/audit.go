package server

import (
	"cmp"
	"net/http"

	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/audit"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rpc"
)

// audited records a call that came over the network, before and after it runs. Calls that
// another server forwarded were recorded there. Calls of nodes and servers are never refused
// because of the audit log: a full disk must not take nodes down.
func (s *Server) audited(m rpc.Method, c *rpc.Call, req rpc.Request, refused error) (func(error) error, error) {
	log := s.cfg.Audit
	if !log.Enabled() || passedOn(c) {
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
			after.Response = &audit.Response{Status: apierror.HTTPStatus(err), Error: err.Error()}
		}
		if lost := log.Record(&after); lost != nil && must {
			return lost
		}
		return err
	}, nil
}

// passedOn reports whether another server certainly forwarded the call and has recorded it. The
// flag in the request alone proves nothing.
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

// askedFor returns the request for the audit log.
func askedFor(m rpc.Method, c *rpc.Call, req rpc.Request) audit.Request {
	env := req.Envelope()
	out := audit.Request{Endpoint: m.Name, Operation: "read", Namespace: env.Namespace,
		RemoteAddress: c.Conn.RemoteAddr().String(), Forwarded: c.Forwarded}
	var namespace string
	out.Object, namespace = variableOf(req)
	switch r := req.(type) {
	case *message.AllocExecRequest:
		out.Object = r.AllocID + "/" + r.Task // without the command, which may contain secrets
	case *message.AllocPortForwardRequest:
		out.Object = r.AllocID + "/" + r.Port
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

// variableOf returns the path of a call's variable or its prefix, and the namespace in the
// body.
func variableOf(req rpc.Request) (path, namespace string) {
	switch r := req.(type) {
	case *message.VariablesReadRequest:
		return r.Path, ""
	case *message.VariablesListRequest:
		return r.Prefix, ""
	case *message.VariablesTreeRequest:
		return r.Prefix, ""
	case *message.VariablesRenewLockRequest:
		return r.Path, ""
	case *message.VariablesApplyRequest:
		if r.Var != nil {
			return r.Var.Path, r.Var.Namespace
		}
	}
	return "", ""
}
