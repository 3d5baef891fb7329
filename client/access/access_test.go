package access_test

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/open-nomad/open-nomad/acl"
	"github.com/open-nomad/open-nomad/client/access"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/idtoken"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rbac"
)

// servers holds tokens, roles and policies, and counts the calls.
type servers struct {
	mu       sync.Mutex
	tokens   map[string]*rbac.AuthenticatedIdentity
	roles    map[string][]string
	policies map[string]string
	claims   []string
	fresh    map[string]bool // tokens that only the leader has yet
	late     map[string]bool // policies and roles that only the leader has yet
	deleted  map[string]bool // tokens that only a server without contact to the leader still has
	contact  time.Duration   // time since the servers' last contact with the leader
	leader   error           // error of calls to the leader
	gone     error
	asked    map[string]int
	slow     time.Duration
}

func (s *servers) Call(ctx context.Context, method string, req, resp any) error {
	time.Sleep(s.slow)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.gone != nil {
		return s.gone
	}
	s.asked[method]++
	var token string
	switch r := req.(type) {
	case interface{ Query() *message.QueryOptions }:
		if token = r.Query().AuthToken; r.Query().Region != "global" || s.fresh[token] && r.Query().AllowStale && method == "ACL.WhoAmI" {
			return apierror.ErrPermissionDenied
		}
	}
	stale := req.(interface{ Query() *message.QueryOptions }).Query().AllowStale
	if !stale && s.leader != nil {
		return s.leader
	}
	if stale {
		resp.(interface{ ReadMeta() *message.QueryMeta }).ReadMeta().LastContact = s.contact
	}
	id := s.tokens[token]
	if id == nil || s.deleted[token] && !stale {
		return apierror.FromText(apierror.ErrPermissionDenied.Error())
	}
	switch out := resp.(type) {
	case *message.ACLWhoAmIResponse:
		out.Identity = id
	case *message.ACLRolesByIDResponse:
		out.ACLRoles = map[string]*rbac.Role{}
		for _, id := range req.(*message.ACLRolesByIDRequest).ACLRoleIDs {
			if s.late[id] && stale {
				continue
			}
			role := &rbac.Role{ID: id}
			for _, name := range s.roles[id] {
				role.Policies = append(role.Policies, &rbac.RolePolicyLink{Name: name})
			}
			out.ACLRoles[id] = role
		}
	case *message.ACLPolicySetResponse:
		names := s.claims
		if r, ok := req.(*message.ACLPolicySetRequest); ok {
			if names = r.Names; !s.holds(id, names) {
				return apierror.ErrPermissionDenied
			}
		}
		out.Policies = map[string]*rbac.Policy{}
		for _, name := range names {
			if text, ok := s.policies[name]; ok && !(s.late[name] && stale) {
				out.Policies[name] = &rbac.Policy{Name: name, Rules: text}
			}
		}
	}
	return nil
}

// holds reports whether a token has the policies. Only such a token may read them.
func (s *servers) holds(id *rbac.AuthenticatedIdentity, names []string) bool {
	held := map[string]bool{}
	for _, name := range id.ACLToken.Policies {
		held[name] = true
	}
	for _, link := range id.ACLToken.Roles {
		for _, name := range s.roles[link.ID] {
			held[name] = true
		}
	}
	for _, name := range names {
		if !held[name] {
			return false
		}
	}
	return true
}

func token(policies ...string) *rbac.AuthenticatedIdentity {
	return &rbac.AuthenticatedIdentity{ACLToken: &rbac.Token{Type: rbac.ClientToken, Policies: policies}}
}

func newServers() *servers {
	role := token()
	role.ACLToken.Roles = []*rbac.TokenRoleLink{{ID: "r"}}
	expires := time.Now().Add(10 * time.Second)
	ending := token("read")
	ending.ACLToken.ExpirationTime = &expires
	return &servers{asked: map[string]int{}, fresh: map[string]bool{"new": true},
		roles: map[string][]string{"r": {"read", "nodes"}}, claims: []string{"logs"},
		policies: map[string]string{"read": `namespace "prod" { policy = "read" }`, "nodes": `node { policy = "write" }`,
			"logs": `namespace "prod" { capabilities = ["read-logs"] }`, "broken": `namespace`, "anonymous": `namespace "open" { policy = "read" }`},
		tokens: map[string]*rbac.AuthenticatedIdentity{
			"": token("anonymous"), "reader": token("read"), "role": role, "broken": token("read", "broken"), "nothing": token("none"),
			"new": token("read"), "ending": ending, "all": {ACLToken: &rbac.Token{Type: rbac.ManagementToken}},
			"node": {ClientID: "n"}, "signed node": {Claims: &idtoken.Claims{NodeIdentityClaims: &idtoken.NodeIdentityClaims{NodeID: "n"}}},
			"task":  {Claims: &idtoken.Claims{WorkloadIdentityClaims: &idtoken.WorkloadIdentityClaims{Namespace: "prod", JobID: "j"}}},
			"intro": {Claims: &idtoken.Claims{NodeIntroductionIdentityClaims: &idtoken.NodeIntroductionIdentityClaims{}}},
		}}
}

