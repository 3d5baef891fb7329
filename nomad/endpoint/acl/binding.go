package acl

import (
	"context"
	"strings"

	memdb "github.com/hashicorp/go-memdb"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/codec"
	"github.com/open-nomad/open-nomad/nomad/endpoint/handler"
	"github.com/open-nomad/open-nomad/nomad/login"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/page"
	"github.com/open-nomad/open-nomad/nomad/rpc"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// UpsertBindingRules creates and updates binding rules. A rule without an ID is new.
func (s *Service) UpsertBindingRules(ctx context.Context, _ *rpc.Call, req *message.ACLBindingRulesUpsertRequest) (*message.ACLBindingRulesUpsertResponse, error) {
	if len(req.ACLBindingRules) == 0 {
		return nil, nomad.Errorf(400, "must specify at least one binding rule")
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
			return nil, nomad.Errorf(400, "duplicate binding rule %s in the request", r.ID)
		}
		seen[r.ID] = true
		entry.ACLBindingRules = append(entry.ACLBindingRules, r)
	}
	index, err := s.write(ctx, nomad.ACLBindingRulesUpsertRequestType, entry)
	if err != nil {
		return nil, err
	}
	out := &message.ACLBindingRulesUpsertResponse{}
	out.Index = index
	snap = s.Snapshot()
	for _, r := range entry.ACLBindingRules {
		if now := snap.ACLBindingRule(nil, r.ID); now != nil {
			r = now
		}
		out.ACLBindingRules = append(out.ACLBindingRules, r)
	}
	return out, nil
}

// bindingRuleOf returns the rule to store for a request. The auth method of an existing rule
// cannot change.
func (s *Service) bindingRuleOf(snap *state.Snapshot, asked *nomad.ACLBindingRule) (*nomad.ACLBindingRule, error) {
	r := codec.Copy(asked)
	r.ModifyTime = s.Now().UTC()
	r.CreateTime = r.ModifyTime
	switch old := snap.ACLBindingRule(nil, r.ID); {
	case r.ID == "":
		r.ID = nomad.NewID()
	case old == nil:
		return nil, nomad.Errorf(404, "%s: %s", nomad.ErrACLBindingRuleNotFound, r.ID)
	default:
		if r.AuthMethod == "" {
			r.AuthMethod = old.AuthMethod
		}
		if r.AuthMethod != old.AuthMethod {
			return nil, nomad.Errorf(400, "binding rule %s belongs to the auth method %q, which cannot be changed", r.ID, old.AuthMethod)
		}
		r.CreateTime = old.CreateTime
	}
	r.CreateIndex, r.ModifyIndex = 0, 0
	r.SetHash()
	return r, login.CheckRule(r)
}

// DeleteBindingRules deletes binding rules. Tokens of earlier logins keep their rights.
func (s *Service) DeleteBindingRules(ctx context.Context, _ *rpc.Call, req *message.ACLBindingRulesDeleteRequest) (*message.ACLBindingRulesDeleteResponse, error) {
	if len(req.ACLBindingRuleIDs) == 0 {
		return nil, nomad.Errorf(400, "must specify at least one binding rule")
	}
	index, err := s.write(ctx, nomad.ACLBindingRulesDeleteRequestType, &message.ACLBindingRulesDeleteRequest{ACLBindingRuleIDs: req.ACLBindingRuleIDs})
	if err != nil {
		return nil, err
	}
	out := &message.ACLBindingRulesDeleteResponse{}
	out.Index = index
	return out, nil
}

// ListBindingRules lists binding rules.
func (s *Service) ListBindingRules(ctx context.Context, _ *rpc.Call, req *message.ACLBindingRulesListRequest) (*message.ACLBindingRulesListResponse, error) {
	return handler.ReadList(ctx, s.Core, &req.QueryOptions, func(snap *state.Snapshot, ws memdb.WatchSet, out *message.ACLBindingRulesListResponse) error {
		all := page.Only(snap.ACLBindingRules(ws), func(r *nomad.ACLBindingRule) bool { return strings.HasPrefix(r.ID, req.Prefix) })
		found, next, err := page.List[*nomad.ACLBindingRule]{Opts: &req.QueryOptions, Order: page.ByID,
			At:       func(r *nomad.ACLBindingRule) page.Cursor { return page.Cursor{ID: r.ID} },
			Filtered: func(r *nomad.ACLBindingRule) any { return r.Stub() },
		}.Page(all)
		if err != nil {
			return err
		}
		out.ACLBindingRules = page.Each(found, (*nomad.ACLBindingRule).Stub)
		out.NextToken = next
		out.Index = snap.TableIndex(state.TableACLBindingRules)
		return nil
	})
}

// GetBindingRule returns a binding rule, or nil if it does not exist.
func (s *Service) GetBindingRule(ctx context.Context, _ *rpc.Call, req *message.ACLBindingRuleRequest) (*message.ACLBindingRuleResponse, error) {
	return handler.Read(ctx, s.Core, &req.QueryOptions, func(snap *state.Snapshot, ws memdb.WatchSet, out *message.ACLBindingRuleResponse) error {
		out.Index = snap.TableIndex(state.TableACLBindingRules)
		if out.ACLBindingRule = snap.ACLBindingRule(ws, req.ACLBindingRuleID); out.ACLBindingRule != nil {
			out.Index = out.ACLBindingRule.ModifyIndex
		}
		return nil
	})
}

// GetBindingRules returns rules for replication to other regions.
func (s *Service) GetBindingRules(ctx context.Context, _ *rpc.Call, req *message.ACLBindingRulesRequest) (*message.ACLBindingRulesResponse, error) {
	return handler.Read(ctx, s.Core, &req.QueryOptions, func(snap *state.Snapshot, ws memdb.WatchSet, out *message.ACLBindingRulesResponse) error {
		out.ACLBindingRules = map[string]*nomad.ACLBindingRule{}
		for _, id := range req.ACLBindingRuleIDs {
			if r := snap.ACLBindingRule(ws, id); r != nil {
				out.ACLBindingRules[id] = r
			}
		}
		out.Index = snap.TableIndex(state.TableACLBindingRules)
		return nil
	})
}
