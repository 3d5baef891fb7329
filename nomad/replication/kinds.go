package replication

import (
	"context"
	"encoding/json"
	"iter"
	"strconv"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/quota"
	"github.com/open-nomad/open-nomad/nomad/rbac"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// object is one object of a kind, in this or in the authoritative region.
type object struct {
	id       string
	version  string // differs between versions of the object
	born     string // differs between objects with the same ID; "" if not needed
	modified uint64
	value    any // the object to store, if the list contains it
}

// entry is a log entry. An entry without a payload is not written.
type entry struct {
	number  message.CommandType
	payload any
}

// kind is one kind of replicated objects.
type kind struct {
	name   string
	access bool // replicated only with ACLs enabled
	// clashes means that an object can have a unique attribute, such as a name, that another
	// object of the kind still has here.
	clashes bool
	list    func(ctx context.Context, rpc message.Caller, q message.QueryOptions) ([]object, uint64, error)
	local   func(snap *state.Snapshot) []object
	// fetch gets objects and returns the entry that stores them.
	fetch  func(ctx context.Context, rpc message.Caller, q message.QueryOptions, batch []object) (entry, error)
	remove func(ids []string) entry
}

func kinds() []kind {
	return []kind{quotas(), namespaces(), nodePools(), policies(), roles(), tokens(), authMethods(), bindingRules()}
}

// objects converts a list to objects. It skips nil elements and those for which of returns the
// zero object.
func objects[T any](list []*T, of func(*T) object) []object {
	out := make([]object, 0, len(list))
	for _, v := range list {
		if v == nil {
			continue
		}
		if o := of(v); o.id != "" {
			out = append(out, o)
		}
	}
	return out
}

func collect[T any](seq iter.Seq[*T], of func(*T) object) []object {
	var list []*T
	for v := range seq {
		list = append(list, v)
	}
	return objects(list, of)
}

// ids returns the IDs of objects.
func ids(batch []object) []string {
	out := make([]string, 0, len(batch))
	for _, o := range batch {
		out = append(out, o.id)
	}
	return out
}

// values returns the objects from a list.
func values[T any](batch []object) []*T {
	out := make([]*T, 0, len(batch))
	for _, o := range batch {
		out = append(out, o.value.(*T))
	}
	return out
}

// found returns the objects of a batch that an answer contains, in the order of the batch.
func found[T any](batch []object, all map[string]*T, pass func(*T) bool) []*T {
	var out []*T
	for _, o := range batch {
		if v := all[o.id]; v != nil && pass(v) {
			out = append(out, v)
		}
	}
	return out
}

func every[T any](*T) bool { return true }

// text encodes a value as a version. JSON has a fixed order of keys.
func text(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return "" // plain data can always be encoded
	}
	return string(b)
}

func quotas() kind {
	of := func(q *quota.Spec) object {
		plain := *q
		plain.CreateIndex, plain.ModifyIndex = 0, 0
		return object{id: q.Name, version: text(&plain), modified: q.ModifyIndex, value: q}
	}
	return kind{
		name: "quotas",
		list: func(ctx context.Context, rpc message.Caller, q message.QueryOptions) ([]object, uint64, error) {
			var out message.QuotaListResponse
			err := rpc.Call(ctx, "Quota.List", &message.QuotaListRequest{QueryOptions: q}, &out)
			return objects(out.Quotas, of), out.Index, err
		},
		local: func(snap *state.Snapshot) []object { return collect(snap.Quotas(nil), of) },
		fetch: func(_ context.Context, _ message.Caller, _ message.QueryOptions, batch []object) (entry, error) {
			return entry{message.QuotaUpsertRequestType, &message.QuotaUpsertRequest{Quotas: values[quota.Spec](batch)}}, nil
		},
		remove: func(ids []string) entry {
			return entry{message.QuotaDeleteRequestType, &message.QuotaDeleteRequest{Names: ids}}
		},
	}
}

func namespaces() kind {
	of := func(n *nomad.Namespace) object {
		plain := *n
		plain.Hash, plain.CreateIndex, plain.ModifyIndex = nil, 0, 0
		return object{id: n.Name, version: text(&plain), modified: n.ModifyIndex, value: n}
	}
	return kind{
		name: "namespaces",
		list: func(ctx context.Context, rpc message.Caller, q message.QueryOptions) ([]object, uint64, error) {
			var out message.NamespaceListResponse
			err := rpc.Call(ctx, "Namespace.ListNamespaces", &message.NamespaceListRequest{QueryOptions: q}, &out)
			return objects(out.Namespaces, of), out.Index, err
		},
		local: func(snap *state.Snapshot) []object { return collect(snap.Namespaces(nil), of) },
		fetch: func(_ context.Context, _ message.Caller, _ message.QueryOptions, batch []object) (entry, error) {
			return entry{message.NamespaceUpsertRequestType, &message.NamespaceUpsertRequest{Namespaces: values[nomad.Namespace](batch)}}, nil
		},
		remove: func(ids []string) entry {
			return entry{message.NamespaceDeleteRequestType, &message.NamespaceDeleteRequest{Namespaces: ids}}
		},
	}
}

