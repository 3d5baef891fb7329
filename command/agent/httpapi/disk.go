package httpapi

import (
	"net/http"

	"github.com/open-nomad/open-nomad/command/agent/httpapi/web"
	"github.com/open-nomad/open-nomad/nomad/apierror"
)

// Disks serves the data of finished allocations of this node. The token of the request is the
// migrate token of the allocation.
type Disks interface {
	ServeSnapshot(w http.ResponseWriter, r *http.Request, alloc string) error
}

func (s *Server) diskRoutes() []web.Route {
	return []web.Route{{Methods: "GET", Path: "/v1/client/allocation/:alloc_id/snapshot", CORS: true, Handle: s.allocSnapshot}}
}

// allocSnapshot streams the data of an allocation of this node to the node of its successor. It is
// never forwarded. The migrate token is required with and without ACLs.
func (s *Server) allocSnapshot(r *web.Request) (any, error) {
	if r.IsDry() || s.cfg.Disks == nil {
		return nil, errNoDisks
	}
	w := &began{ResponseWriter: r.Reply}
	err := s.cfg.Disks.ServeSnapshot(w, r.Request, r.Param)
	switch {
	case err == nil:
	case !w.sent:
		return nil, err
	default:
		s.cfg.Log.Warn("the snapshot of an allocation is incomplete", "alloc", r.Param, "err", err)
		panic(http.ErrAbortHandler) // so that the receiver detects it
	}
	return nil, web.ErrDone
}

// errNoDisks is the reply of an agent without a client.
var errNoDisks = apierror.Errorf(http.StatusBadRequest, "this agent is not a client: ask the agent of the allocation's node")

// began records whether a part of the body was sent.
type began struct {
	http.ResponseWriter
	sent bool
}

// Write implements http.ResponseWriter.
func (b *began) Write(p []byte) (int, error) {
	b.sent = true
	return b.ResponseWriter.Write(p)
}
