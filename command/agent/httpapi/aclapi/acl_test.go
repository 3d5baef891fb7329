package aclapi_test

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/command/agent/httpapi/aclapi"
	"github.com/open-nomad/open-nomad/command/agent/httpapi/web"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/idtoken"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rbac"
	"github.com/open-nomad/open-nomad/nomad/rpc"
)

// callers admits all callers, authenticates those with the token "mine", and refuses those with the token "bad".
type callers struct{}

func (callers) Authenticate(_ context.Context, token string, _ rpc.Rule, _ *rpc.Conn) (*rbac.AuthenticatedIdentity, error) {
	switch token {
	case "mine":
		return &rbac.AuthenticatedIdentity{Claims: &idtoken.Claims{WorkloadIdentityClaims: &idtoken.WorkloadIdentityClaims{JobID: "j"}}}, nil
	case "bad":
		return nil, apierror.ErrPermissionDenied
	}
	return &rbac.AuthenticatedIdentity{ACLToken: &rbac.Token{AccessorID: "acls-disabled"}}, nil
}

func (callers) Access(ctx context.Context, id *rbac.AuthenticatedIdentity) (*rpc.Access, error) {
	return rpc.TrustPeer{}.Access(ctx, id)
}

// serve serves the routes with an RPC server that has the methods.
func serve(t *testing.T, methods ...rpc.Method) *web.Server {
	t.Helper()
	srv, err := rpc.NewServer(rpc.Config{Auth: callers{}, Log: slog.New(slog.DiscardHandler), Methods: methods})
	if err != nil {
		t.Fatal(err)
	}
	return web.New(web.Config{RPC: srv, Region: "global", Log: slog.New(slog.DiscardHandler)}, aclapi.Routes(), nil)
}

func do(h http.Handler, method, path, body, token string) *httptest.ResponseRecorder {
	req := httptest.NewRequest(method, path, strings.NewReader(body))
	req.Host = "127.0.0.1:4646"
	req.Header.Set("X-Nomad-Token", token)
	w := httptest.NewRecorder()
	h.ServeHTTP(w, req)
	return w
}

// newACLServer serves the ACL routes with methods that return their request.
func newACLServer(t *testing.T) *web.Server {
	t.Helper()
	policies := []*rbac.PolicyStub{{Name: "of-tokens"}}
	return serve(t,
		rpc.Handle("ACL.ListPolicies", rpc.Anonymous, rpc.Here,
			func(context.Context, *rpc.Call, *message.ACLPolicyListRequest) (*message.ACLPolicyListResponse, error) {
				return &message.ACLPolicyListResponse{Policies: policies}, nil
			}),
		rpc.Handle("ACL.GetClaimPolicies", rpc.Anonymous, rpc.Here,
			func(context.Context, *rpc.Call, *message.GenericRequest) (*message.ACLPolicySetResponse, error) {
				return &message.ACLPolicySetResponse{Policies: map[string]*rbac.Policy{"b": {Name: "b", Rules: "hidden"}, "a": {Name: "a"}}}, nil
			}),
		rpc.Handle("ACL.UpsertPolicies", rpc.Anonymous, rpc.Here,
			func(_ context.Context, _ *rpc.Call, q *message.ACLPolicyUpsertRequest) (*message.GenericResponse, error) {
				return nil, apierror.Errorf(418, "policy %s", q.Policies[0].Name)
			}),
		rpc.Handle("ACL.UpsertTokens", rpc.Anonymous, rpc.Here,
			func(_ context.Context, _ *rpc.Call, q *message.ACLTokenUpsertRequest) (*message.ACLTokenUpsertResponse, error) {
				return &message.ACLTokenUpsertResponse{Tokens: q.Tokens}, nil
			}),
		rpc.Handle("ACL.GetToken", rpc.Anonymous, rpc.Here,
			func(_ context.Context, _ *rpc.Call, q *message.ACLTokenSpecificRequest) (*message.SingleACLTokenResponse, error) {
				if q.AccessorID != "there" {
					return &message.SingleACLTokenResponse{}, nil
				}
				return &message.SingleACLTokenResponse{Token: &rbac.Token{AccessorID: "there", ExpirationTTL: 90 * time.Minute}}, nil
			}),
		rpc.Handle("ACL.ListTokens", rpc.Anonymous, rpc.Here,
			func(_ context.Context, _ *rpc.Call, q *message.ACLTokenListRequest) (*message.ACLTokenListResponse, error) {
				return nil, apierror.Errorf(418, "global %v", q.GlobalOnly)
			}),
		rpc.Handle("ACL.Bootstrap", rpc.Anonymous, rpc.Here,
			func(_ context.Context, _ *rpc.Call, q *message.ACLTokenBootstrapRequest) (*message.ACLTokenUpsertResponse, error) {
				return nil, apierror.Errorf(418, "secret %q, reset %d, token %v", q.BootstrapSecret, q.ResetIndex, q.Token)
			}),
		rpc.Handle("ACL.WhoAmI", rpc.Token, rpc.Here,
			func(_ context.Context, c *rpc.Call, _ *message.GenericRequest) (*message.ACLWhoAmIResponse, error) {
				return &message.ACLWhoAmIResponse{Identity: c.Identity}, nil
			}).Needs(rpc.AnyToken),
	)
}

