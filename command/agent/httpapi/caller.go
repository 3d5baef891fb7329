package httpapi

import (
	"context"
	"errors"

	"github.com/open-nomad/open-nomad/acl"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/acls"
	"github.com/open-nomad/open-nomad/nomad/rpc"
)

// What an agent answers by itself has no method behind it that would look at the token.

// Callers says who the bearer of a token is, "" for nobody's, and what that one may do.
// The error is a nomad.ErrPermissionDenied for a token that is not good; with any other
// nobody can tell.
type Callers interface {
	Access(ctx context.Context, token string) (*acls.AuthenticatedIdentity, *rpc.Access, error)
	// AccessNow is Access with the state of the leader: nothing that it returns was cached.
	AccessNow(ctx context.Context, token string) (*acls.AuthenticatedIdentity, *rpc.Access, error)
}

// errCallers says that this agent was made without Callers: it admits nobody.
var errCallers = errors.New("this agent cannot tell who calls")

// forCallers refuses bad tokens, and where there is access control who lacks what is
// asked for; the zero question asks for nothing. Without access control everybody may
// ask, with a token or not: while no server can look at one, the agent tells of itself
// all the same.
func (s *Server) forCallers(q acl.Question, handle func(*request) (any, error)) func(*request) (any, error) {
	return func(r *request) (any, error) {
		if r.notes(q) {
			return nil, nomad.ErrPermissionDenied
		}
		_, access, err := s.caller(r)
		if err != nil && (s.cfg.ACL || errors.Is(err, nomad.ErrPermissionDenied)) {
			return nil, err
		}
		if access != nil && q.Kind != "" {
			if err := access.Need(q); err != nil {
				return nil, err
			}
		}
		return handle(r)
	}
}

// forOperators refuses bad tokens and who lacks what is asked for. Without access control
// it refuses the identities of tasks and nodes, which come through the sockets of tasks:
// the agent and its secrets are not theirs.
func (s *Server) forOperators(q acl.Question, handle func(*request) (any, error)) func(*request) (any, error) {
	return func(r *request) (any, error) {
		if r.notes(q) {
			return nil, nomad.ErrPermissionDenied
		}
		id, access, err := s.caller(r)
		switch {
		case err != nil:
			return nil, err
		case access.Off && id.Claims != nil:
			return nil, nomad.ErrPermissionDenied
		}
		if err := access.Need(q); err != nil {
			return nil, err
		}
		return handle(r)
	}
}

// caller says whose token it is, and what that one may do.
func (s *Server) caller(r *request) (*acls.AuthenticatedIdentity, *rpc.Access, error) {
	if s.cfg.Callers == nil {
		return nil, nil, errCallers
	}
	return s.cfg.Callers.Access(r.Context(), r.token())
}
