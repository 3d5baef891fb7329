// Package aclapi serves /v1/acl: policies, tokens, roles, auth methods, binding rules and logins. Each route
// translates a request into one RPC, which authorizes it (see package httpapi). Nothing is stored here.
//
// These replies contain the secret of a token: a login, a bootstrap, a write or a read of one token, and a one-time
// token with its exchange. Lists of tokens and auth methods contain none. No route allows cross-origin reads. The package
// starts no goroutine.
package aclapi

import (
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/open-nomad/open-nomad/command/agent/httpapi/web"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rbac"
)

// Routes returns the routes of all objects of access control.
func Routes() []web.Route {
	return slices.Concat(policyRoutes(), tokenRoutes(), roleRoutes(), authRoutes())
}

func policyRoutes() []web.Route {
	return []web.Route{
		{Methods: "GET", Path: "/v1/acl/policies", Handle: web.Read("ACL.ListPolicies", web.NoFields[message.ACLPolicyListRequest],
			func(o *message.ACLPolicyListResponse) (any, error) { return o.Policies, nil })},
		{Methods: "GET", Path: "/v1/acl/policy/self", Handle: ownPolicies},
		{Methods: "GET", Path: "/v1/acl/policy/:name", Handle: web.Read("ACL.GetPolicy",
			func(r *web.Request, q *message.ACLPolicySpecificRequest) error {
				q.Name = r.Param
				return nil
			},
			func(o *message.SingleACLPolicyResponse) (any, error) {
				return web.Found(o.Policy, "ACL policy not found")
			})},
		{Methods: "PUT POST", Path: "/v1/acl/policy/:name", Call: web.Write("ACL.UpsertPolicies", fillPolicy,
			web.Nothing[message.GenericResponse])},
		{Methods: "DELETE", Path: "/v1/acl/policy/:name", Call: web.Write("ACL.DeletePolicies",
			func(r *web.Request, q *message.ACLPolicyDeleteRequest) error {
				q.Names = []string{r.Param}
				return nil
			},
			web.Nothing[message.GenericResponse])},
	}
}

func tokenRoutes() []web.Route {
	return []web.Route{
		{Methods: "PUT POST", Path: "/v1/acl/bootstrap", Call: web.Write("ACL.Bootstrap", fillBootstrap, theToken)},
		{Methods: "GET", Path: "/v1/acl/tokens", Handle: web.Read("ACL.ListTokens",
			func(r *web.Request, q *message.ACLTokenListRequest) (err error) {
				q.GlobalOnly, err = r.Flag("global")
				return err
			}, func(o *message.ACLTokenListResponse) (any, error) { return o.Tokens, nil })},
		{Methods: "PUT POST", Path: "/v1/acl/token", Call: web.Write("ACL.UpsertTokens", fillToken, theToken)},
		{Methods: "GET", Path: "/v1/acl/token/self", Handle: ownToken},
		{Methods: "PUT POST", Path: "/v1/acl/token/onetime", Call: web.Write("ACL.UpsertOneTimeToken",
			web.NoFields[message.OneTimeTokenUpsertRequest],
			func(o *message.OneTimeTokenUpsertResponse) (any, error) {
				return struct{ OneTimeToken *rbac.OneTimeToken }{o.OneTimeToken}, nil
			})},
		{Methods: "PUT POST", Path: "/v1/acl/token/onetime/exchange", Call: web.Write("ACL.ExchangeOneTimeToken",
			web.Body[message.OneTimeTokenExchangeRequest](),
			func(o *message.OneTimeTokenExchangeResponse) (any, error) {
				return struct{ Token *tokenView }{showToken(o.Token)}, nil
			})},
		{Methods: "GET", Path: "/v1/acl/token/:accessor_id", Handle: web.Read("ACL.GetToken",
			func(r *web.Request, q *message.ACLTokenSpecificRequest) error {
				q.AccessorID = r.Param
				return nil
			},
			func(o *message.SingleACLTokenResponse) (any, error) {
				return web.Found(showToken(o.Token), "ACL token not found")
			})},
		{Methods: "PUT POST", Path: "/v1/acl/token/:accessor_id", Call: web.Write("ACL.UpsertTokens", fillToken, theToken)},
		{Methods: "DELETE", Path: "/v1/acl/token/:accessor_id", Call: web.Write("ACL.DeleteTokens",
			func(r *web.Request, q *message.ACLTokenDeleteRequest) error {
				q.AccessorIDs = []string{r.Param}
				return nil
			}, web.Nothing[message.GenericResponse])},
	}
}

func roleRoutes() []web.Route {
	theRole := func(o *message.ACLRolesUpsertResponse) (any, error) { return first(o.ACLRoles) }
	return []web.Route{
		{Methods: "GET", Path: "/v1/acl/roles", Handle: web.Read("ACL.ListRoles", web.NoFields[message.ACLRolesListRequest],
			func(o *message.ACLRolesListResponse) (any, error) { return o.ACLRoles, nil })},
		{Methods: "PUT POST", Path: "/v1/acl/role", Call: web.Write("ACL.UpsertRoles", fillRole, theRole)},
		{Methods: "GET", Path: "/v1/acl/role/name/:name", Handle: web.Read("ACL.GetRoleByName",
			func(r *web.Request, q *message.ACLRoleByNameRequest) error {
				q.RoleName = r.Param
				return nil
			},
			func(o *message.ACLRoleByNameResponse) (any, error) { return web.Found(o.ACLRole, "ACL role not found") })},
		{Methods: "GET", Path: "/v1/acl/role/:id", Handle: web.Read("ACL.GetRoleByID",
			func(r *web.Request, q *message.ACLRoleByIDRequest) error {
				q.RoleID = r.Param
				return nil
			},
			func(o *message.ACLRoleByIDResponse) (any, error) { return web.Found(o.ACLRole, "ACL role not found") })},
		{Methods: "PUT POST", Path: "/v1/acl/role/:id", Call: web.Write("ACL.UpsertRoles", fillRole, theRole)},
		{Methods: "DELETE", Path: "/v1/acl/role/:id", Call: web.Write("ACL.DeleteRolesByID",
			func(r *web.Request, q *message.ACLRolesDeleteByIDRequest) error {
				q.ACLRoleIDs = []string{r.Param}
				return nil
			}, web.Nothing[message.GenericResponse])},
	}
}

