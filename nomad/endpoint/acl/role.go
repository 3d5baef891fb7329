package acl

import (
	"context"
	"iter"

	memdb "github.com/hashicorp/go-memdb"

	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/codec"
	"github.com/open-nomad/open-nomad/nomad/endpoint/handler"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/page"
	"github.com/open-nomad/open-nomad/nomad/rbac"
	"github.com/open-nomad/open-nomad/nomad/rpc"
	"github.com/open-nomad/open-nomad/nomad/rules"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// UpsertRoles creates and updates roles. Their policies must exist.
func (s *Service) UpsertRoles(
	ctx context.Context, _ *rpc.Call, req *message.ACLRolesUpsertRequest,
) (*message.ACLRolesUpsertResponse, error) {
	if len(req.ACLRoles) == 0 {
		return nil, apierror.Errorf(400, "must specify at least one role")
	}
	snap := s.Snapshot()
	entry := &message.ACLRolesUpsertRequest{}
	seen := map[string]bool{}
	for _, r := range req.ACLRoles {
		stored := codec.Copy(r)
		if r.ID != "" && snap.ACLRole(nil, r.ID) == nil {
			return nil, apierror.Errorf(404, "%s: %s", apierror.ErrACLRoleNotFound, r.ID)
		}
		stored.Canonicalize()
		if err := rules.ACLRole(stored); err != nil {
			return nil, handler.BadRequest(err)
		}
		if seen[stored.ID] || seen[stored.Name] {
			return nil, apierror.Errorf(400, "duplicate role %q in the request", stored.Name)
		}
		seen[stored.ID], seen[stored.Name] = true, true
		stored.SetHash()
		entry.ACLRoles = append(entry.ACLRoles, stored)
	}
	index, err := s.write(ctx, message.ACLRolesUpsertRequestType, entry)
	if err != nil {
		return nil, err
	}
	out := &message.ACLRolesUpsertResponse{ACLRoles: roles.Stored(s.Snapshot(), entry.ACLRoles)}
	out.Index = index
	return out, nil
}

// DeleteRoles deletes roles. Tokens with one lose its rights.
func (s *Service) DeleteRoles(
	ctx context.Context, _ *rpc.Call, req *message.ACLRolesDeleteByIDRequest,
) (*message.GenericResponse, error) {
	if len(req.ACLRoleIDs) == 0 {
		return nil, apierror.Errorf(400, "must specify at least one role")
	}
	entry := &message.ACLRolesDeleteByIDRequest{ACLRoleIDs: req.ACLRoleIDs}
	return handler.Written(s.write(ctx, message.ACLRolesDeleteByIDRequestType, entry))
}

// roleReader returns the roles that the caller may read: all, or those of its token.
func (s *Service) roleReader(c *rpc.Call) (all bool, own map[string]bool, err error) {
	if c.Identity.ACLToken == nil { // a workload or a node
		return false, nil, apierror.Denied("%w: only ACL tokens have roles", apierror.ErrTokenNotFound)
	}
	return c.Access.IsManagement(), ownRoles(c), nil
}

// ListRoles lists roles. Callers without a management token get only the roles of their token.
func (s *Service) ListRoles(ctx context.Context, c *rpc.Call, req *message.ACLRolesListRequest) (*message.ACLRolesListResponse, error) {
	all, own, err := s.roleReader(c)
	if err != nil {
		return nil, err
	}
	found, meta, err := roles.List(ctx, s.Core, &req.QueryOptions,
		func(snap *state.Snapshot, ws memdb.WatchSet) iter.Seq[*rbac.Role] {
			readable := func(r *rbac.Role) bool { return all || own[r.ID] }
			return page.Only(snap.ACLRolesByPrefix(ws, req.Prefix), readable)
		})
	return &message.ACLRolesListResponse{ACLRoles: found, QueryMeta: meta}, err
}

// RoleByID returns the role with the ID.
func (s *Service) RoleByID(ctx context.Context, c *rpc.Call, req *message.ACLRoleByIDRequest) (*message.ACLRoleByIDResponse, error) {
	all, own, err := s.roleReader(c)
	switch {
	case err != nil:
		return nil, err
	case !all && !own[req.RoleID]:
		return nil, notOwn("role", req.RoleID)
	}
	return handler.Read(ctx, s.Core, &req.QueryOptions, func(snap *state.Snapshot, ws memdb.WatchSet, out *message.ACLRoleByIDResponse) error {
		out.ACLRole, out.Index = shownRole(snap, snap.ACLRole(ws, req.RoleID))
		return nil
	})
}

// RoleByName returns the role with the name.
func (s *Service) RoleByName(ctx context.Context, c *rpc.Call, req *message.ACLRoleByNameRequest) (*message.ACLRoleByNameResponse, error) {
	all, own, err := s.roleReader(c)
	if err != nil {
		return nil, err
	}
	return handler.Read(ctx, s.Core, &req.QueryOptions,
		func(snap *state.Snapshot, ws memdb.WatchSet, out *message.ACLRoleByNameResponse) error {
			role := snap.ACLRoleByName(ws, req.RoleName)
			if !all && (role == nil || !own[role.ID]) {
				return notOwn("role", req.RoleName)
			}
			out.ACLRole, out.Index = shownRole(snap, role)
			return nil
		})
}

// shownRole returns a role and the index of the response. The index includes the policies,
// because deleting or recreating a policy changes the role.
func shownRole(snap *state.Snapshot, role *rbac.Role) (*rbac.Role, uint64) {
	if role == nil {
		return nil, snap.TableIndex(state.TableACLRoles)
	}
	return role, max(role.ModifyIndex, snap.TableIndex(state.TableACLPolicy))
}

// RolesByID returns several roles. It fails when one of them does not belong to the
// caller.
func (s *Service) RolesByID(ctx context.Context, c *rpc.Call, req *message.ACLRolesByIDRequest) (*message.ACLRolesByIDResponse, error) {
	all, own, err := s.roleReader(c)
	if err != nil {
		return nil, err
	}
	for _, id := range req.ACLRoleIDs {
		if !all && !own[id] {
			return nil, notOwn("role", id)
		}
	}
	found, meta, err := roles.Set(ctx, s.Core, &req.QueryOptions, req.ACLRoleIDs)
	return &message.ACLRolesByIDResponse{ACLRoles: found, QueryMeta: meta}, err
}