func resolver(s *servers) *access.Resolver {
	return access.New(access.Config{Servers: s, Region: "global", Enabled: true})
}

var questions = map[string]acl.Question{
	"read": acl.InNamespace("prod", acl.ReadJob), "logs": acl.InNamespace("prod", acl.ReadLogs), "open": acl.InNamespace("open", acl.ReadJob),
	"node read": acl.ToRead(acl.Nodes), "node write": acl.ToWrite(acl.Nodes), "agent read": acl.ToRead(acl.Agents),
}

// may returns the rights of a token's bearer.
func may(t *testing.T, r *access.Resolver, token string) string {
	t.Helper()
	_, a, err := r.Caller(t.Context(), token)
	if errors.Is(err, apierror.ErrPermissionDenied) {
		return "denied"
	}
	if err != nil {
		return "error"
	}
	all := ""
	for _, name := range []string{"read", "logs", "open", "node read", "node write", "agent read"} {
		if a.Allows(questions[name]) {
			all += name + ", "
		}
	}
	return all
}

func TestRights(t *testing.T) {
	r := resolver(newServers())
	everything := "read, logs, open, node read, node write, agent read, "
	for token, want := range map[string]string{
		"": "open, ", "reader": "read, ", "role": "read, node read, node write, ", "nothing": "", "new": "read, ", "all": everything,
		"node": "", "signed node": "", "task": "logs, ",
		"intro": "denied", "broken": "denied", "unknown": "denied",
	} {
		for range 2 { // resolved, then cached
			if got := may(t, r, token); got != want {
				t.Errorf("%q may %q, want %q", token, got, want)
			}
		}
	}
}

// Without access control everybody has all rights, except the bearer of an invalid token.
func TestOff(t *testing.T) {
	s := newServers()
	r := access.New(access.Config{Servers: s, Region: "global"})
	for token, want := range map[string]bool{"": true, "reader": true, "task": true, "unknown": false} {
		id, a, err := r.Caller(t.Context(), token)
		if (err == nil) != want || want && (!a.Disabled || !a.IsManagement() || id == nil || (a.Workload != nil) != (token == "task")) {
			t.Errorf("%q: %+v, %v", token, a, err)
		}
	}
	s.gone = errors.New("no servers")
	if _, _, err := r.Caller(t.Context(), ""); err != nil {
		t.Errorf("the anonymous token needs no server: %v", err)
	}
	if _, _, err := r.Caller(t.Context(), "reader"); err == nil || errors.Is(err, apierror.ErrPermissionDenied) {
		t.Errorf("a token without a server to verify it: %v", err)
	}
}

// Results are cached for their TTL and no longer.
func TestCacheTTL(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServers()
		r := resolver(s)
		for range 100 {
			may(t, r, "role")
		}
		for method, n := range s.asked {
			if n != 1 {
				t.Errorf("%s was called %d times", method, n)
			}
		}
		s.gone = errors.New("no servers")
		time.Sleep(29 * time.Second)
		if got := may(t, r, "role"); got != "read, node read, node write, " {
			t.Errorf("while it is cached: %q", got)
		}
		time.Sleep(2 * time.Second)
		if got := may(t, r, "role"); got != "error" {
			t.Errorf("expired, and no server answers: %q", got)
		}
		s.gone = nil
		s.tokens["role"] = nil
		if got := may(t, r, "role"); got != "denied" {
			t.Errorf("deleted, after the expiry: %q", got)
		}
	})
}

