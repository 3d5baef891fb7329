package httpapi

import (
	"fmt"
	"net/http"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/acls"
	"github.com/open-nomad/open-nomad/nomad/rpc"
)

// check is what can be asked of a caller before the body of a request is read.
type check func(*rpc.Access, nomad.Envelope) error

// earlyChecks returns the checks of methods by name; nil for a method without one.
func earlyChecks(methods []rpc.Method) map[string]check {
	out := map[string]check{}
	for _, m := range methods {
		out[m.Name] = m.Early()
	}
	return out
}

// askEarly refuses callers who cannot have the right that the RPC of the route needs, before the
// body is read. The namespace of a request without one in its query can be in the body, so the
// right must be had in some namespace then. The RPC asks for the exact right. Other regions ask
// their callers themselves.
func (s *Server) askEarly(r *request, rt *route) error {
	if r.region() != s.cfg.Region {
		return nil
	}
	return s.askFor(r, rt, r.query.Get("namespace"))
}

// askFor refuses a caller who cannot make any call of the route's RPC in the namespace, or in any
// namespace if that is empty.
func (s *Server) askFor(r *request, rt *route, namespace string) error {
	if !s.cfg.ACL || rt.call.method == "" {
		return nil
	}
	early, known := s.early[rt.call.method]
	switch {
	case !known:
		return fmt.Errorf("the rights for %s are not known", rt.call.method)
	case early == nil:
		return nil
	}
	env := nomad.Envelope{Region: s.cfg.Region, Namespace: namespace}
	return s.ask(r, func(a *asking) error { return early(a.access, env) })
}

// refuseEarly answers a caller whose body is not read.
func (s *Server) refuseEarly(r *request, rt *route, err error) {
	if r.Header.Get(reasonHeader) != "" {
		s.setReason(r, func(q *acls.ExplainRequest) error {
			q.Method, q.Namespace = rt.call.method, r.namespace()
			return nil
		})
	}
	s.fail(r, err)
}

// fail answers a request with an error.
func (s *Server) fail(r *request, err error) {
	if r.intake != nil && r.intake.got == 0 && (r.ContentLength < 0 || r.ContentLength > maxIgnored) {
		// net/http reads the rest of a body before it sends the answer.
		r.w.Header().Set("Connection", "close")
		r.intake.drop()
	}
	s.cfg.Log.Debug("http request failed", "method", r.Method, "path", r.URL.Path, "err", err)
	writeError(r.w, err)
}

// sameSite refuses requests that a page of another site made a browser send, for routes that
// change something by GET: the check of origins lets every GET pass.
func sameSite(handle func(*request) (any, error)) func(*request) (any, error) {
	return func(r *request) (any, error) {
		switch site := r.Header.Get("Sec-Fetch-Site"); site {
		case "", "none", "same-origin":
			return handle(r)
		default:
			return nil, nomad.Errorf(http.StatusForbidden, "a page of another site may not change anything: the browser sent Sec-Fetch-Site: %s", site)
		}
	}
}
