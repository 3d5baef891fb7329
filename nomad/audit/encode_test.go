package audit

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/idtoken"
	"github.com/open-nomad/open-nomad/nomad/rbac"
)

// decode decodes a line with encoding/json.
func decode(t *testing.T, line string) map[string]any {
	t.Helper()
	var out map[string]any
	if err := json.Unmarshal([]byte(line), &out); err != nil {
		t.Fatalf("%v in %q", err, line)
	}
	return out
}

// at returns the value at a path of keys.
func at(v any, path ...string) any {
	for _, key := range path {
		m, _ := v.(map[string]any)
		v = m[key]
	}
	return v
}

func TestLine(t *testing.T) {
	e := Event{Type: HTTP, Stage: Complete,
		Auth:     Auth{AccessorID: "a", Name: "n", Kind: "client", Policies: []string{"p", "q"}, Roles: []string{"r"}},
		Request:  Request{ID: "r", Operation: "GET", Endpoint: "/v1/jobs", Namespace: "default", RemoteAddress: "1.2.3.4:5", UserAgent: "curl"},
		Response: &Response{Status: 403, Error: "Permission denied"}}
	got := decode(t, string(e.line(nil, time.Unix(1, 5).UTC(), Node{Name: "s1", Region: "global", Address: "10.0.0.1:4646"}.line())))
	payload := got["payload"].(map[string]any)
	if !nomad.IsUUID(payload["id"].(string)) {
		t.Errorf("the event has the ID %v", payload["id"])
	}
	delete(payload, "id")
	want := map[string]any{"created_at": "1970-01-01T00:00:01.000000005Z", "event_type": "audit", "payload": map[string]any{
		"stage": "OperationComplete", "type": "HTTPEvent", "timestamp": "1970-01-01T00:00:01.000000005Z", "version": 1.0,
		"auth": map[string]any{"accessor_id": "a", "name": "n", "kind": "client", "policies": []any{"p", "q"}, "roles": []any{"r"}},
		"request": map[string]any{"id": "r", "operation": "GET", "endpoint": "/v1/jobs", "namespace": map[string]any{"id": "default"},
			"request_meta": map[string]any{"remote_address": "1.2.3.4:5", "user_agent": "curl"},
			"node_meta":    map[string]any{"name": "s1", "region": "global", "ip": "10.0.0.1:4646"}},
		"response": map[string]any{"status_code": 403.0, "error": "Permission denied"}}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("the line is\n%v, want\n%v", got, want)
	}
}

// Caller-supplied text stays within its string and its limit, and is ASCII.
func TestCallerText(t *testing.T) {
	const token = "eyJhbGciOiJFZERTQSJ9.eyJzdWIiOiJ4In0.c2lnbmF0dXJl"
	for _, tt := range []struct{ name, said, want string }{
		{"plain", "a b/c~", "a b/c~"},
		{"quotes", `a"b\c`, `a"b\c`},
		{"lines", "a\r\nb\x00\x7f", "a\r\nb\x00\x7f"},
		{"terminal", "\x1b[2J\u009b", "\x1b[2J\u009b"},
		{"beyond ASCII", "é\u2028\u202e😀", "é\u2028\u202e😀"},
		{"no text", "a\xffb\xc3", "a\ufffdb\ufffd"},
		{"long", strings.Repeat("x", 5000), strings.Repeat("x", maxText) + "..."},
		{"token", "Bearer " + token + "!", "Bearer [token]!"},
		{"token at the edge", strings.Repeat("x", maxText-20) + token, strings.Repeat("x", maxText-20) + "[token]"},
		{"token beyond the scanned part", strings.Repeat("x", 8*maxText-40) + token, strings.Repeat("x", maxText) + "..."},
	} {
		t.Run(tt.name, func(t *testing.T) {
			line := string(encode(nil, bounded(tt.said, maxText)))
			for _, c := range line {
				if c < ' ' || c > '~' {
					t.Fatalf("%q is not one line of ASCII", line)
				}
			}
			var got string
			if err := json.Unmarshal([]byte(line), &got); err != nil || got != tt.want {
				t.Errorf("%q was written as %q (%v), want %q", tt.said, got, err, tt.want)
			}
		})
	}
}