// A change of a token's policies is visible after the TTL.
func TestChangedPolicies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServers()
		r := access.New(access.Config{Servers: s, Region: "global", Enabled: true, TokenTTL: time.Hour, PolicyTTL: time.Minute})
		if got := may(t, r, "reader"); got != "read, " {
			t.Fatalf("first: %q", got)
		}
		s.tokens["reader"] = token("nodes")
		time.Sleep(2 * time.Minute)
		if got := may(t, r, "reader"); got != "node read, node write, " {
			t.Errorf("then: %q", got)
		}
	})
}

// A policy or role that a lagging server lacks is not treated as deleted, because it may deny
// what others allow.
func TestLaggingServerLacksPolicies(t *testing.T) {
	for what, late := range map[string]string{"policy": "denier", "role": "denying"} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newServers()
				s.policies["denier"] = `namespace "prod" { policy = "deny" }`
				s.roles["denying"] = []string{"denier"}
				id := token("read", "denier")
				if what == "role" {
					id = token("read")
					id.ACLToken.Roles = []*rbac.TokenRoleLink{{ID: "denying"}}
				}
				s.tokens["t"], s.late = id, map[string]bool{late: true}
				r := resolver(s)
				if got := may(t, r, "t"); got != "" {
					t.Errorf("with a lagging server: %q, want nothing", got)
				}
				s.late, s.leader = nil, errors.New("No cluster leader")
				time.Sleep(time.Second)
				if got := may(t, r, "t"); got != "" {
					t.Errorf("after it has caught up: %q, want nothing", got)
				}
				s.late = map[string]bool{late: true}
				time.Sleep(time.Minute)
				if got := may(t, r, "t"); got != "error" {
					t.Errorf("with a lagging server and without a leader: %q, want an error", got)
				}
			})
		})
	}
}

// The answer of a server that has long lost the leader is confirmed by the leader, if there is
// one.
func TestServerWithoutContact(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServers()
		s.deleted = map[string]bool{"reader": true}
		s.contact = time.Second
		r := resolver(s)
		if got := may(t, r, "reader"); got != "read, " {
			t.Errorf("after a second without contact: %q", got)
		}
		s.contact = time.Hour
		time.Sleep(time.Minute)
		if got := may(t, r, "reader"); got != "denied" {
			t.Errorf("after an hour without contact: %q", got)
		}
		s.leader = errors.New("No cluster leader")
		if got := may(t, r, "reader"); got != "read, " {
			t.Errorf("without any leader: %q", got)
		}
	})
}

// A token is not cached beyond its expiry.
func TestTokenExpiry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServers()
		body := base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, `{"exp":%d}`, time.Now().Add(10*time.Second).Unix()))
		signed := "e30." + body + ".AAAA"
		s.tokens[signed] = s.tokens["task"]
		r := resolver(s)
		for token, want := range map[string]string{"ending": "read, ", signed: "logs, "} {
			if got := may(t, r, token); got != want {
				t.Errorf("before the expiry: %q, want %q", got, want)
			}
		}
		s.gone = errors.New("no servers")
		time.Sleep(11 * time.Second)
		for _, token := range []string{"ending", signed} {
			if got := may(t, r, token); got != "error" {
				t.Errorf("after the expiry: %q", got)
			}
		}
	})
}

// Concurrent callers wait for one call. A cancelled caller stops waiting.
func TestConcurrentCallsShareOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServers()
		s.slow = time.Second
		r := resolver(s)
		hasty, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if _, _, err := r.Caller(hasty, "reader"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("cancelled caller: %v", err)
		}
		var wg sync.WaitGroup
		for range 50 {
			wg.Go(func() {
				if got := may(t, r, "reader"); got != "read, " {
					t.Errorf("one of many: %q", got)
				}
			})
		}
		wg.Wait()
		if s.asked["ACL.WhoAmI"] != 1 || s.asked["ACL.GetPolicies"] != 1 {
			t.Errorf("calls = %v", s.asked)
		}
	})
}

// The number of cached callers is limited.
func TestCacheIsBounded(t *testing.T) {
	s := newServers()
	r := resolver(s)
	for i := range 10000 {
		name := fmt.Sprint("t", i)
		s.tokens[name] = token("read")
		may(t, r, name)
	}
	if n := access.Kept(r); n > 4096 {
		t.Errorf("%d callers are cached", n)
	}
}

func BenchmarkCaller(b *testing.B) {
	r := resolver(newServers())
	q := questions["read"]
	b.ReportAllocs()
	for b.Loop() {
		_, a, err := r.Caller(b.Context(), "reader")
		if err != nil || !a.Allows(q) {
			b.Fatal(err)
		}
	}
}
