package web

import (
	"context"
	"net"
	"net/http"

	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rbac"
)

// TaskSocket returns the handler for the socket of a task. It serves the complete API to callers
// with a token. Without a token the status is 401 for every path, with an invalid token 403. This
// does not depend on whether ACLs are enabled, as in Nomad 2.0.
func (s *Server) TaskSocket() http.Handler { return taskSocket{s} }

type taskSocket struct{ server *Server }

// ServeHTTP implements http.Handler.
func (t taskSocket) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	release := t.server.newIntake(w, req)
	defer release()
	t.server.audited(w, req, t.server.answerTask)
}

// RefusedConn records a connection to the socket of a task that was over the limit.
func (t taskSocket) RefusedConn(c net.Conn) { t.server.RefusedConn(c) }

func (s *Server) answerTask(w http.ResponseWriter, req *http.Request) {
	token := Token(req)
	if token == "" {
		writeError(w, apierror.Errorf(http.StatusUnauthorized, "Unauthorized"))
		return
	}
	somebody, err := s.hasIdentity(req.Context(), s.cfg.Region, token)
	switch {
	case err != nil && status(err) == http.StatusInternalServerError:
		writeError(w, apierror.Errorf(http.StatusInternalServerError, "the token could not be checked: no response from the servers"))
	case err != nil || !somebody:
		writeError(w, apierror.Errorf(http.StatusForbidden, "Forbidden"))
	default:
		s.answer(w, req)
	}
}

// HasIdentity reports whether the region of the request resolves the token to an identity or a real ACL token.
func (r *Request) HasIdentity(token string) (bool, error) {
	return r.server.hasIdentity(r.Context(), r.Region(), token)
}

func (s *Server) hasIdentity(ctx context.Context, region, token string) (bool, error) {
	who := message.GenericRequest{QueryOptions: message.QueryOptions{Region: region, AuthToken: token, AllowStale: true}}
	var resp message.ACLWhoAmIResponse
	err := s.cfg.RPC.Call(ctx, "ACL.WhoAmI", &who, &resp)
	return err == nil && isSomebody(resp.Identity), err
}

// isSomebody reports whether a token resolved to an identity or a real ACL token. The anonymous
// token and the token of an agent without ACLs do not count.
func isSomebody(id *rbac.AuthenticatedIdentity) bool {
	switch {
	case id == nil:
		return false
	case id.Claims != nil:
		return true
	case id.ACLToken == nil:
		return false
	}
	return id.ACLToken.AccessorID != "anonymous" && id.ACLToken.AccessorID != "acls-disabled"
}