func TestAuthOf(t *testing.T) {
	claims := func(set func(*idtoken.Claims)) *rbac.AuthenticatedIdentity {
		c := &idtoken.Claims{RegisteredClaims: idtoken.RegisteredClaims{ID: "jti", Subject: "s"}}
		set(c)
		return &rbac.AuthenticatedIdentity{Claims: c}
	}
	for name, tt := range map[string]struct {
		id   *rbac.AuthenticatedIdentity
		want Auth
	}{
		"nobody":   {nil, Auth{Kind: "anonymous"}},
		"no token": {&rbac.AuthenticatedIdentity{}, Auth{Kind: "anonymous"}},
		"anonymous": {&rbac.AuthenticatedIdentity{ACLToken: &rbac.Token{AccessorID: "anonymous", Type: "client"}},
			Auth{AccessorID: "anonymous", Kind: "anonymous"}},
		"client": {&rbac.AuthenticatedIdentity{ACLToken: &rbac.Token{AccessorID: "a", SecretID: "s", Name: "n", Type: "client",
			Policies: []string{"p"}, Roles: []*rbac.TokenRoleLink{{ID: "i", Name: "r"}, {ID: "j"}}}},
			Auth{AccessorID: "a", Name: "n", Kind: "client", Policies: []string{"p"}, Roles: []string{"r", "j"}}},
		"management": {&rbac.AuthenticatedIdentity{ACLToken: &rbac.Token{AccessorID: "a", Type: "management"}},
			Auth{AccessorID: "a", Kind: "management"}},
		"node secret": {&rbac.AuthenticatedIdentity{ClientID: "n"}, Auth{AccessorID: "n", Kind: "node"}},
		"workload": {claims(func(c *idtoken.Claims) {
			c.WorkloadIdentityClaims = &idtoken.WorkloadIdentityClaims{AllocationID: "x"}
		}),
			Auth{AccessorID: "jti", Name: "s", Kind: "workload", AllocID: "x"}},
		"node": {claims(func(c *idtoken.Claims) { c.NodeIdentityClaims = &idtoken.NodeIdentityClaims{} }),
			Auth{AccessorID: "jti", Name: "s", Kind: "node"}},
		"server": {claims(func(c *idtoken.Claims) { c.ServerIdentityClaims = &idtoken.ServerIdentityClaims{} }),
			Auth{AccessorID: "jti", Name: "s", Kind: "server"}},
		"introduction": {claims(func(c *idtoken.Claims) {
			c.NodeIntroductionIdentityClaims = &idtoken.NodeIntroductionIdentityClaims{}
		}), Auth{AccessorID: "jti", Name: "s", Kind: "introduction"}},
	} {
		if got := AuthOf(tt.id); !reflect.DeepEqual(got, tt.want) {
			t.Errorf("%s: AuthOf() = %+v, want %+v", name, got, tt.want)
		}
	}
}

func TestFilters(t *testing.T) {
	for _, tt := range []struct {
		name  string
		f     Filter
		e     Event
		drops bool
	}{
		{"exact", Filter{Type: "HTTPEvent", Endpoints: []string{"/v1/metrics"}}, Event{Type: HTTP, Request: Request{Endpoint: "/v1/metrics"}},
			true},
		{"longer", Filter{Type: "HTTPEvent", Endpoints: []string{"/v1/metrics"}},
			Event{Type: HTTP, Request: Request{Endpoint: "/v1/metrics/x"}}, false},
		{"another type", Filter{Type: "HTTPEvent", Endpoints: []string{"*"}}, Event{Type: RPC, Request: Request{Endpoint: "/v1/metrics"}}, false},
		{"star within", Filter{Type: "HTTPEvent", Endpoints: []string{"/v1/job/*/plan"}},
			Event{Type: HTTP, Request: Request{Endpoint: "/v1/job/a/b/plan"}}, true},
		{"star overlapping", Filter{Type: "HTTPEvent", Endpoints: []string{"aba*ba"}}, Event{Type: HTTP, Request: Request{Endpoint: "aba"}},
			false},
		{"several stars", Filter{Type: "RPCEvent", Endpoints: []string{"*.Update*s"}},
			Event{Type: RPC, Request: Request{Endpoint: "Node.UpdateStatus"}}, true},
		{"operation", Filter{Type: "HTTPEvent", Operations: []string{"GET", "HEAD"}}, Event{Type: HTTP, Request: Request{Operation: "GET"}},
			true},
		{"other operation", Filter{Type: "HTTPEvent", Operations: []string{"GET"}}, Event{Type: HTTP, Request: Request{Operation: "PUT"}}, false},
		{"stage", Filter{Type: "HTTPEvent", Stages: []string{"OperationReceived"}}, Event{Type: HTTP, Stage: Received}, true},
		{"other stage", Filter{Type: "HTTPEvent", Stages: []string{"OperationReceived"}}, Event{Type: HTTP, Stage: Complete}, false},
		{"any stage", Filter{Type: "HTTPEvent", Stages: []string{"*"}}, Event{Type: HTTP, Stage: Complete}, true},
		{"all must match", Filter{Type: "HTTPEvent", Endpoints: []string{"/x"}, Operations: []string{"GET"}},
			Event{Type: HTTP, Request: Request{Endpoint: "/x", Operation: "PUT"}}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if err := tt.f.Check(); err != nil {
				t.Fatal(err)
			}
			if got := tt.f.drops(&tt.e); got != tt.drops {
				t.Errorf("%+v drops %+v: %v", tt.f, tt.e, got)
			}
		})
	}
	for name, f := range map[string]Filter{
		"no type": {Endpoints: []string{"*"}}, "unknown type": {Type: "FileEvent", Endpoints: []string{"*"}},
		"unknown stage": {Type: "HTTPEvent", Stages: []string{"OperationBegun"}}, "empty": {Type: "HTTPEvent"},
		"empty endpoint": {Type: "HTTPEvent", Endpoints: []string{""}},
	} {
		if f.Check() == nil {
			t.Errorf("%s: Check() accepts %+v", name, f)
		}
	}
}
