package testconsul_test

import (
	"crypto/sha256"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/open-nomad/open-nomad/internal/testconsul"
)

// client returns Consul's own client of an agent.
func client(t *testing.T, a *testconsul.Agent, token string) *api.Client {
	t.Helper()
	c, err := api.NewClient(&api.Config{Address: a.Addr(), Token: token})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// must fails the test on an error.
func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// refused reports an error that is not the status and text that Consul answers.
func refused(t *testing.T, what string, err error, want ...string) {
	t.Helper()
	for _, w := range want {
		if err == nil || !strings.Contains(err.Error(), w) {
			t.Errorf("%s: error = %v, want %q", what, err, w)
		}
	}
}

// web is the ID of a service of a task, and alive the one of its check.
const web = "_nomad-task-5f8c9a3e-1d2b-4c6a-9e7f-0a1b2c3d4e5f-group-api-web-http"

func alive(n int) string {
	return fmt.Sprintf("_nomad-check-%x", sha256.Sum256([]byte{byte(n)}))
}

// webService is the registration of web with TTL checks.
func webService(checks ...int) *api.AgentServiceRegistration {
	out := &api.AgentServiceRegistration{ID: web, Name: "web", Port: 8080, Address: "192.0.2.7", Tags: []string{"v1"},
		Meta: map[string]string{"external-source": "nomad"}, Weights: &api.AgentWeights{Passing: 3, Warning: 1}}
	for _, n := range checks {
		out.Checks = append(out.Checks, &api.AgentServiceCheck{CheckID: alive(n), Name: "alive", TTL: "1m30s"})
	}
	return out
}

// TestRegistration moves a service through registration, update and removal, with the exact set at each step.
func TestRegistration(t *testing.T) {
	a := testconsul.Start(t, testconsul.Config{Manual: true})
	c := client(t, a, "").Agent()
	step := func(what string, err error, want ...string) {
		t.Helper()
		must(t, err)
		slices.Sort(want)
		if got := a.IDs(); !slices.Equal(got, want) {
			t.Errorf("%s: IDs() = %q, want %q", what, got, want)
		}
	}
	step("empty", nil)
	step("registered", c.ServiceRegister(webService(1, 2)), web, alive(1), alive(2))
	must(t, c.UpdateTTL(alive(1), "fine", api.HealthPassing))
	step("again", c.ServiceRegister(webService(1, 3)), web, alive(1), alive(2), alive(3))
	replace := api.ServiceRegisterOpts{ReplaceExistingChecks: true}
	step("replaced checks", c.ServiceRegisterOpts(webService(1, 3), replace), web, alive(1), alive(3))
	if got := a.Checks()[alive(1)].Status; got != api.HealthPassing {
		t.Errorf("status of the kept check = %q, want passing", got)
	}
	step("check alone", c.CheckRegister(&api.AgentCheckRegistration{ID: alive(4), Name: "late", ServiceID: web,
		AgentServiceCheck: api.AgentServiceCheck{TTL: "1m", Status: api.HealthPassing}}), web, alive(1), alive(3), alive(4))
	step("check removed", c.CheckDeregister(alive(3)), web, alive(1), alive(4))
	got, err := c.Services()
	must(t, err)
	s := got[web]
	if s == nil || s.Service != "web" || s.Port != 8080 || s.Weights.Passing != 3 || s.TaggedAddresses["lan_ipv4"].Address != "192.0.2.7" {
		t.Errorf("Services() = %+v", s)
	}
	checks, err := c.Checks()
	must(t, err)
	if k := checks[alive(4)]; k == nil || k.ServiceName != "web" || k.Type != "ttl" || k.Status != api.HealthPassing {
		t.Errorf("Checks() = %+v", k)
	}
	step("removed", c.ServiceDeregister(web))
	refused(t, "deregister", c.ServiceDeregister(web), "404", "Unknown service ID")
	refused(t, "check", c.UpdateTTL(alive(1), "", api.HealthPassing), "404", "Unknown check ID")
	if got := a.Calls("PUT /v1/agent/service/register"); got != 3 {
		t.Errorf("Calls() = %d registrations, want 3", got)
	}
}

// TestSidecar checks that a sidecar has its own service and checks, and goes with its service.
func TestSidecar(t *testing.T) {
	a := testconsul.Start(t, testconsul.Config{Manual: true})
	c := client(t, a, "")
	s := webService(1)
	s.Connect = &api.AgentServiceConnect{SidecarService: &api.AgentServiceRegistration{Port: 25000, Checks: api.AgentServiceChecks{
		{Name: "Connect Sidecar Aliasing " + web, AliasService: web},
		{Name: "Connect Sidecar Listening", TCP: "192.0.2.7:25000", Interval: "10s"}}}}
	must(t, c.Agent().ServiceRegister(s))
	proxy := web + "-sidecar-proxy"
	want := []string{web, proxy, alive(1), "service:" + proxy + ":1", "service:" + proxy + ":2"}
	slices.Sort(want)
	if got := a.IDs(); !slices.Equal(got, want) {
		t.Errorf("IDs() = %q, want %q", got, want)
	}
	for _, status := range []string{api.HealthCritical, api.HealthPassing} {
		must(t, c.Agent().UpdateTTL(alive(1), "", status))
		if got := a.Checks()["service:"+proxy+":1"].Status; got != status {
			t.Errorf("alias status = %q, want %q", got, status)
		}
	}
	list, _, err := c.Health().Connect("web", "", false, nil)
	if err != nil || len(list) != 1 || list[0].Service.Proxy.DestinationServiceID != web {
		t.Errorf("Connect() = %v, %v", list, err)
	}
	must(t, c.Agent().ServiceDeregister(web))
	if got := a.IDs(); len(got) > 0 {
		t.Errorf("IDs() = %q after the removal", got)
	}
}

// TestCatalog checks what the official client reads of two instances, one of which is critical.
func TestCatalog(t *testing.T) {
	a := testconsul.Start(t, testconsul.Config{Manual: true})
	c := client(t, a, "")
	must(t, c.Agent().ServiceRegister(&api.AgentServiceRegistration{Name: "db", Port: 5432, Tags: []string{"primary"},
		Check: &api.AgentServiceCheck{TTL: "10s", Status: api.HealthPassing}}))
	must(t, c.Agent().ServiceRegister(&api.AgentServiceRegistration{ID: "db2", Name: "db", Port: 5433,
		Check: &api.AgentServiceCheck{TTL: "10s"}}))
	type meta = api.QueryMeta
	for name, read := range map[string]struct {
		got  func() (any, *meta, error)
		want string
	}{
		"services": {func() (any, *meta, error) { v, m, err := c.Catalog().Services(nil); return v, m, err }, "map[consul:[] db:[primary]]"},
		"instances": {func() (any, *meta, error) {
			v, m, err := c.Catalog().Service("db", "", nil)
			return ports(v), m, err
		}, "[5432 5433]"},
		"tag": {func() (any, *meta, error) {
			v, m, err := c.Catalog().Service("db", "primary", nil)
			return ports(v), m, err
		}, "[5432]"},
		"unknown": {func() (any, *meta, error) {
			v, m, err := c.Catalog().Service("x", "", nil)
			return ports(v), m, err
		}, "[]"},
		"health": {func() (any, *meta, error) {
			v, m, err := c.Health().Service("db", "", false, nil)
			return status(v), m, err
		}, "[passing critical]"},
		"passing": {func() (any, *meta, error) {
			v, m, err := c.Health().Service("db", "", true, nil)
			return status(v), m, err
		}, "[passing]"},
		"nodes": {func() (any, *meta, error) { v, m, err := c.Catalog().Nodes(nil); return v[0].Node, m, err }, "node1"},
		"node": {func() (any, *meta, error) {
			v, m, err := c.Catalog().Node("node1", nil)
			return len(v.Services), m, err
		}, "2"},
		"datacenters": {func() (any, *meta, error) {
			v, err := c.Catalog().Datacenters()
			return v, &meta{LastIndex: 1, KnownLeader: true}, err
		}, "[dc1]"},
	} {
		v, m, err := read.got()
		if err != nil || fmt.Sprint(v) != read.want {
			t.Errorf("%s: %v, %v; want %s", name, v, err, read.want)
		} else if m.LastIndex == 0 || !m.KnownLeader {
			t.Errorf("%s: meta = %+v", name, m)
		}
	}
	_, _, err := c.Catalog().Services(&api.QueryOptions{Datacenter: "moon"})
	refused(t, "another datacenter", err, "500", "No path to datacenter")
	if l, err := c.Status().Leader(); err != nil || l != a.Addr() {
		t.Errorf("Leader() = %q, %v", l, err)
	}
}

func ports(list []*api.CatalogService) (out []int) {
	for _, s := range list {
		out = append(out, s.ServicePort)
	}
	return out
}

func status(list []*api.ServiceEntry) (out []string) {
	for _, e := range list {
		out = append(out, e.Checks.AggregatedStatus())
	}
	return out
}

// TestSelf checks the description of the agent, and that a test can change it.
func TestSelf(t *testing.T) {
	a := testconsul.Start(t, testconsul.Config{Node: "alpha", Version: "1.13.9", Self: func(s testconsul.Self) {
		s["DebugConfig"]["GRPCPort"] = -1
	}})
	self, err := client(t, a, "").Agent().Self()
	must(t, err)
	for at, want := range map[[2]string]any{{"Config", "NodeName"}: "alpha", {"Config", "Version"}: "1.13.9", {"Config", "Server"}: true,
		{"DebugConfig", "GRPCPort"}: -1.0, {"DebugConfig", "DNSPort"}: 8600.0, {"Config", "Datacenter"}: "dc1"} {
		if got := self[at[0]][at[1]]; got != want {
			t.Errorf("self %s = %v, want %v", at, got, want)
		}
	}
}

// TestStrict checks that each call that a correct client does not make is a fault.
func TestStrict(t *testing.T) {
	for name, c := range map[string]struct{ method, path, body, want string }{
		"unknown call":       {"GET", "/v1/agent/host", "", "unexpected call"},
		"unknown method":     {"POST", "/v1/agent/self", "", "unexpected call"},
		"unknown field":      {"PUT", "/v1/agent/service/register", `{"Name":"a","Colour":"red"}`, "unknown field"},
		"field of a check":   {"PUT", "/v1/agent/check/register", `{"Name":"a","TTL":"1s","Colour":"red"}`, "unknown field"},
		"field of a config":  {"PUT", "/v1/config", `{"Kind":"ingress-gateway","Colour":"red"}`, "Request decoding failed"},
		"no name":            {"PUT", "/v1/agent/service/register", `{"ID":"a"}`, "Missing service name"},
		"service ID":         {"PUT", "/v1/agent/service/register", `{"ID":"_nomad-task-1-web-http","Name":"web"}`, "is not one of service"},
		"ID of another name": {"PUT", "/v1/agent/service/register", `{"ID":"` + web + `","Name":"db"}`, "is not one of service"},
		"foreign ID": {"PUT", "/v1/agent/service/register", `{"ID":"web","Name":"web","Meta":{"external-source":"nomad"}}`,
			"does not begin with _nomad-"},
		"check ID":        {"PUT", "/v1/agent/check/register", `{"ID":"_nomad-check-12","Name":"a","TTL":"1s"}`, "is not one of an orchestrator"},
		"two types":       {"PUT", "/v1/agent/check/register", `{"Name":"a","TTL":"1s","TCP":"a:1","Interval":"1s"}`, "exactly one"},
		"no interval":     {"PUT", "/v1/agent/check/register", `{"Name":"a","TCP":"a:1"}`, "Interval must be"},
		"script":          {"PUT", "/v1/agent/check/register", `{"Name":"a","ScriptArgs":["true"],"Interval":"1s"}`, "does not support"},
		"duration":        {"PUT", "/v1/agent/check/register", `{"Name":"a","TTL":"soon"}`, "Invalid check: duration"},
		"status":          {"PUT", "/v1/agent/check/register", `{"Name":"a","TTL":"1s","Status":"fine"}`, "Bad check status"},
		"update status":   {"PUT", "/v1/agent/check/update/a", `{"Status":"fine"}`, "Invalid check status"},
		"unspecified":     {"PUT", "/v1/agent/service/register", `{"Name":"a","Address":"0.0.0.0"}`, "Invalid service address"},
		"weights":         {"PUT", "/v1/agent/service/register", `{"Name":"a","Weights":{"Passing":0,"Warning":0}}`, "Invalid Weights"},
		"meta":            {"PUT", "/v1/agent/service/register", `{"Name":"a","Meta":{"a.b":"c"}}`, "Invalid Service Meta"},
		"two values":      {"PUT", "/v1/agent/service/register", `{"Name":"a"}{"Name":"b"}`, "more than one value"},
		"namespace":       {"GET", "/v1/agent/services?ns=default", "", `query parameter "ns"`},
		"token in URL":    {"GET", "/v1/agent/services?token=5f8c9a3e", "", `query parameter "token"`},
		"filter":          {"GET", "/v1/agent/services?filter=a", "", `query parameter "filter"`},
		"index":           {"GET", "/v1/kv/a?index=x", "", "Invalid index"},
		"wait":            {"GET", "/v1/kv/a?index=1&wait=x", "", "Invalid wait time"},
		"field of method": {"PUT", "/v1/acl/auth-method", `{"Name":"a","Type":"jwt","Colour":"red"}`, "unknown field"},
		"config of method": {"PUT", "/v1/acl/auth-method", `{"Name":"a","Type":"jwt","Config":{"JWKSURL":"http://a","Colour":"red"}}`,
			`unknown key "Colour"`},
		"rules":  {"PUT", "/v1/acl/policy", `{"Name":"a","Rules":"service \"web\" { policy = \"all\" }"}`, "Failed to parse ACL rules"},
		"rules2": {"PUT", "/v1/acl/policy", `{"Name":"a","Rules":"operator = \"read\" nonsense"}`, "Failed to parse ACL rules"},
	} {
		t.Run(name, func(t *testing.T) {
			a := testconsul.Start(t, testconsul.Config{Manual: true, ACL: strings.HasPrefix(c.path, "/v1/acl")})
			a.Expect(c.want)
			r, err := http.NewRequest(c.method, "http://"+a.Addr()+c.path, strings.NewReader(c.body))
			must(t, err)
			r.Header.Set("X-Consul-Token", a.Management())
			resp, err := http.DefaultClient.Do(r)
			must(t, err)
			resp.Body.Close()
			if resp.StatusCode < 400 {
				t.Errorf("status = %s, want an error", resp.Status)
			}
			if got := a.Faults(); len(got) != 1 || strings.Contains(got[0], "5f8c9a3e,") {
				t.Errorf("Faults() = %q, want one", got)
			}
			if got := a.IDs(); len(got) > 0 {
				t.Errorf("IDs() = %q", got)
			}
		})
	}
}

// fakeTest records the errors of a test.
type fakeTest struct {
	testing.TB
	cleanups []func()
	errors   []string
}

func (f *fakeTest) Cleanup(fn func()) { f.cleanups = append(f.cleanups, fn) }
func (f *fakeTest) Error(args ...any) { f.errors = append(f.errors, fmt.Sprint(args...)) }

// TestFault_FailsTest checks that a fault fails the test at its end, and so does an expected one that did not occur.
func TestFault_FailsTest(t *testing.T) {
	f := &fakeTest{TB: t}
	a := testconsul.Start(f, testconsul.Config{})
	a.Expect("some other fault")
	_, err := client(t, a, "").Agent().Host()
	refused(t, "host", err, "404")
	for _, fn := range slices.Backward(f.cleanups) {
		fn()
	}
	want := []string{"testconsul: unexpected call GET /v1/agent/host", `testconsul: expected fault "some other fault" did not occur`}
	if !slices.Equal(f.errors, want) {
		t.Errorf("errors = %q, want %q", f.errors, want)
	}
}

// within returns the value of a channel, or fails the test.
func within[T any](t *testing.T, what string, ch <-chan T) (v T) {
	t.Helper()
	select {
	case v = <-ch:
	case <-time.After(time.Minute):
		t.Fatalf("%s: no result", what)
	}
	return v
}
