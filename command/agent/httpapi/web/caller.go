package web

import (
	"context"
	"errors"

	"github.com/open-nomad/open-nomad/acl"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/rbac"
	"github.com/open-nomad/open-nomad/nomad/rpc"
)

// Requests that the agent answers itself make no RPC that would check the token.

// Callers resolves the token of a caller, "" for the anonymous caller, and returns the identity and
// its rights. The error is apierror.ErrPermissionDenied for an invalid token. Any other error means
// that the token could not be checked.
type Callers interface {
	Access(ctx context.Context, token string) (*rbac.AuthenticatedIdentity, *rpc.Access, error)
	// AccessNow is Access with the state of the leader. None of its results is cached.
	AccessNow(ctx context.Context, token string) (*rbac.AuthenticatedIdentity, *rpc.Access, error)
}

// errCallers means that this agent was created without Callers. All callers are refused.
var errCallers = errors.New("this agent cannot authenticate callers")

// ForCallers refuses invalid tokens and, if ACLs are enabled, callers without the right q. The zero
// Question requires no right. If ACLs are disabled, the request is served even when no server can
// check the token.
func ForCallers(q acl.Question, handle Handler) Handler {
	return func(r *Request) (any, error) {
		if r.notes(q) {
			return nil, apierror.ErrPermissionDenied
		}
		_, access, err := r.caller()
		if err != nil && (r.server.cfg.ACL || errors.Is(err, apierror.ErrPermissionDenied)) {
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

// ForOperators refuses invalid tokens and callers without the right q. If ACLs are disabled, it
// refuses the identities of tasks and nodes, which can arrive through task sockets. They must not
// control the agent or read its secrets.
func ForOperators(q acl.Question, handle Handler) Handler {
	return func(r *Request) (any, error) {
		if r.notes(q) {
			return nil, apierror.ErrPermissionDenied
		}
		id, access, err := r.caller()
		switch {
		case err != nil:
			return nil, err
		case access.Disabled && id.Claims != nil:
			return nil, apierror.ErrPermissionDenied
		}
		if err := access.Need(q); err != nil {
			return nil, err
		}
		return handle(r)
	}
}

// caller resolves the token of the request.
func (r *Request) caller() (*rbac.AuthenticatedIdentity, *rpc.Access, error) {
	if r.server.cfg.Callers == nil {
		return nil, nil, errCallers
	}
	return r.server.cfg.Callers.Access(r.Context(), r.Token())
}