func nodePools() kind {
	of := func(p *nomad.NodePool) object {
		if p.Name == nomad.NodePoolAll || p.Name == nomad.NodePoolDefault {
			return object{} // every region has them, and they never change
		}
		plain := *p
		plain.Hash, plain.CreateIndex, plain.ModifyIndex = nil, 0, 0
		return object{id: p.Name, version: text(&plain), modified: p.ModifyIndex, value: p}
	}
	return kind{
		name: "node pools",
		list: func(ctx context.Context, rpc message.Caller, q message.QueryOptions) ([]object, uint64, error) {
			var out message.NodePoolListResponse
			err := rpc.Call(ctx, "NodePool.List", &message.NodePoolListRequest{QueryOptions: q}, &out)
			return objects(out.NodePools, of), out.Index, err
		},
		local: func(snap *state.Snapshot) []object { return collect(snap.NodePools(nil), of) },
		fetch: func(_ context.Context, _ message.Caller, _ message.QueryOptions, batch []object) (entry, error) {
			return entry{message.NodePoolUpsertRequestType, &message.NodePoolUpsertRequest{NodePools: values[nomad.NodePool](batch)}}, nil
		},
		remove: func(ids []string) entry {
			return entry{message.NodePoolDeleteRequestType, &message.NodePoolDeleteRequest{Names: ids}}
		},
	}
}

func policies() kind {
	return kind{
		name: "ACL policies", access: true,
		list: func(ctx context.Context, rpc message.Caller, q message.QueryOptions) ([]object, uint64, error) {
			var out message.ACLPolicyListResponse
			err := rpc.Call(ctx, "ACL.ListPolicies", &message.ACLPolicyListRequest{QueryOptions: q}, &out)
			return objects(out.Policies, func(p *rbac.PolicyStub) object {
				return object{id: p.Name, version: string(p.Hash), modified: p.ModifyIndex}
			}), out.Index, err
		},
		local: func(snap *state.Snapshot) []object {
			return collect(snap.ACLPolicies(nil), func(p *rbac.Policy) object { return object{id: p.Name, version: string(p.Hash)} })
		},
		fetch: func(ctx context.Context, rpc message.Caller, q message.QueryOptions, batch []object) (entry, error) {
			var out message.ACLPolicySetResponse
			err := rpc.Call(ctx, "ACL.GetPolicies", &message.ACLPolicySetRequest{Names: ids(batch), QueryOptions: q}, &out)
			return entry{message.ACLPolicyUpsertRequestType, &message.ACLPolicyUpsertRequest{Policies: found(batch, out.Policies, every)}}, err
		},
		remove: func(ids []string) entry {
			return entry{message.ACLPolicyDeleteRequestType, &message.ACLPolicyDeleteRequest{Names: ids}}
		},
	}
}

// roles includes the policies in the version. A list omits deleted policies, which may be
// created again.
func roles() kind {
	version := func(hash []byte, policies []*rbac.RolePolicyLink) string {
		v := string(hash)
		for _, l := range policies {
			v += " " + l.Name
		}
		return v
	}
	return kind{
		name: "ACL roles", access: true, clashes: true,
		list: func(ctx context.Context, rpc message.Caller, q message.QueryOptions) ([]object, uint64, error) {
			var out message.ACLRolesListResponse
			err := rpc.Call(ctx, "ACL.ListRoles", &message.ACLRolesListRequest{QueryOptions: q}, &out)
			return objects(out.ACLRoles, func(r *rbac.RoleStub) object {
				return object{id: r.ID, version: version(r.Hash, r.Policies), modified: r.ModifyIndex}
			}), out.Index, err
		},
		local: func(snap *state.Snapshot) []object {
			return collect(snap.ACLRoles(nil), func(r *rbac.Role) object { return object{id: r.ID, version: version(r.Hash, r.Policies)} })
		},
		fetch: func(ctx context.Context, rpc message.Caller, q message.QueryOptions, batch []object) (entry, error) {
			var out message.ACLRolesByIDResponse
			err := rpc.Call(ctx, "ACL.GetRolesByID", &message.ACLRolesByIDRequest{ACLRoleIDs: ids(batch), QueryOptions: q}, &out)
			return entry{message.ACLRolesUpsertRequestType, &message.ACLRolesUpsertRequest{ACLRoles: found(batch, out.ACLRoles, every),
				AllowMissingPolicies: true}}, err // their policies may arrive later
		},
		remove: func(ids []string) entry {
			return entry{message.ACLRolesDeleteByIDRequestType, &message.ACLRolesDeleteByIDRequest{ACLRoleIDs: ids}}
		},
	}
}

