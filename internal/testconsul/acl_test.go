package testconsul_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/open-nomad/open-nomad/internal/testconsul"
	"github.com/open-nomad/open-nomad/internal/testidp"
)

// TestACL_Rights checks what tokens with a rule may do.
func TestACL_Rights(t *testing.T) {
	for name, c := range map[string]struct {
		rules string
		do    func(*api.Client) error
		ok    bool
	}{
		"register":             {`service "web" { policy = "write" }`, register, true},
		"register by prefix":   {`service_prefix "we" { policy = "write" }`, register, true},
		"register another":     {`service "api" { policy = "write" }`, register, false},
		"register and read":    {`service "web" { policy = "read" }`, register, false},
		"exact denial":         {`service_prefix "" { policy = "write" } service "web" { policy = "deny" }`, register, false},
		"exact grant":          {`service_prefix "" { policy = "read" } service "web" { policy = "write" }`, register, true},
		"longest prefix":       {`service_prefix "w" { policy = "read" } service_prefix "we" { policy = "write" }`, register, true},
		"self":                 {`agent "node1" { policy = "read" }`, readSelf, true},
		"self by prefix":       {`agent_prefix "" { policy = "read" }`, readSelf, true},
		"self without a right": {`node_prefix "" { policy = "read" }`, readSelf, false},
		"key":                  {`key "a/b" { policy = "read" }`, readKey, true},
		"key below":            {`key_prefix "a/" { policy = "write" }`, readKey, true},
		"other key":            {`key_prefix "b" { policy = "read" }`, readKey, false},
		"objects":              {`acl = "read"`, listPolicies, true},
		"objects and operator": {`operator = "write"`, listPolicies, false},
	} {
		t.Run(name, func(t *testing.T) {
			a := testconsul.Start(t, testconsul.Config{ACL: true, Manual: true})
			err := c.do(client(t, a, a.NewToken(t, c.rules)))
			if c.ok {
				must(t, err)
				return
			}
			a.Expect("Permission denied")
			refused(t, name, err, "403", "Permission denied: token with AccessorID")
		})
	}
}

func register(c *api.Client) error { return c.Agent().ServiceRegister(webService(1)) }

func readSelf(c *api.Client) error { _, err := c.Agent().Self(); return err }

func readKey(c *api.Client) error { _, _, err := c.KV().Get("a/b", nil); return err }

func listPolicies(c *api.Client) error { _, _, err := c.ACL().PolicyList(nil); return err }

// TestACL_Tokens checks calls without a token, and with one that is unknown, revoked or basic authentication.
func TestACL_Tokens(t *testing.T) {
	a := testconsul.Start(t, testconsul.Config{ACL: true, Manual: true})
	a.Expect("Permission denied")
	a.Expect("ACL not found")
	refused(t, "no token", readSelf(client(t, a, "")), "403", "anonymous token lacks permission")
	refused(t, "unknown", readSelf(client(t, a, "5f8c9a3e-1d2b-4c6a-9e7f-0a1b2c3d4e5f")), "403", "ACL not found")
	token := a.NewToken(t, `agent_prefix "" { policy = "read" }`)
	must(t, readSelf(client(t, a, token)))
	a.Revoke(token)
	refused(t, "revoked", readSelf(client(t, a, token)), "403", "ACL not found")
	basic, err := api.NewClient(&api.Config{Address: a.Addr(), Token: a.Management(), HttpAuth: &api.HttpBasicAuth{Username: "u", Password: "p"}})
	must(t, err)
	must(t, readSelf(basic))
	for _, f := range a.Faults() {
		if strings.Contains(f, token) || strings.Contains(f, a.Management()) {
			t.Errorf("fault %q has a token", f)
		}
	}
}

