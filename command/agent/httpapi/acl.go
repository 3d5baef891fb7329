package httpapi

import (
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/acls"
	"github.com/open-nomad/open-nomad/nomad/message"
)

// aclRoutes returns the routes of policies, tokens, roles and logins. None of them allows
// cross-origin reads, because their replies hold secrets.
func (s *Server) aclRoutes() []route {
	return slices.Concat(aclPolicyRoutes(s), aclTokenRoutes(s), aclRoleRoutes(), aclAuthRoutes())
}

func aclPolicyRoutes(s *Server) []route {
	return []route{
		{methods: "GET", path: "/v1/acl/policies", handle: read("ACL.ListPolicies", noFields[acls.PolicyListRequest],
			func(o *acls.PolicyListResponse) (any, error) { return o.Policies, nil })},
		{methods: "GET", path: "/v1/acl/policy/self", handle: s.ownPolicies},
		{methods: "GET", path: "/v1/acl/policy/:name", handle: read("ACL.GetPolicy", func(r *request, q *acls.PolicySpecificRequest) error { q.Name = r.param; return nil },
			func(o *acls.SinglePolicyResponse) (any, error) { return found(o.Policy, "ACL policy not found") })},
		{methods: "PUT POST", path: "/v1/acl/policy/:name", call: write("ACL.UpsertPolicies", aclPolicy, nothing[message.GenericResponse])},
		{methods: "DELETE", path: "/v1/acl/policy/:name", call: write("ACL.DeletePolicies", func(r *request, q *acls.PolicyDeleteRequest) error { q.Names = []string{r.param}; return nil },
			nothing[message.GenericResponse])},
	}
}

func aclTokenRoutes(s *Server) []route {
	return []route{
		{methods: "PUT POST", path: "/v1/acl/bootstrap", call: write("ACL.Bootstrap", aclBootstrap, theToken)},
		{methods: "GET", path: "/v1/acl/tokens", handle: read("ACL.ListTokens", func(r *request, q *acls.TokenListRequest) (err error) {
			q.GlobalOnly, err = r.flag("global")
			return err
		}, func(o *acls.TokenListResponse) (any, error) { return o.Tokens, nil })},
		{methods: "PUT POST", path: "/v1/acl/token", call: write("ACL.UpsertTokens", aclToken, theToken)},
		{methods: "GET", path: "/v1/acl/token/self", handle: s.ownToken},
		{methods: "PUT POST", path: "/v1/acl/token/onetime", call: write("ACL.UpsertOneTimeToken", noFields[acls.OneTimeTokenUpsertRequest],
			func(o *acls.OneTimeTokenUpsertResponse) (any, error) {
				return struct{ OneTimeToken *acls.OneTimeToken }{o.OneTimeToken}, nil
			})},
		{methods: "PUT POST", path: "/v1/acl/token/onetime/exchange", call: write("ACL.ExchangeOneTimeToken", body[acls.OneTimeTokenExchangeRequest](),
			func(o *acls.OneTimeTokenExchangeResponse) (any, error) {
				return struct{ Token *tokenView }{showToken(o.Token)}, nil
			})},
		{methods: "GET", path: "/v1/acl/token/:accessor_id", handle: read("ACL.GetToken", func(r *request, q *acls.TokenSpecificRequest) error { q.AccessorID = r.param; return nil },
			func(o *acls.SingleTokenResponse) (any, error) {
				return found(showToken(o.Token), "ACL token not found")
			})},
		{methods: "PUT POST", path: "/v1/acl/token/:accessor_id", call: write("ACL.UpsertTokens", aclToken, theToken)},
		{methods: "DELETE", path: "/v1/acl/token/:accessor_id", call: write("ACL.DeleteTokens", func(r *request, q *acls.TokenDeleteRequest) error { q.AccessorIDs = []string{r.param}; return nil },
			nothing[message.GenericResponse])},
	}
}

func aclRoleRoutes() []route {
	theRole := func(o *acls.RolesUpsertResponse) (any, error) { return first(o.ACLRoles) }
	return []route{
		{methods: "GET", path: "/v1/acl/roles", handle: read("ACL.ListRoles", noFields[acls.RolesListRequest],
			func(o *acls.RolesListResponse) (any, error) { return o.ACLRoles, nil })},
		{methods: "PUT POST", path: "/v1/acl/role", call: write("ACL.UpsertRoles", aclRole, theRole)},
		{methods: "GET", path: "/v1/acl/role/name/:name", handle: read("ACL.GetRoleByName", func(r *request, q *acls.RoleByNameRequest) error { q.RoleName = r.param; return nil },
			func(o *acls.RoleByNameResponse) (any, error) { return found(o.ACLRole, "ACL role not found") })},
		{methods: "GET", path: "/v1/acl/role/:id", handle: read("ACL.GetRoleByID", func(r *request, q *acls.RoleByIDRequest) error { q.RoleID = r.param; return nil },
			func(o *acls.RoleByIDResponse) (any, error) { return found(o.ACLRole, "ACL role not found") })},
		{methods: "PUT POST", path: "/v1/acl/role/:id", call: write("ACL.UpsertRoles", aclRole, theRole)},
		{methods: "DELETE", path: "/v1/acl/role/:id", call: write("ACL.DeleteRolesByID", func(r *request, q *acls.RolesDeleteByIDRequest) error {
			q.ACLRoleIDs = []string{r.param}
			return nil
		},
			nothing[acls.RolesDeleteByIDResponse])},
	}
}