// tokens replicates global tokens.
func tokens() kind {
	return kind{
		name: "ACL tokens", access: true, clashes: true,
		list: func(ctx context.Context, rpc message.Caller, q message.QueryOptions) ([]object, uint64, error) {
			var out message.ACLTokenListResponse
			err := rpc.Call(ctx, "ACL.ListTokens", &message.ACLTokenListRequest{GlobalOnly: true, QueryOptions: q}, &out)
			return objects(out.Tokens, func(t *rbac.TokenStub) object {
				if !t.Global {
					return object{}
				}
				return object{id: t.AccessorID, version: string(t.Hash), born: strconv.FormatInt(t.CreateTime.UnixNano(), 10), modified: t.ModifyIndex}
			}), out.Index, err
		},
		local: func(snap *state.Snapshot) []object {
			return collect(snap.ACLTokensGlobal(nil, true), func(t *rbac.Token) object {
				return object{id: t.AccessorID, version: string(t.Hash), born: strconv.FormatInt(t.CreateTime.UnixNano(), 10)}
			})
		},
		fetch: func(ctx context.Context, rpc message.Caller, q message.QueryOptions, batch []object) (entry, error) {
			var out message.ACLTokenSetResponse
			err := rpc.Call(ctx, "ACL.GetTokens", &message.ACLTokenSetRequest{AccessorIDS: ids(batch), QueryOptions: q}, &out)
			global := func(t *rbac.Token) bool { return t.Global }
			return entry{message.ACLTokenUpsertRequestType, &message.ACLTokenUpsertRequest{Tokens: found(batch, out.Tokens, global)}}, err
		},
		remove: func(ids []string) entry {
			return entry{message.ACLTokenDeleteRequestType, &message.ACLTokenDeleteRequest{AccessorIDs: ids}}
		},
	}
}

func authMethods() kind {
	return kind{
		name: "ACL auth methods", access: true, clashes: true,
		list: func(ctx context.Context, rpc message.Caller, q message.QueryOptions) ([]object, uint64, error) {
			var out message.ACLAuthMethodListResponse
			err := rpc.Call(ctx, "ACL.ListAuthMethods", &message.ACLAuthMethodListRequest{QueryOptions: q}, &out)
			return objects(out.AuthMethods, func(m *rbac.AuthMethodStub) object {
				return object{id: m.Name, version: string(m.Hash), modified: m.ModifyIndex}
			}), out.Index, err
		},
		local: func(snap *state.Snapshot) []object {
			return collect(snap.ACLAuthMethods(nil), func(m *rbac.AuthMethod) object { return object{id: m.Name, version: string(m.Hash)} })
		},
		fetch: func(ctx context.Context, rpc message.Caller, q message.QueryOptions, batch []object) (entry, error) {
			var out message.ACLAuthMethodsGetResponse
			err := rpc.Call(ctx, "ACL.GetAuthMethods", &message.ACLAuthMethodsGetRequest{Names: ids(batch), QueryOptions: q}, &out)
			return entry{message.ACLAuthMethodsUpsertRequestType,
				&message.ACLAuthMethodUpsertRequest{AuthMethods: found(batch, out.AuthMethods, every)}}, err
		},
		remove: func(ids []string) entry {
			return entry{message.ACLAuthMethodsDeleteRequestType, &message.ACLAuthMethodDeleteRequest{Names: ids}}
		},
	}
}

func bindingRules() kind {
	return kind{
		name: "ACL binding rules", access: true,
		list: func(ctx context.Context, rpc message.Caller, q message.QueryOptions) ([]object, uint64, error) {
			var out message.ACLBindingRulesListResponse
			err := rpc.Call(ctx, "ACL.ListBindingRules", &message.ACLBindingRulesListRequest{QueryOptions: q}, &out)
			return objects(out.ACLBindingRules, func(b *rbac.BindingRuleStub) object {
				return object{id: b.ID, version: string(b.Hash), modified: b.ModifyIndex}
			}), out.Index, err
		},
		local: func(snap *state.Snapshot) []object {
			return collect(snap.ACLBindingRules(nil), func(b *rbac.BindingRule) object { return object{id: b.ID, version: string(b.Hash)} })
		},
		fetch: func(ctx context.Context, rpc message.Caller, q message.QueryOptions, batch []object) (entry, error) {
			var out message.ACLBindingRulesResponse
			err := rpc.Call(ctx, "ACL.GetBindingRules", &message.ACLBindingRulesRequest{ACLBindingRuleIDs: ids(batch), QueryOptions: q}, &out)
			return entry{message.ACLBindingRulesUpsertRequestType,
				&message.ACLBindingRulesUpsertRequest{ACLBindingRules: found(batch, out.ACLBindingRules, every),
					AllowMissingAuthMethods: true}}, err // their auth methods may arrive later
		},
		remove: func(ids []string) entry {
			return entry{message.ACLBindingRulesDeleteRequestType, &message.ACLBindingRulesDeleteRequest{ACLBindingRuleIDs: ids}}
		},
	}
}
