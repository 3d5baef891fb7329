package httpapi

import (
	"errors"

	"github.com/open-nomad/open-nomad/nomad"
)

// What an agent answers by itself has no method behind it that would look at the token.

// forCallers refuses bad tokens. While no server can look at one, the agent tells of
// itself all the same: without access control everybody may ask, with a token or not.
func (s *Server) forCallers(handle func(*request) (any, error)) func(*request) (any, error) {
	return func(r *request) (any, error) {
		if _, err := s.caller(r); errors.Is(err, nomad.ErrPermissionDenied) {
			return nil, err
		}
		return handle(r)
	}
}

// forOperators refuses bad tokens, and the identities of tasks and nodes, which come
// through the sockets of tasks: the agent and its secrets are not theirs.
func (s *Server) forOperators(handle func(*request) (any, error)) func(*request) (any, error) {
	return func(r *request) (any, error) {
		switch id, err := s.caller(r); {
		case err != nil:
			return nil, err
		case id != nil && id.Claims != nil:
			return nil, nomad.ErrPermissionDenied
		}
		return handle(r)
	}
}

// caller has the servers say whose token it is; nil is nobody's, without one.
func (s *Server) caller(r *request) (*nomad.AuthenticatedIdentity, error) {
	token := r.token()
	if token == "" {
		return nil, nil
	}
	who := nomad.GenericRequest{QueryOptions: nomad.QueryOptions{Region: s.cfg.Region, AuthToken: token, AllowStale: true}}
	var resp nomad.ACLWhoAmIResponse
	if err := s.cfg.RPC.Call(r.Context(), "ACL.WhoAmI", &who, &resp); err != nil {
		return nil, err
	}
	if resp.Identity == nil {
		return nil, nomad.ErrPermissionDenied
	}
	return resp.Identity, nil
}
