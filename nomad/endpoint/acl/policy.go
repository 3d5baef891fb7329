package acl

import (
	"context"
	"iter"
	"slices"

	memdb "github.com/hashicorp/go-memdb"

	"github.com/open-nomad/open-nomad/acl"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/endpoint/handler"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/page"
	"github.com/open-nomad/open-nomad/nomad/rbac"
	"github.com/open-nomad/open-nomad/nomad/rpc"
	"github.com/open-nomad/open-nomad/nomad/rules"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// UpsertPolicies stores policies. It rejects those that cannot be parsed.
func (s *Service) UpsertPolicies(ctx context.Context, _ *rpc.Call, req *message.ACLPolicyUpsertRequest) (*message.GenericResponse, error) {
	if len(req.Policies) == 0 {
		return nil, apierror.Errorf(400, "must specify at least one policy")
	}
	entry := &message.ACLPolicyUpsertRequest{}
	seen := map[string]bool{}
	for _, p := range req.Policies {
		if err := rules.ACLPolicy(p); err != nil {
			return nil, handler.BadRequest(err)
		}
		if _, err := acl.Parse(p.Rules); err != nil {
			return nil, apierror.Errorf(400, "policy %q: %s", p.Name, err)
		}
		if seen[p.Name] {
			return nil, apierror.Errorf(400, "duplicate policy %q in the request", p.Name)
		}
		seen[p.Name] = true
		stored := *p
		stored.RulesJSON = nil
		stored.SetHash()
		entry.Policies = append(entry.Policies, &stored)
	}
	return handler.Written(s.write(ctx, message.ACLPolicyUpsertRequestType, entry))
}

// DeletePolicies deletes policies. Tokens and roles that name one lose its rights.
func (s *Service) DeletePolicies(ctx context.Context, _ *rpc.Call, req *message.ACLPolicyDeleteRequest) (*message.GenericResponse, error) {
	if len(req.Names) == 0 {
		return nil, apierror.Errorf(400, "must specify at least one policy")
	}
	return handler.Written(s.write(ctx, message.ACLPolicyDeleteRequestType, &message.ACLPolicyDeleteRequest{Names: req.Names}))
}

// ListPolicies lists policies. Callers without a management token get only their own policies.
func (s *Service) ListPolicies(
	ctx context.Context, c *rpc.Call, req *message.ACLPolicyListRequest,
) (*message.ACLPolicyListResponse, error) {
	all := c.Access.IsManagement()
	kind := policies
	if !all {
		kind.Tables = []string{state.TableACLPolicy, state.TableACLRoles} // roles have policies
	}
	found, meta, err := kind.List(ctx, s.Core, &req.QueryOptions,
		func(snap *state.Snapshot, ws memdb.WatchSet) iter.Seq[*rbac.Policy] {
			listed := snap.ACLPoliciesByPrefix(ws, req.Prefix)
			if all {
				return listed
			}
			own := ownPolicies(c, snap, ws)
			return page.Only(listed, func(p *rbac.Policy) bool { return own[p.Name] })
		})
	return &message.ACLPolicyListResponse{Policies: found, QueryMeta: meta}, err
}

// GetPolicy returns a policy with its parsed rules. Callers without a management token may read
// only their own policies. As in Nomad, the index is 0 if no policy was ever written.
func (s *Service) GetPolicy(
	ctx context.Context, c *rpc.Call, req *message.ACLPolicySpecificRequest,
) (*message.SingleACLPolicyResponse, error) {
	all := c.Access.IsManagement()
	return handler.ReadList(ctx, s.Core, &req.QueryOptions,
		func(snap *state.Snapshot, ws memdb.WatchSet, out *message.SingleACLPolicyResponse) error {
			if !all && !ownPolicies(c, snap, ws)[req.Name] {
				return notOwn("policy", req.Name)
			}
			p, index := policies.Find(snap, ws, req.Name)
			if out.Index = index; p != nil {
				shown := *p
				shown.RulesJSON = rulesOf(p.Rules)
				out.Policy = &shown
			}
			return nil
		})
}

// GetPolicies returns several policies. It fails when one of them is not the caller's.
func (s *Service) GetPolicies(ctx context.Context, c *rpc.Call, req *message.ACLPolicySetRequest) (*message.ACLPolicySetResponse, error) {
	all := c.Access.IsManagement()
	return handler.Read(ctx, s.Core, &req.QueryOptions,
		func(snap *state.Snapshot, ws memdb.WatchSet, out *message.ACLPolicySetResponse) error {
			if !all {
				own := ownPolicies(c, snap, ws)
				for _, name := range req.Names {
					if !own[name] {
						return notOwn("policy", name)
					}
				}
			}
			out.Policies, out.Index = policies.FindAll(snap, ws, req.Names), snap.TableIndex(state.TableACLPolicy)
			return nil
		})
}

// ClaimPolicies returns the policies of the calling workload.
func (s *Service) ClaimPolicies(ctx context.Context, c *rpc.Call, req *message.GenericRequest) (*message.ACLPolicySetResponse, error) {
	w := c.Access.Workload
	if w == nil {
		return nil, apierror.Denied("needs a workload identity")
	}
	c.Access.MarkChecked()
	return handler.Read(ctx, s.Core, &req.QueryOptions,
		func(snap *state.Snapshot, ws memdb.WatchSet, out *message.ACLPolicySetResponse) error {
			out.Policies = map[string]*rbac.Policy{}
			for p := range snap.ACLPoliciesByJob(ws, w.Namespace, w.Job) {
				if p.JobACL.Admits(w.Namespace, w.Job, w.Group, w.Task) {
					out.Policies[p.Name] = p
				}
			}
			out.Index = snap.TableIndex(state.TableACLPolicy)
			return nil
		})
}

// rulesOf returns the parsed rules of a policy. It returns nil if they do not parse, as for a
// policy from an old snapshot.
func rulesOf(text string) *rbac.Rules {
	parsed, err := acl.Parse(text)
	if err != nil {
		return nil
	}
	out := &rbac.Rules{Raw: text}
	paths := map[string]*rbac.VariablesRules{}
	for _, o := range parsed.Outline() {
		switch o.Kind {
		case acl.Variables:
			if paths[o.Space] == nil {
				paths[o.Space] = &rbac.VariablesRules{}
			}
			paths[o.Space].Paths = append(paths[o.Space].Paths, &rbac.VariablePathRules{PathSpec: o.Name, Capabilities: o.Capabilities})
		case acl.Namespaces:
			out.Namespaces = append(out.Namespaces, &rbac.NamespaceRules{Name: o.Name, Policy: o.Policy, Capabilities: o.Capabilities})
		default:
			addRules(out, o)
		}
	}
	for _, ns := range out.Namespaces {
		ns.Variables = paths[ns.Name]
	}
	return out
}

// addRules adds a block that does not belong to a namespace.
func addRules(to *rbac.Rules, o acl.Outline) {
	named := &rbac.NamedRules{Name: o.Name, Policy: o.Policy, Capabilities: o.Capabilities}
	plain := &rbac.PlainRules{Policy: o.Policy, Capabilities: slices.Clip(o.Capabilities)}
	switch o.Kind {
	case acl.NodePools:
		to.NodePools = append(to.NodePools, named)
	case acl.HostVolumes:
		to.HostVolumes = append(to.HostVolumes, named)
	case acl.Agents:
		to.Agent = plain
	case acl.Nodes:
		to.Node = plain
	case acl.Operators:
		to.Operator = plain
	case acl.Sentinels:
		to.Sentinel = plain
	case acl.Quotas:
		to.Quota = plain
	case acl.Plugins:
		to.Plugin = plain
	}
}
