package web

import (
	"context"
	"net/http"

	"github.com/open-nomad/open-nomad/acl"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/rbac"
	"github.com/open-nomad/open-nomad/nomad/rpc"
)

// Need is a right that the agent itself requires. The RPC behind a route checks the exact right
// again.
type Need func(*asking) error

// asking is a request and the rights of its caller.
type asking struct {
	*Request
	token  string
	access *rpc.Access
}

// Needs requires a right that is the same for every request.
func Needs(q acl.Question) Need {
	return func(a *asking) error { return a.access.Need(q) }
}

// InNamespace requires one of the capabilities in the namespace of the query.
func InNamespace(ops ...acl.NamespaceCapability) Need {
	return func(a *asking) error { return a.inNamespace(a.Namespace(), ops) }
}

// Somewhere requires one of the capabilities in any namespace. It is for objects whose namespace
// the agent does not have.
func Somewhere(ops ...acl.NamespaceCapability) Need {
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

// All requires each of the needs.
func All(wanted ...Need) Need {
	return func(a *asking) error {
		for _, n := range wanted {
			if err := n(a); err != nil {
				return err
			}
		}
		return nil
	}
}

// Either requires one of the needs. Its error is that of the first need.
func Either(first Need, others ...Need) Need {
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

// Workloads requires the identity of a task.
func Workloads(a *asking) error {
	if a.access.Workload == nil {
		return apierror.ErrPermissionDenied
	}
	return nil
}

// Nodes requires the identity of a node.
func Nodes(a *asking) error {
	if a.access.Rights != acl.OfNodes {
		return apierror.ErrPermissionDenied
	}
	return nil
}

// Ask refuses callers that lack the right, if ACLs are enabled. The tokens and policies of this
// agent can be out of date, so the leader is asked before a caller is refused.
func (r *Request) Ask(n Need) error { return r.AskFor(r.Token(), n) }

// AskFor is Ask for the bearer of a token that arrived after the request.
func (r *Request) AskFor(token string, n Need) error {
	cfg := &r.server.cfg
	if !cfg.ACL {
		return nil
	}
	if cfg.Callers == nil {
		return errCallers
	}
	a := &asking{Request: r, token: token}
	err := a.caller(n, cfg.Callers.Access)
	if err != nil && status(err) == http.StatusForbidden {
		err = a.caller(n, cfg.Callers.AccessNow)
	}
	return err
}

func (a *asking) caller(n Need, access func(context.Context, string) (*rbac.AuthenticatedIdentity, *rpc.Access, error)) (err error) {
	if _, a.access, err = access(a.Context(), a.token); err != nil {
		return err
	}
	return n(a)
}
