package web

import (
	"fmt"

	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rpc"
)

// methodsByName returns the methods by name.
func methodsByName(methods []rpc.Method) map[string]rpc.Method {
	out := map[string]rpc.Method{}
	for _, m := range methods {
		out[m.Name] = m
	}
	return out
}

// askEarly refuses callers that cannot have the right that the RPC of the route requires. It runs
// before the body is read. Without a namespace in the query, the body can name one. The caller then
// needs the right in any namespace, and the RPC checks the exact one. Requests for other regions
// are checked there.
func (s *Server) askEarly(r *Request, rt *Route) error {
	if r.Region() != s.cfg.Region {
		return nil
	}
	return s.askFor(r, rt, r.Query.Get("namespace"))
}

// askFor refuses a caller that cannot make any call of the route's RPC in the namespace. An empty
// namespace means any namespace.
func (s *Server) askFor(r *Request, rt *Route, namespace string) error {
	if !s.cfg.ACL || rt.Call.Method == "" {
		return nil
	}
	m, known := s.methods[rt.Call.Method]
	if !known {
		return fmt.Errorf("unknown rights for %s", rt.Call.Method)
	}
	early, ok := m.Early()
	if !ok {
		return nil
	}
	env := message.Envelope{Region: s.cfg.Region, Namespace: namespace}
	return r.Ask(func(a *asking) error { return early.AskEarly(a.access, env) })
}

// refuseEarly writes the error of a request whose body was not read.
func (s *Server) refuseEarly(r *Request, rt *Route, err error) {
	if r.Header.Get(reasonHeader) != "" {
		s.setReason(r, func(q *message.ACLExplainRequest) error {
			q.Method, q.Namespace = rt.Call.Method, r.Namespace()
			return nil
		})
	}
	s.fail(r, err)
}

// fail logs the error of a request and writes it as the reply.
func (s *Server) fail(r *Request, err error) {
	if r.intake != nil && r.intake.got == 0 && (r.ContentLength < 0 || r.ContentLength > maxIgnored) {
		// net/http reads the rest of a body before it sends the reply.
		r.Reply.Header().Set("Connection", "close")
		r.DropBody()
	}
	s.cfg.Log.Debug("http request failed", "method", r.Method, "path", r.URL.Path, "err", err)
	writeError(r.Reply, err)
}
