package acl

import (
	"context"
	"errors"

	memdb "github.com/hashicorp/go-memdb"

	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/endpoint/handler"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rbac"
	"github.com/open-nomad/open-nomad/nomad/rpc"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// write applies a log entry that changes access control. It returns rejected entries as
// client errors.
func (s *Service) write(ctx context.Context, t message.CommandType, entry any) (uint64, error) {
	index, err := s.Apply(ctx, t, entry)
	switch {
	case err == nil || index == 0 || errors.Is(err, apierror.ErrPermissionDenied):
		return index, err
	case errors.Is(err, apierror.ErrACLRoleNotFound), errors.Is(err, apierror.ErrACLAuthMethodNotFound),
		errors.Is(err, apierror.ErrACLBindingRuleNotFound):
		return index, apierror.Errorf(404, "%s", err)
	}
	return index, handler.BadRequest(err)
}

// isOwn reports whether the caller's token has the accessor ID.
func isOwn(c *rpc.Call, accessor string) bool {
	t := c.Identity.ACLToken
	return t != nil && accessor != "" && t.AccessorID == accessor
}

// ownRoles returns the IDs of the roles of the caller's token. It is empty without a token.
func ownRoles(c *rpc.Call) map[string]bool {
	ids := map[string]bool{}
	if t := c.Identity.ACLToken; t != nil {
		for _, l := range t.Roles {
			ids[l.ID] = true
		}
	}
	return ids
}

// ownPolicies returns the names of the caller's policies and the anonymous policy. Callers
// without a management token may read only these.
func ownPolicies(c *rpc.Call, snap *state.Snapshot, ws memdb.WatchSet) map[string]bool {
	names := map[string]bool{rbac.PolicyAnonymous: true}
	if w := c.Access.Workload; w != nil {
		for p := range snap.ACLPoliciesByJob(ws, w.Namespace, w.Job) {
			if p.JobACL.Admits(w.Namespace, w.Job, w.Group, w.Task) {
				names[p.Name] = true
			}
		}
	}
	if t := c.Identity.ACLToken; t != nil {
		for _, name := range t.Policies {
			names[name] = true
		}
	}
	for id := range ownRoles(c) {
		if role := snap.ACLRole(ws, id); role != nil {
			for _, l := range role.Policies {
				names[l.Name] = true
			}
		}
	}
	return names
}

// notOwn returns the error for an object of another caller. It is the same whether or not the
// object exists.
func notOwn(what, name string) error {
	return apierror.Denied("needs a management token, or a token with the %s %q", what, name)
}

// WhoAmI returns the caller's identity. It omits the times of the caller's token.
func (s *Service) WhoAmI(_ context.Context, c *rpc.Call, _ *message.GenericRequest) (*message.ACLWhoAmIResponse, error) {
	id := *c.Identity
	if id.Claims != nil {
		claims := *id.Claims
		claims.Expiry, claims.IssuedAt, claims.NotBefore = 0, 0, 0
		id.Claims = &claims
	}
	out := &message.ACLWhoAmIResponse{Identity: &id}
	out.Index = 1
	if id.ACLToken != nil {
		out.Index = max(id.ACLToken.ModifyIndex, 1)
	}
	out.KnownLeader, out.LastContact = s.Cluster.Contact()
	return out, nil
}
