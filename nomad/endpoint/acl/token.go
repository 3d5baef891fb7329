package acl

import (
	"context"
	"fmt"
	"iter"
	"strings"

	memdb "github.com/hashicorp/go-memdb"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/codec"
	"github.com/open-nomad/open-nomad/nomad/endpoint/handler"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rbac"
	"github.com/open-nomad/open-nomad/nomad/rpc"
	"github.com/open-nomad/open-nomad/nomad/rules"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// UpsertsGlobal reports whether a request writes global tokens.
func (s *Service) UpsertsGlobal(r rpc.Request) bool {
	req, ok := r.(*message.ACLTokenUpsertRequest)
	if !ok || !s.cfg.Control.Enabled {
		return false
	}
	for _, t := range req.Tokens {
		if t != nil && t.Global {
			return true
		}
	}
	return false
}

// DeletesGlobal reports whether a request deletes a global token.
func (s *Service) DeletesGlobal(r rpc.Request) bool {
	req, ok := r.(*message.ACLTokenDeleteRequest)
	if !ok || !s.cfg.Control.Enabled {
		return false
	}
	snap := s.Snapshot()
	for _, accessor := range req.AccessorIDs {
		if t := snap.ACLToken(nil, accessor); t != nil && t.Global {
			return true
		}
	}
	return false
}

// UpsertTokens creates and updates tokens.
func (s *Service) UpsertTokens(
	ctx context.Context, _ *rpc.Call, req *message.ACLTokenUpsertRequest,
) (*message.ACLTokenUpsertResponse, error) {
	if len(req.Tokens) == 0 {
		return nil, apierror.Errorf(400, "must specify at least one token")
	}
	snap := s.Snapshot()
	entry := &message.ACLTokenUpsertRequest{}
	seen := map[string]bool{}
	for _, t := range req.Tokens {
		if t.Global != req.Tokens[0].Global {
			return nil, apierror.Errorf(400, "cannot upsert mixed global and non-global tokens")
		}
		stored, err := s.tokenOf(snap, t)
		if err != nil {
			return nil, handler.BadRequest(err)
		}
		if seen[stored.AccessorID] {
			return nil, apierror.Errorf(400, "duplicate token %s in the request", stored.AccessorID)
		}
		seen[stored.AccessorID] = true
		entry.Tokens = append(entry.Tokens, stored)
	}
	return s.writeTokens(ctx, message.ACLTokenUpsertRequestType, entry, entry.Tokens)
}

// writeTokens applies a log entry and returns the tokens as stored.
func (s *Service) writeTokens(
	ctx context.Context, t message.CommandType, entry any, written []*rbac.Token,
) (*message.ACLTokenUpsertResponse, error) {
	index, err := s.write(ctx, t, entry)
	if err != nil {
		return nil, err
	}
	out := &message.ACLTokenUpsertResponse{Tokens: tokens.Stored(s.Snapshot(), written)}
	out.Index = index
	return out, nil
}

// tokenOf returns the token to store for a request.
func (s *Service) tokenOf(snap *state.Snapshot, asked *rbac.Token) (*rbac.Token, error) {
	t := codec.Copy(asked)
	var existing *rbac.Token
	if t.AccessorID != "" {
		if t.AccessorID == rbac.AnonymousAccessor {
			return nil, fmt.Errorf("the anonymous token cannot be changed: update the policy %q", rbac.PolicyAnonymous)
		}
		existing = snap.ACLToken(nil, t.AccessorID)
	}
	if existing != nil {
		keepOf(t, existing)
	} else if err := s.begin(t); err != nil {
		return nil, err
	}
	if err := rolesOf(snap, t); err != nil {
		return nil, err
	}
	if err := rules.ACLToken(t, existing, s.cfg.Control.TokenMinTTL, s.cfg.Control.TokenMaxTTL); err != nil {
		return nil, err
	}
	t.SetHash()
	return t, nil
}

// begin checks the IDs of a new token and sets its defaults.
func (s *Service) begin(t *rbac.Token) error {
	switch {
	case t.AccessorID != "" && !nomad.IsUUID(t.AccessorID):
		return fmt.Errorf("the accessor of a token must be a UUID")
	case t.SecretID != "" && !nomad.IsUUID(t.SecretID):
		return fmt.Errorf("the secret of a token must be a UUID")
	}
	t.Canonicalize(s.Now())
	return nil
}

// keepOf copies the fields that the request omits from the existing token.
func keepOf(t, existing *rbac.Token) {
	t.CreateTime = existing.CreateTime
	if t.SecretID == "" {
		t.SecretID = existing.SecretID
	}
	if t.Type == "" {
		t.Type = existing.Type
	}
	if t.ExpirationTime == nil && t.ExpirationTTL == 0 {
		t.ExpirationTime, t.ExpirationTTL = existing.ExpirationTime, existing.ExpirationTTL
	}
	if t.ExpirationTime == nil && t.ExpirationTTL == existing.ExpirationTTL {
		t.ExpirationTime = existing.ExpirationTime
	}
	if t.ExpirationTTL == 0 {
		t.ExpirationTTL = existing.ExpirationTTL
	}
}

// rolesOf resolves the roles of a token, which are given by ID or name, and removes
// duplicates.
func rolesOf(snap *state.Snapshot, t *rbac.Token) error {
	seen := map[string]bool{}
	var links []*rbac.TokenRoleLink
	for _, l := range t.Roles {
		var role *rbac.Role
		switch {
		case l.ID != "":
			role = snap.ACLRole(nil, l.ID)
		case l.Name != "":
			role = snap.ACLRoleByName(nil, l.Name)
		}
		if role == nil {
			return fmt.Errorf("a role of the token does not exist: %s", strings.TrimSpace(l.ID+" "+l.Name))
		}
		if !seen[role.ID] {
			seen[role.ID] = true
			links = append(links, &rbac.TokenRoleLink{ID: role.ID, Name: role.Name})
		}
	}
	t.Roles = links
	return nil
}

// DeleteTokens deletes tokens. It deletes none of them if one does not exist.
func (s *Service) DeleteTokens(ctx context.Context, _ *rpc.Call, req *message.ACLTokenDeleteRequest) (*message.GenericResponse, error) {
	if len(req.AccessorIDs) == 0 {
		return nil, apierror.Errorf(400, "must specify at least one token")
	}
	snap := s.Snapshot()
	global := 0
	for _, accessor := range req.AccessorIDs {
		if accessor == rbac.AnonymousAccessor {
			return nil, apierror.Errorf(400, "the anonymous token cannot be deleted")
		}
		t := snap.ACLToken(nil, accessor)
		if t == nil {
			return nil, apierror.Errorf(404, "%s: %s", apierror.ErrTokenNotFound, accessor)
		}
		if t.Global {
			global++
		}
	}
	if global != 0 && global != len(req.AccessorIDs) {
		return nil, apierror.Errorf(400, "cannot delete mixed global and non-global tokens")
	}
	return handler.Written(s.write(ctx, message.ACLTokenDeleteRequestType, &message.ACLTokenDeleteRequest{AccessorIDs: req.AccessorIDs}))
}

// ListTokens lists tokens without their secrets.
func (s *Service) ListTokens(ctx context.Context, _ *rpc.Call, req *message.ACLTokenListRequest) (*message.ACLTokenListResponse, error) {
	found, meta, err := tokens.List(ctx, s.Core, &req.QueryOptions,
		func(snap *state.Snapshot, ws memdb.WatchSet) iter.Seq[*rbac.Token] {
			if req.GlobalOnly {
				return snap.ACLTokensGlobal(ws, true)
			}
			return snap.ACLTokensByPrefix(ws, req.Prefix)
		})
	return &message.ACLTokenListResponse{Tokens: found, QueryMeta: meta}, err
}

// GetToken returns a token with its secret. Callers without a management token may read only
// their own token.
func (s *Service) GetToken(
	ctx context.Context, c *rpc.Call, req *message.ACLTokenSpecificRequest,
) (*message.SingleACLTokenResponse, error) {
	if !c.Access.IsManagement() && !isOwn(c, req.AccessorID) {
		return nil, apierror.Denied("needs a management token, or the token itself")
	}
	return handler.Read(ctx, s.Core, &req.QueryOptions,
		func(snap *state.Snapshot, ws memdb.WatchSet, out *message.SingleACLTokenResponse) error {
			out.Token = snap.ACLToken(ws, req.AccessorID)
			out.Index = snap.TableIndex(state.TableACLToken)
			if out.Token != nil {
				out.Index = out.Token.ModifyIndex
			}
			return nil
		})
}

// GetTokens returns several tokens with their secrets.
func (s *Service) GetTokens(ctx context.Context, _ *rpc.Call, req *message.ACLTokenSetRequest) (*message.ACLTokenSetResponse, error) {
	found, meta, err := tokens.Set(ctx, s.Core, &req.QueryOptions, req.AccessorIDS)
	return &message.ACLTokenSetResponse{Tokens: found, QueryMeta: meta}, err
}

// ResolveToken returns the token with a secret. It returns nil if the token is unknown or
// expired. The secret is the authorization.
func (s *Service) ResolveToken(
	ctx context.Context, _ *rpc.Call, req *message.ResolveACLTokenRequest,
) (*message.ResolveACLTokenResponse, error) {
	return handler.Read(ctx, s.Core, &req.QueryOptions,
		func(snap *state.Snapshot, ws memdb.WatchSet, out *message.ResolveACLTokenResponse) error {
			out.Index = snap.TableIndex(state.TableACLToken, state.TableACLRoles)
			if t := snap.ACLTokenBySecret(ws, req.SecretID); t != nil && !t.HasExpired(s.Now()) {
				out.Token = t
			}
			return nil
		})
}
