package acl

import (
	"context"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/codec"
	"github.com/open-nomad/open-nomad/nomad/endpoint/handler"
	"github.com/open-nomad/open-nomad/nomad/login"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rbac"
	"github.com/open-nomad/open-nomad/nomad/rpc"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// UpsertBindingRules creates and updates binding rules. A rule without an ID is new.
func (s *Service) UpsertBindingRules(
	ctx context.Context, _ *rpc.Call, req *message.ACLBindingRulesUpsertRequest,
) (*message.ACLBindingRulesUpsertResponse, error) {
	if len(req.ACLBindingRules) == 0 {
		return nil, apierror.Errorf(400, "must specify at least one binding rule")
	}
	snap := s.Snapshot()
	entry := &message.ACLBindingRulesUpsertRequest{AllowMissingAuthMethods: req.AllowMissingAuthMethods}
	seen := map[string]bool{}
	for _, asked := range req.ACLBindingRules {
		r, err := s.bindingRuleOf(snap, asked)
		if err != nil {
			return nil, handler.BadRequest(err)
		}
		if seen[r.ID] {
			return nil, apierror.Errorf(400, "duplicate binding rule %s in the request", r.ID)
		}
		seen[r.ID] = true
		entry.ACLBindingRules = append(entry.ACLBindingRules, r)
	}
	index, err := s.write(ctx, message.ACLBindingRulesUpsertRequestType, entry)
	if err != nil {
		return nil, err
	}
	out := &message.ACLBindingRulesUpsertResponse{ACLBindingRules: bindingRules.Stored(s.Snapshot(), entry.ACLBindingRules)}
	out.Index = index
	return out, nil
}

// bindingRuleOf returns the rule to store for a request. The auth method of an existing rule
// cannot change.
func (s *Service) bindingRuleOf(snap *state.Snapshot, asked *rbac.BindingRule) (*rbac.BindingRule, error) {
	r := codec.Copy(asked)
	r.ModifyTime = s.Now().UTC()
	r.CreateTime = r.ModifyTime
	switch old := snap.ACLBindingRule(nil, r.ID); {
	case r.ID == "":
		r.ID = nomad.NewID()
	case old == nil:
		return nil, apierror.Errorf(404, "%s: %s", apierror.ErrACLBindingRuleNotFound, r.ID)
	default:
		if r.AuthMethod == "" {
			r.AuthMethod = old.AuthMethod
		}
		if r.AuthMethod != old.AuthMethod {
			return nil, apierror.Errorf(400, "binding rule %s belongs to the auth method %q, which cannot be changed", r.ID, old.AuthMethod)
		}
		r.CreateTime = old.CreateTime
	}
	r.CreateIndex, r.ModifyIndex = 0, 0
	r.SetHash()
	return r, login.CheckRule(r)
}

// DeleteBindingRules deletes binding rules. Tokens of earlier logins keep their rights.
func (s *Service) DeleteBindingRules(
	ctx context.Context, _ *rpc.Call, req *message.ACLBindingRulesDeleteRequest,
) (*message.GenericResponse, error) {
	if len(req.ACLBindingRuleIDs) == 0 {
		return nil, apierror.Errorf(400, "must specify at least one binding rule")
	}
	entry := &message.ACLBindingRulesDeleteRequest{ACLBindingRuleIDs: req.ACLBindingRuleIDs}
	return handler.Written(s.write(ctx, message.ACLBindingRulesDeleteRequestType, entry))
}

// ListBindingRules lists binding rules.
func (s *Service) ListBindingRules(
	ctx context.Context, _ *rpc.Call, req *message.ACLBindingRulesListRequest,
) (*message.ACLBindingRulesListResponse, error) {
	found, meta, err := bindingRules.List(ctx, s.Core, &req.QueryOptions, (*state.Snapshot).ACLBindingRules)
	return &message.ACLBindingRulesListResponse{ACLBindingRules: found, QueryMeta: meta}, err
}

// GetBindingRule returns a binding rule, or nil if it does not exist.
func (s *Service) GetBindingRule(
	ctx context.Context, _ *rpc.Call, req *message.ACLBindingRuleRequest,
) (*message.ACLBindingRuleResponse, error) {
	found, meta, err := bindingRules.One(ctx, s.Core, &req.QueryOptions, req.ACLBindingRuleID)
	return &message.ACLBindingRuleResponse{ACLBindingRule: found, QueryMeta: meta}, err
}

// GetBindingRules returns rules for replication to other regions.
func (s *Service) GetBindingRules(
	ctx context.Context, _ *rpc.Call, req *message.ACLBindingRulesRequest,
) (*message.ACLBindingRulesResponse, error) {
	found, meta, err := bindingRules.Set(ctx, s.Core, &req.QueryOptions, req.ACLBindingRuleIDs)
	return &message.ACLBindingRulesResponse{ACLBindingRules: found, QueryMeta: meta}, err
}
