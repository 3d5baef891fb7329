package httpapi

import (
	"context"
	"net/http"

	"github.com/open-nomad/open-nomad/acl"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/acls"
	"github.com/open-nomad/open-nomad/nomad/rpc"
)

// need is a right that the agent itself asks for. The RPC behind a route asks again, for
// what the request is really about.
type need func(*asking) error

// asking is one request whose caller is asked for rights.
type asking struct {
	*request
	access *rpc.Access
}

// needs asks one question that is the same for every request.
func needs(q acl.Question) need {
	return func(a *asking) error { return a.access.Need(q) }
}

// inNamespace asks for one of the rights in the namespace of the query, default without one.
func inNamespace(ops ...acl.NamespaceCapability) need {
	return func(a *asking) error { return a.inNamespace(a.namespace(), ops) }
}

// somewhere asks for one of the rights in any namespace, for a route whose object has a
// namespace that the agent does not know.
func somewhere(ops ...acl.NamespaceCapability) need {
	return func(a *asking) error { return a.inNamespace("", ops) }
}

func (a *asking) inNamespace(namespace string, ops []acl.NamespaceCapability) error {
	if namespace != "" && namespace != nomad.AllNamespacesSentinel {
		return a.access.Need(acl.InNamespace(namespace, ops...))
	}
	return a.anywhere(acl.InNamespace("", ops...))
}

// anywhere asks whether some thing of the kind may have the right.
func (a *asking) anywhere(q acl.Question) error {
	return a.access.NeedAnywhere(q)
}

// all asks for each of the needs.
func all(wanted ...need) need {
	return func(a *asking) error {
		for _, n := range wanted {
			if err := n(a); err != nil {
				return err
			}
		}
		return nil
	}
}

// either asks for one of the needs. The error is that of the first.
func either(first need, others ...need) need {
	return func(a *asking) error {
		err := first(a)
		for _, n := range others {
			if err == nil || n(a) == nil {
				return nil
			}
		}
		return err
	}
}

// workloads admits the identities of tasks, nodes those of nodes.
func workloads(a *asking) error {
	if a.access.Workload == nil {
		return nomad.ErrPermissionDenied
	}
	return nil
}

func nodes(a *asking) error {
	if a.access.Rights != acl.OfNodes {
		return nomad.ErrPermissionDenied
	}
	return nil
}

// ask refuses callers without the need, if there is access control. This agent may know less
// of tokens and policies than the leader, so the leader is asked before it refuses.
func (s *Server) ask(r *request, n need) error {
	if !s.cfg.ACL {
		return nil
	}
	if s.cfg.Callers == nil {
		return errCallers
	}
	a := &asking{request: r}
	err := a.caller(n, s.cfg.Callers.Access)
	if err != nil && status(err) == http.StatusForbidden {
		err = a.caller(n, s.cfg.Callers.AccessNow)
	}
	return err
}

func (a *asking) caller(n need, access func(context.Context, string) (*acls.AuthenticatedIdentity, *rpc.Access, error)) (err error) {
	if _, a.access, err = access(a.Context(), a.token()); err != nil {
		return err
	}
	return n(a)
}
