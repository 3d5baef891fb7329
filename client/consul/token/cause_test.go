package token

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/hashicorp/consul/api"
)

// TestFailed checks the words for errors of a login. No answer is part of them, since it could repeat the JWT.
func TestFailed(t *testing.T) {
	for _, c := range []struct {
		err     error
		want    string
		refused bool
	}{
		{api.StatusError{Code: 403, Body: `ACL not found: auth method "m" not found canary`}, `auth method "m" does not exist in Consul: create it with nomad setup consul (status 403)`, true},
		{api.StatusError{Code: 403, Body: "ACL not found canary"}, "Consul does not have the token of the agent: set token in the consul block of the agent (status 403)", true},
		{api.StatusError{Code: 403, Body: "Permission denied canary"},
			`auth method "m" does not accept the identity, or no binding rule gives it a right: run nomad setup consul, and create a role nomad-<namespace>-tasks for the tasks of each namespace (status 403)`, true},
		{api.StatusError{Code: 401, Body: "ACL support disabled canary"}, "ACLs are disabled in Consul: enable them, or remove service_identity and task_identity from the servers and register the job again (status 401)", true},
		{api.StatusError{Code: 403, Body: "canary"}, "Consul refused the login (status 403)", true},
		{api.StatusError{Code: 429, Body: "canary"}, "Consul answered with status 429", false},
		{api.StatusError{Code: 500, Body: "invalid claim: token is expired canary"}, "the identity has expired (status 500)", true},
		{api.StatusError{Code: 500, Body: `error verifying token signature: error fetching keys canary: Get "https://n/jwks.json": x509: certificate has expired`},
			`auth method "m" cannot get the keys of this cluster: each server of Consul must reach its JWKSURL (status 500)`, true},
		{api.StatusError{Code: 500, Body: "invalid audience (aud) claim canary"},
			`auth method "m" does not accept the audience of the identity: BoundAudiences must have aud of the identity (status 500)`, true},
		{api.StatusError{Code: 500, Body: "rpc error: No cluster leader canary"}, "Consul answered with status 500", false},
		{api.StatusError{Code: 502, Body: "canary"}, "Consul answered with status 502", false},
		{api.StatusError{Code: 200, Body: "canary"}, "Consul answered with status 200", false},
		{&url.Error{Op: "Post", URL: "http://canary", Err: errors.New("connection refused canary")}, "Consul is unreachable", false},
		{fmt.Errorf("canary: %w", context.DeadlineExceeded), "Consul does not answer", false},
	} {
		got := failed(c.err, "m")
		if got.Cause != c.want || got.Refused != c.refused {
			t.Errorf("failed(%v) = %q, %t, want %q, %t", c.err, got.Cause, got.Refused, c.want, c.refused)
		}
		if strings.Contains(fmt.Sprintf("%v %+v", got, *got), "canary") {
			t.Errorf("%q has a part of the answer", got.Cause)
		}
	}
}
