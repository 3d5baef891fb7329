package httpapi

import (
	"context"
	"net/http"

	"github.com/open-nomad/open-nomad/acl"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/acls"
	"github.com/open-nomad/open-nomad/nomad/rpc"
)

// need is a right that the agent itself requires. The RPC behind a route checks the exact right
// again.
type need func(*asking) error

// asking is a request and the rights of its caller.
type asking struct {
	*request
	access *rpc.Access
}

// needs requires a right that is the same for every request.
func needs(q acl.Question) need {
	return func(a *asking) error { return a.access.Need(q) }
}

// inNamespace requires one of the capabilities in the namespace of the query.
func inNamespace(ops ...acl.NamespaceCapability) need {
	return func(a *asking) error { return a.inNamespace(a.namespace(), ops) }
}

// somewhere requires one of the capabilities in any namespace. It is for objects whose namespace
// the agent does not have.
func somewhere(ops ...acl.NamespaceCapability) need {
	return func(a *asking) error { return a.inNamespace("", ops) }
}

func (a *asking) inNamespace(namespace string, ops []acl.NamespaceCapability) error {
	if namespace != "" && namespace != nomad.AllNamespacesSentinel {
		return a.access.Need(acl.InNamespace(namespace, ops...))
	}
	return a.anywhere(acl.InNamespace("", ops...))
}

// anywhere requires the right on at least one object of the kind.
func (a *asking) anywhere(q acl.Question) error {
	return a.access.NeedAnywhere(q)
}

// all requires each of the needs.
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

// either requires one of the needs. Its error is that of the first need.
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

// workloads requires the identity of a task.
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

// ask refuses callers that lack the right, if ACLs are enabled. The tokens and policies of this
// agent can be out of date, so the leader is asked before a caller is refused.
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