// TestACL_Lists checks that lists have only what the token may read, which is not a fault.
func TestACL_Lists(t *testing.T) {
	a := testconsul.Start(t, testconsul.Config{ACL: true, Manual: true})
	root := client(t, a, a.Management())
	must(t, register(root))
	must(t, root.Agent().ServiceRegister(&api.AgentServiceRegistration{Name: "db", Check: &api.AgentServiceCheck{TTL: "9s"}}))
	a.PutKey("app/a", "1")
	a.PutKey("app/b", "1")
	c := client(t, a, a.NewToken(t, `service "db" { policy = "read" } key "app/b" { policy = "read" } node_prefix "" { policy = "read" }`))
	services, err := c.Agent().Services()
	if must(t, err); len(services) != 1 || services["db"] == nil {
		t.Errorf("Services() = %v", services)
	}
	checks, err := c.Agent().Checks()
	if must(t, err); len(checks) != 1 || checks["service:db"] == nil {
		t.Errorf("Checks() = %v", checks)
	}
	names, _, err := c.Catalog().Services(nil)
	if must(t, err); fmt.Sprint(names) != "map[db:[]]" {
		t.Errorf("catalog = %v", names)
	}
	node, _, err := c.Catalog().Node("node1", nil)
	if must(t, err); len(node.Services) != 1 || node.Services["db"] == nil {
		t.Errorf("node = %v", node.Services)
	}
	list, _, err := c.Health().Service("web", "", false, nil)
	if must(t, err); len(list) != 0 {
		t.Errorf("health = %v", list)
	}
	keys, _, err := c.KV().Keys("app", "", nil)
	if must(t, err); fmt.Sprint(keys) != "[app/b]" {
		t.Errorf("keys = %v", keys)
	}
}

// workloads makes the objects of an orchestrator's logins, and returns the provider of its JWTs.
func workloads(t *testing.T, a *testconsul.Agent, ttl time.Duration) *testidp.Provider {
	t.Helper()
	idp := testidp.New(t)
	acl := client(t, a, a.Management()).ACL()
	mappings := map[string]string{}
	for _, claim := range []string{"nomad_namespace", "nomad_job_id", "nomad_task", "nomad_service"} {
		mappings[claim] = claim
	}
	_, _, err := acl.AuthMethodCreate(&api.ACLAuthMethod{Name: "nomad-workloads", Type: "jwt", TokenLocality: "local", MaxTokenTTL: ttl,
		Config: map[string]any{"JWKSURL": idp.URL + "/keys", "JWKSCACert": idp.CA, "JWTSupportedAlgs": []string{"RS256"},
			"BoundAudiences": []string{"consul.io"}, "ClaimMappings": mappings}}, nil)
	must(t, err)
	policy, _, err := acl.PolicyCreate(&api.ACLPolicy{Name: "policy-nomad-tasks",
		Rules: "key_prefix \"\" {\n  policy = \"read\"\n}\nservice_prefix \"\" {\n  policy = \"read\"\n}\n"}, nil)
	must(t, err)
	_, _, err = acl.RoleCreate(&api.ACLRole{Name: "nomad-default-tasks", Policies: []*api.ACLLink{{ID: policy.ID}}}, nil)
	must(t, err)
	for _, b := range []*api.ACLBindingRule{
		{BindType: "service", BindName: "${value.nomad_service}", Selector: `"nomad_service" in value`},
		{BindType: "role", BindName: "nomad-${value.nomad_namespace}-tasks", Selector: `"nomad_service" not in value`}} {
		b.AuthMethod = "nomad-workloads"
		_, _, err := acl.BindingRuleCreate(b, nil)
		must(t, err)
	}
	return idp
}

// login exchanges claims for a token.
func login(t *testing.T, a *testconsul.Agent, jwt string) (*api.ACLToken, error) {
	t.Helper()
	token, _, err := client(t, a, "").ACL().Login(&api.ACLLoginParams{AuthMethod: "nomad-workloads", BearerToken: jwt,
		Meta: map[string]string{"requested_by": "nomad_service_web"}}, nil)
	return token, err
}

