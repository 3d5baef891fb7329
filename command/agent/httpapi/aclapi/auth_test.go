package aclapi_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/command/agent/httpapi/web"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rbac"
	"github.com/open-nomad/open-nomad/nomad/rpc"
)

// newAuthServer serves the login routes with methods that return their request.
func newAuthServer(t *testing.T) *web.Server {
	t.Helper()
	return serve(t,
		rpc.Handle("ACL.UpsertAuthMethods", rpc.Anonymous, rpc.Here,
			func(_ context.Context, _ *rpc.Call, q *message.ACLAuthMethodUpsertRequest) (*message.ACLAuthMethodUpsertResponse, error) {
				return &message.ACLAuthMethodUpsertResponse{AuthMethods: q.AuthMethods}, nil
			}),
		rpc.Handle("ACL.GetAuthMethod", rpc.Anonymous, rpc.Here,
			func(_ context.Context, _ *rpc.Call, q *message.ACLAuthMethodGetRequest) (*message.ACLAuthMethodGetResponse, error) {
				return &message.ACLAuthMethodGetResponse{}, nil
			}),
		rpc.Handle("ACL.ListAuthMethods", rpc.Anonymous, rpc.Here,
			func(context.Context, *rpc.Call, *message.ACLAuthMethodListRequest) (*message.ACLAuthMethodListResponse, error) {
				return &message.ACLAuthMethodListResponse{}, nil
			}),
		rpc.Handle("ACL.UpsertBindingRules", rpc.Anonymous, rpc.Here,
			func(_ context.Context, _ *rpc.Call, q *message.ACLBindingRulesUpsertRequest) (*message.ACLBindingRulesUpsertResponse, error) {
				return &message.ACLBindingRulesUpsertResponse{ACLBindingRules: q.ACLBindingRules}, nil
			}),
		rpc.Handle("ACL.GetBindingRule", rpc.Anonymous, rpc.Here,
			func(_ context.Context, _ *rpc.Call, q *message.ACLBindingRuleRequest) (*message.ACLBindingRuleResponse, error) {
				return &message.ACLBindingRuleResponse{}, nil
			}),
		rpc.Handle("ACL.Login", rpc.Anonymous, rpc.Here,
			func(_ context.Context, _ *rpc.Call, q *message.ACLLoginRequest) (*message.ACLLoginResponse, error) {
				return &message.ACLLoginResponse{ACLToken: &rbac.Token{Name: q.AuthMethodName, ExpirationTTL: time.Hour}}, nil
			}),
		rpc.Handle("ACL.OIDCAuthURL", rpc.Anonymous, rpc.Here,
			func(_ context.Context, _ *rpc.Call, q *message.OIDCAuthURLRequest) (*message.OIDCAuthURLResponse, error) {
				return &message.OIDCAuthURLResponse{AuthURL: q.RedirectURI + "&" + q.ClientNonce}, nil
			}),
		rpc.Handle("ACL.OIDCCompleteAuth", rpc.Anonymous, rpc.Here,
			func(_ context.Context, _ *rpc.Call, q *message.OIDCCompleteAuthRequest) (*message.ACLLoginResponse, error) {
				return nil, apierror.Errorf(403, "%s %s %s %s", q.State, q.Code, q.Iss, q.ClientNonce)
			}),
	)
}

func TestAuthReplies(t *testing.T) {
	s := newAuthServer(t)
	for _, tt := range []struct {
		name, method, path, body string
		status                   int
		want                     string // part of the body
	}{
		{"durations as text", "PUT", "/v1/acl/auth-method", `{"MaxTokenTTL":"1h","Config":{"ClockSkewLeeway":"-1s"}}`, 200,
			`"ClockSkewLeeway":"-1s"`},
		{"durations as numbers", "POST", "/v1/acl/auth-method", `{"MaxTokenTTL":60000000000}`, 200, `"MaxTokenTTL":"1m0s"`},
		{"no duration", "PUT", "/v1/acl/auth-method", `{"Config":{}}`, 200, `"ExpirationLeeway":""`},
		{"bad duration", "PUT", "/v1/acl/auth-method", `{"MaxTokenTTL":"soon"}`, 400, "MaxTokenTTL"},
		{"name of the path", "PUT", "/v1/acl/auth-method/m", `{}`, 200, `"Name":"m"`},
		{"another name", "PUT", "/v1/acl/auth-method/m", `{"Name":"n"}`, 400, "does not match"},
		{"no body", "PUT", "/v1/acl/auth-method/m", "", 400, "Request body is empty"},
		{"no method", "GET", "/v1/acl/auth-method/m", "", 404, "ACL auth-method not found"},
		{"empty list", "GET", "/v1/acl/auth-methods", "", 200, "[]"},
		{"rule", "PUT", "/v1/acl/binding-rule/r", `{"BindType":"policy"}`, 200, `"ID":"r"`},
		{"another rule", "PUT", "/v1/acl/binding-rule/r", `{"ID":"q"}`, 400, "does not match"},
		{"no rule", "GET", "/v1/acl/binding-rule/r", "", 404, "ACL binding rule not found"},
		{"login", "POST", "/v1/acl/login", `{"AuthMethodName":"m","LoginToken":"t"}`, 200, `"ExpirationTTL":"1h0m0s"`},
		{"auth URL", "PUT", "/v1/acl/oidc/auth-url", `{"RedirectURI":"r","ClientNonce":"n"}`, 200, `{"AuthURL":"r&n"}`},
		{"complete", "PUT", "/v1/acl/oidc/complete-auth", `{"State":"s","Code":"c","Iss":"i","ClientNonce":"n"}`, 403, "s c i n"},
		{"a read", "GET", "/v1/acl/login", "", 405, "Invalid method"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := do(s, tt.method, tt.path, tt.body, "")
			if w.Code != tt.status || !strings.Contains(w.Body.String(), tt.want) {
				t.Errorf("%s %s = %d %q, want %d and %q", tt.method, tt.path, w.Code, w.Body, tt.status, tt.want)
			}
		})
	}
}