func TestACLReplies(t *testing.T) {
	s := newACLServer(t)
	for _, tt := range []struct {
		name, method, path, body, token string
		status                          int
		want                            string // part of the body
	}{
		{"own policies", "GET", "/v1/acl/policy/self", "", "f4aa2c6b-2f5d-4d4e-9a54-6d1e4f1ff86c", 200, `"Name":"of-tokens"`},
		{"of a workload", "GET", "/v1/acl/policy/self", "", "a.b.c", 200, `"Name":"b"`},
		{"none is called self", "PUT", "/v1/acl/policy/self", `{}`, "", 405, "Invalid method"},
		{"policy", "PUT", "/v1/acl/policy/p", `{"Rules":""}`, "", 418, "policy p"},
		{"other policy", "PUT", "/v1/acl/policy/p", `{"Name":"q"}`, "", 400, "does not match"},
		{"empty policy", "PUT", "/v1/acl/policy/p", "", "", 400, "Request body is empty"},
		{"TTL as text", "PUT", "/v1/acl/token", `{"Name":"a<b","ExpirationTTL":"1h"}`, "", 200, `"ExpirationTTL":"1h0m0s"`},
		{"TTL as number", "PUT", "/v1/acl/token", `{"ExpirationTTL":60000000000}`, "", 200, `"ExpirationTTL":"1m0s"`},
		{"no TTL", "PUT", "/v1/acl/token", `{}`, "", 200, `"ExpirationTTL":""`},
		{"bad TTL", "PUT", "/v1/acl/token", `{"ExpirationTTL":"soon"}`, "", 400, "ExpirationTTL"},
		{"other token", "PUT", "/v1/acl/token/a", `{"AccessorID":"b"}`, "", 400, "does not match"},
		{"token", "GET", "/v1/acl/token/there", "", "", 200, `"ExpirationTTL":"1h30m0s"`},
		{"no token", "GET", "/v1/acl/token/gone", "", "", 404, "ACL token not found"},
		{"global", "GET", "/v1/acl/tokens?global=true", "", "", 418, "global true"},
		{"all", "GET", "/v1/acl/tokens", "", "", 418, "global false"},
		{"bad global", "GET", "/v1/acl/tokens?global=maybe", "", "", 400, "global"},
		{"bootstrap without a body", "POST", "/v1/acl/bootstrap", "", "", 418, `secret "", reset 0, token token(none)`},
		{"bootstrap", "PUT", "/v1/acl/bootstrap", `{"BootstrapSecret":"s","ResetIndex":7,"Token":{}}`, "", 418,
			`secret "s", reset 0, token token(none)`},
		{"self", "GET", "/v1/acl/token/self", "", "", 200, `"AccessorID":"acls-disabled"`},
		{"self of a workload", "GET", "/v1/acl/token/self", "", "mine", 404, "ACL token not found"},
		{"bad self", "GET", "/v1/acl/token/self", "", "bad", 403, "Permission denied"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := do(s, tt.method, tt.path, tt.body, tt.token)
			if w.Code != tt.status || !strings.Contains(w.Body.String(), tt.want) || strings.Contains(w.Body.String(), "hidden") {
				t.Errorf("%s %s = %d %q, want %d and %q", tt.method, tt.path, w.Code, w.Body, tt.status, tt.want)
			}
		})
	}
}