func claims(more map[string]any) map[string]any {
	out := map[string]any{"aud": "consul.io", "exp": time.Now().Add(time.Hour).Unix(), "nomad_namespace": "default", "nomad_job_id": "web"}
	for k, v := range more {
		out[k] = v
	}
	return out
}

// TestLogin checks tokens of a service and of a task from login to logout.
func TestLogin(t *testing.T) {
	a := testconsul.Start(t, testconsul.Config{ACL: true, Manual: true})
	idp := workloads(t, a, time.Hour)
	service, err := login(t, a, idp.Token(claims(map[string]any{"nomad_service": "web"})))
	must(t, err)
	task, err := login(t, a, idp.Token(claims(map[string]any{"nomad_task": "server"})))
	must(t, err)
	if got := a.Logins(); len(got) != 2 || got[0].AccessorID != service.AccessorID ||
		got[0].Description != `token created via login: {"requested_by":"nomad_service_web"}` {
		t.Errorf("Logins() = %+v", got)
	}
	asService, asTask := client(t, a, service.SecretID), client(t, a, task.SecretID)
	self, _, err := asService.ACL().TokenReadSelf(&api.QueryOptions{AllowStale: true})
	if err != nil || self.AccessorID != service.AccessorID || self.AuthMethod != "nomad-workloads" {
		t.Errorf("TokenReadSelf() = %+v, %v", self, err)
	}
	must(t, register(asService))
	must(t, readKey(asTask))
	a.Expect("Permission denied")
	refused(t, "register with the token of a task", register(asTask), "403")
	refused(t, "key with the token of a service", readKey(asService), "403")
	_, err = asService.ACL().Logout(nil)
	must(t, err)
	if got := a.Logins(); len(got) != 1 || got[0].AccessorID != task.AccessorID {
		t.Errorf("Logins() = %+v after a logout", got)
	}
	a.Expect("ACL not found")
	refused(t, "after the logout", register(asService), "403", "ACL not found")
	a.Advance(61 * time.Minute)
	refused(t, "after the end", readKey(asTask), "403", "ACL not found")
}

// TestLogin_Refused checks that no JWT but a correct one gets a token, and that no answer or fault has the JWT.
func TestLogin_Refused(t *testing.T) {
	a := testconsul.Start(t, testconsul.Config{ACL: true, Manual: true})
	idp, other := workloads(t, a, 0), testidp.New(t)
	good := idp.Token(claims(map[string]any{"nomad_service": "web"}))
	for name, jwt := range map[string]string{
		"audience":  idp.Token(claims(map[string]any{"aud": "vault.io"})),
		"expired":   idp.Token(claims(map[string]any{"exp": time.Now().Add(-time.Minute).Unix()})),
		"other key": other.Token(claims(map[string]any{"nomad_service": "web"})),
		"no rule":   idp.Token(claims(map[string]any{"nomad_namespace": "prod"})),
		"malformed": good[1:],
		"cut":       good[:len(good)-9],
	} {
		before := len(a.Faults())
		_, err := login(t, a, jwt)
		refused(t, name, err, "403", "Permission denied")
		faults := a.Faults()[before:]
		if len(faults) != 1 || strings.Contains(faults[0]+err.Error(), jwt) {
			t.Errorf("%s: faults = %q", name, faults)
		}
	}
	a.Expect("Permission denied")
	if got := a.Logins(); len(got) > 0 {
		t.Errorf("Logins() = %+v", got)
	}
}

// TestTokenLag checks that a new token is unknown at first, as before it has reached all servers.
func TestTokenLag(t *testing.T) {
	a := testconsul.Start(t, testconsul.Config{ACL: true, Manual: true})
	idp := workloads(t, a, 0)
	must(t, a.Set(testconsul.Mode{TokenLag: time.Minute}))
	token, err := login(t, a, idp.Token(claims(map[string]any{"nomad_service": "web"})))
	must(t, err)
	a.Expect("ACL not found")
	refused(t, "at first", register(client(t, a, token.SecretID)), "403")
	a.Advance(time.Minute)
	must(t, register(client(t, a, token.SecretID)))
}

