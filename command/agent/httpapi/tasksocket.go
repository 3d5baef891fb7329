package httpapi

import (
	"net"
	"net/http"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/acls"
)

// TaskSocket returns the handler for the socket of a task: the whole API, for
// callers with a token of their own. A request without one is answered 401
// before its path is looked at, one with a bad token 403, with access control
// on or off (compat/identity.md, "Task API").
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
		writeError(w, nomad.Errorf(http.StatusUnauthorized, "Unauthorized"))
		return
	}
	who := nomad.GenericRequest{QueryOptions: nomad.QueryOptions{Region: s.cfg.Region, AuthToken: token, AllowStale: true}}
	var resp acls.WhoAmIResponse
	err := s.cfg.RPC.Call(req.Context(), "ACL.WhoAmI", &who, &resp)
	switch {
	case err != nil && status(err) == http.StatusInternalServerError:
		writeError(w, nomad.Errorf(http.StatusInternalServerError, "the token could not be checked: the servers did not answer"))
	case err != nil || !isSomebody(resp.Identity):
		writeError(w, nomad.Errorf(http.StatusForbidden, "Forbidden"))
	default:
		s.answer(w, req)
	}
}

// isSomebody says whether a token named its bearer: an identity, or an access
// control token that is neither anonymous nor the stand-in of an agent without
// access control.
func isSomebody(id *acls.AuthenticatedIdentity) bool {
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