func aclPolicy(r *request, q *acls.PolicyUpsertRequest) error {
	var p acls.Policy
	if err := r.decode(&p); err != nil {
		return err
	}
	q.Policies = []*acls.Policy{&p}
	return sameID("ACL policy", &p.Name, r.param)
}

func aclBootstrap(r *request, q *acls.TokenBootstrapRequest) error {
	var b struct{ BootstrapSecret string }
	fill := optionalBody[struct{ BootstrapSecret string }]()
	err := fill(r, &b)
	q.BootstrapSecret = b.BootstrapSecret
	return err
}

func aclToken(r *request, q *acls.TokenUpsertRequest) error {
	var t acls.Token
	if err := r.decode(&t); err != nil {
		return err
	}
	q.Tokens = []*acls.Token{&t}
	if r.param == "" {
		return nil
	}
	return sameID("ACL token", &t.AccessorID, r.param)
}

func aclRole(r *request, q *acls.RolesUpsertRequest) error {
	var role acls.Role
	if err := r.decode(&role); err != nil {
		return err
	}
	q.ACLRoles = []*acls.Role{&role}
	if r.param == "" {
		return nil
	}
	return sameID("ACL role", &role.ID, r.param)
}

// theToken returns the token that was written.
func theToken(o *acls.TokenUpsertResponse) (any, error) {
	t, err := first(o.Tokens)
	return showToken(t), err
}

// first returns the only element of the reply to a write of one object.
func first[T any](list []*T) (*T, error) {
	if len(list) != 1 || list[0] == nil {
		return nil, nomad.Errorf(http.StatusInternalServerError, "expected one written object in the response, got %d", len(list))
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
	Roles          []*acls.TokenRoleLink
	Global         bool
	Hash           []byte
	CreateTime     time.Time
	ExpirationTime *time.Time
	ExpirationTTL  string
	CreateIndex    uint64
	ModifyIndex    uint64
}

func showToken(t *acls.Token) *tokenView {
	if t == nil {
		return nil
	}
	v := &tokenView{AccessorID: t.AccessorID, SecretID: t.SecretID, Name: t.Name, Type: t.Type, Policies: t.Policies, Roles: t.Roles, Global: t.Global,
		Hash: t.Hash, CreateTime: t.CreateTime, ExpirationTime: t.ExpirationTime, CreateIndex: t.CreateIndex, ModifyIndex: t.ModifyIndex}
	if t.ExpirationTTL != 0 {
		v.ExpirationTTL = t.ExpirationTTL.String()
	}
	return v
}

// ownToken returns the token of the caller. Tasks and nodes have none.
func (s *Server) ownToken(r *request) (any, error) {
	var q message.GenericRequest
	if err := r.readOptions(&q.QueryOptions); err != nil {
		return nil, err
	}
	var resp acls.WhoAmIResponse
	if err := s.cfg.RPC.Call(r.Context(), "ACL.WhoAmI", &q, &resp); err != nil {
		return nil, err
	}
	setReadMeta(r.w.Header(), &resp.QueryMeta)
	if resp.Identity == nil || resp.Identity.ACLToken == nil {
		return nil, nomad.Errorf(http.StatusNotFound, "ACL token not found")
	}
	shown := showToken(resp.Identity.ACLToken)
	if nomad.IsUUID(shown.AccessorID) { // pseudo-tokens have other IDs and no secret
		shown.SecretID = q.AuthToken // servers do not return secrets
	}
	return shown, nil
}

// ownPolicies lists the policies of the caller. For a workload identity these are the policies that
// apply to the workload. A request without a token is refused.
func (s *Server) ownPolicies(r *request) (any, error) {
	if strings.Count(r.token(), ".") != 2 { // not a JWT
		return read("ACL.ListPolicies", noFields[acls.PolicyListRequest],
			func(o *acls.PolicyListResponse) (any, error) {
				if r.token() == "" {
					return nil, nomad.ErrPermissionDenied
				}
				return o.Policies, nil
			})(r)
	}
	return read("ACL.GetClaimPolicies", noFields[message.GenericRequest], func(o *acls.PolicySetResponse) (any, error) {
		out := []*acls.PolicyListStub{}
		for _, name := range slices.Sorted(maps.Keys(o.Policies)) {
			out = append(out, o.Policies[name].Stub())
		}
		return out, nil
	})(r)
}