// TestObjects checks that ACL objects exist once, and until they are deleted.
func TestObjects(t *testing.T) {
	a := testconsul.Start(t, testconsul.Config{ACL: true, Manual: true})
	workloads(t, a, 0)
	acl := client(t, a, a.Management()).ACL()
	_, _, err := acl.PolicyCreate(&api.ACLPolicy{Name: "policy-nomad-tasks"}, nil)
	refused(t, "second policy", err, "500", "already exists")
	method, _, err := acl.AuthMethodRead("nomad-workloads", nil)
	if err != nil || method == nil || method.Config["BoundAudiences"] == nil {
		t.Fatalf("AuthMethodRead() = %+v, %v", method, err)
	}
	rules, _, err := acl.BindingRuleList("nomad-workloads", nil)
	if err != nil || len(rules) != 2 {
		t.Fatalf("BindingRuleList() = %v, %v", rules, err)
	}
	role, _, err := acl.RoleReadByName("nomad-default-tasks", nil)
	if err != nil || role == nil || role.Policies[0].Name != "policy-nomad-tasks" {
		t.Fatalf("RoleReadByName() = %+v, %v", role, err)
	}
	policy, _, err := acl.PolicyReadByName("policy-nomad-tasks", nil)
	if err != nil || policy == nil {
		t.Fatalf("PolicyReadByName() = %v, %v", policy, err)
	}
	for _, remove := range []func() error{
		func() error { _, err := acl.BindingRuleDelete(rules[0].ID, nil); return err },
		func() error { _, err := acl.AuthMethodDelete("nomad-workloads", nil); return err },
		func() error { _, err := acl.RoleDelete(role.ID, nil); return err },
		func() error { _, err := acl.PolicyDelete(policy.ID, nil); return err },
	} {
		must(t, remove())
	}
	methods, _, err := acl.AuthMethodList(nil)
	must(t, err)
	rules, _, err = acl.BindingRuleList("", nil)
	must(t, err)
	roles, _, err := acl.RoleList(nil)
	must(t, err)
	policies, _, err := acl.PolicyList(nil)
	if must(t, err); len(methods)+len(rules)+len(roles)+len(policies) > 0 {
		t.Errorf("left: %v, %v, %v, %v", methods, rules, roles, policies)
	}
	if role, _, err := acl.RoleReadByName("nomad-default-tasks", nil); role != nil || err != nil {
		t.Errorf("RoleReadByName() = %v, %v", role, err)
	}
}

// TestTLS checks an agent that serves HTTPS, and one without ACLs.
func TestTLS(t *testing.T) {
	certs := httptest.NewTLSServer(nil)
	defer certs.Close()
	a := testconsul.Start(t, testconsul.Config{TLS: certs.TLS})
	https := certs.Client()
	https.Transport.(*http.Transport).TLSClientConfig.ServerName = "example.com" // the name of the certificate
	c, err := api.NewClient(&api.Config{Address: a.Addr(), Scheme: "https", HttpClient: https, Token: "of no meaning here"})
	must(t, err)
	must(t, readSelf(c))
	refused(t, "ACLs", listPolicies(c), "401", "ACL support disabled")
	if _, err := c.Operator().LicenseGet(nil); err == nil {
		t.Error("a license")
	}
	entry := &api.IngressGatewayConfigEntry{Kind: api.IngressGateway, Name: "edge"}
	_, _, err = c.ConfigEntries().Set(entry, nil)
	must(t, err)
	if got := a.ConfigEntry("ingress-gateway", "edge"); got["Name"] != "edge" {
		t.Errorf("ConfigEntry() = %v", got)
	}
	if got, _, err := c.ConfigEntries().Get(api.IngressGateway, "edge", nil); err != nil || got.GetName() != "edge" {
		t.Errorf("Get() = %v, %v", got, err)
	}
}