// object decodes the object of a write. If the path has an ID, the ID of the object is the same.
func object[T any](r *web.Request, kind string, id func(*T) *string) ([]*T, error) {
	o := new(T)
	if err := r.DecodeNamed(o); err != nil {
		return nil, err
	}
	if r.Param == "" {
		return []*T{o}, nil
	}
	return []*T{o}, web.SameID(kind, id(o), r.Param)
}

func fillPolicy(r *web.Request, q *message.ACLPolicyUpsertRequest) error {
	var p rbac.Policy
	if err := r.DecodeNamed(&p); err != nil {
		return err
	}
	q.Policies = []*rbac.Policy{&p}
	return web.SameID("ACL policy", &p.Name, r.Param)
}

func fillBootstrap(r *web.Request, q *message.ACLTokenBootstrapRequest) error {
	var b struct{ BootstrapSecret string }
	fill := web.OptionalBody[struct{ BootstrapSecret string }]()
	err := fill(r, &b)
	q.BootstrapSecret = b.BootstrapSecret
	return err
}

func fillToken(r *web.Request, q *message.ACLTokenUpsertRequest) (err error) {
	q.Tokens, err = object(r, "ACL token", func(o *rbac.Token) *string { return &o.AccessorID })
	return err
}

func fillRole(r *web.Request, q *message.ACLRolesUpsertRequest) (err error) {
	q.ACLRoles, err = object(r, "ACL role", func(o *rbac.Role) *string { return &o.ID })
	return err
}

// theToken returns the token that was written.
func theToken(o *message.ACLTokenUpsertResponse) (any, error) {
	t, err := first(o.Tokens)
	return showToken(t), err
}

// first returns the only element of the reply to a write of one object.
func first[T any](list []*T) (*T, error) {
	if len(list) != 1 || list[0] == nil {
		return nil, apierror.Errorf(http.StatusInternalServerError, "expected one written object in the response, got %d", len(list))
	}
	return list[0], nil
}

// tokenView is the JSON form of a token. Its TTL is a string, "" for none.
type tokenView struct {
	AccessorID     string
	SecretID       string
	Name           string
	Type           string
	Policies       []string
	Roles          []*rbac.TokenRoleLink
	Global         bool
	Hash           []byte
	CreateTime     time.Time
	ExpirationTime *time.Time
	ExpirationTTL  string
	CreateIndex    uint64
	ModifyIndex    uint64
}

func showToken(t *rbac.Token) *tokenView {
	if t == nil {
		return nil
	}
	v := &tokenView{AccessorID: t.AccessorID, SecretID: t.SecretID, Name: t.Name, Type: t.Type, Policies: t.Policies, Roles: t.Roles,
		Global: t.Global, Hash: t.Hash, CreateTime: t.CreateTime, ExpirationTime: t.ExpirationTime,
		CreateIndex: t.CreateIndex, ModifyIndex: t.ModifyIndex}
	if t.ExpirationTTL != 0 {
		v.ExpirationTTL = t.ExpirationTTL.String()
	}
	return v
}

// ownToken returns the token of the caller. Tasks and nodes have none.
func ownToken(r *web.Request) (any, error) {
	var q message.GenericRequest
	if err := r.ReadOptions(&q.QueryOptions); err != nil {
		return nil, err
	}
	var resp message.ACLWhoAmIResponse
	if err := r.RPC().Call(r.Context(), "ACL.WhoAmI", &q, &resp); err != nil {
		return nil, err
	}
	r.SetIndex(&resp)
	if resp.Identity == nil || resp.Identity.ACLToken == nil {
		return nil, apierror.Errorf(http.StatusNotFound, "ACL token not found")
	}
	shown := showToken(resp.Identity.ACLToken)
	if nomad.IsUUID(shown.AccessorID) { // pseudo-tokens have other IDs and no secret
		shown.SecretID = q.AuthToken // servers do not return secrets
	}
	return shown, nil
}

// ownPolicies lists the policies of the caller. For a workload identity these are the policies that
// apply to the workload. A request without a token is refused.
func ownPolicies(r *web.Request) (any, error) {
	if strings.Count(r.Token(), ".") != 2 { // not a JWT
		return web.Read("ACL.ListPolicies", web.NoFields[message.ACLPolicyListRequest],
			func(o *message.ACLPolicyListResponse) (any, error) {
				if r.Token() == "" {
					return nil, apierror.ErrPermissionDenied
				}
				return o.Policies, nil
			})(r)
	}
	return web.Read("ACL.GetClaimPolicies", web.NoFields[message.GenericRequest], func(o *message.ACLPolicySetResponse) (any, error) {
		out := []*rbac.PolicyStub{}
		for _, name := range slices.Sorted(maps.Keys(o.Policies)) {
			out = append(out, o.Policies[name].Stub())
		}
		return out, nil
	})(r)
}
