package testconsul_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/consul-template/dependency"
	"github.com/hashicorp/consul/api"

	"github.com/open-nomad/open-nomad/internal/testconsul"
)

// TestConsulTemplate checks that the queries of consul-template get what they expect.
func TestConsulTemplate(t *testing.T) {
	a := testconsul.Start(t, testconsul.Config{Manual: true, ACL: true})
	root := client(t, a, a.Management()).Agent()
	for i, status := range []string{api.HealthPassing, api.HealthCritical, api.HealthPassing} {
		must(t, root.ServiceRegister(&api.AgentServiceRegistration{ID: fmt.Sprint("w", i), Name: "web", Port: 80 + i,
			Tags: []string{fmt.Sprint("t", i)}, Check: &api.AgentServiceCheck{TTL: "1h", Status: status}}))
	}
	a.PutKey("app/a", "1")
	a.PutKey("app/b", "2")
	clients := dependency.NewClientSet()
	must(t, clients.CreateConsulClient(&dependency.CreateConsulClientInput{Address: a.Addr(), Token: a.NewToken(t,
		`service_prefix "" { policy = "read" } node_prefix "" { policy = "read" } key_prefix "app" { policy = "read" }`)}))
	t.Cleanup(clients.Stop)
	for _, c := range []struct {
		what string
		make func() (dependency.Dependency, error)
		want string // "" for an error
	}{
		{"key", func() (dependency.Dependency, error) { return dependency.NewKVGetQuery("app/a") }, "1"},
		{"missing key", func() (dependency.Dependency, error) { return dependency.NewKVGetQuery("app/x") }, "<nil>"},
		{"forbidden key", func() (dependency.Dependency, error) { return dependency.NewKVGetQuery("secret") }, ""},
		{"ls", func() (dependency.Dependency, error) { return dependency.NewKVListQuery("app") }, "a=1 b=2"},
		{"keys", func() (dependency.Dependency, error) { return dependency.NewKVKeysQuery("app") }, "[a b]"},
		{"service", func() (dependency.Dependency, error) { return dependency.NewHealthServiceQuery("web") }, "80 82"},
		{"service by tag", func() (dependency.Dependency, error) { return dependency.NewHealthServiceQuery("t2.web") }, "82"},
		{"any", func() (dependency.Dependency, error) { return dependency.NewHealthServiceQuery("web|any") }, "80 81 82"},
		{"near", func() (dependency.Dependency, error) {
			return dependency.NewHealthServiceQuery("web@dc1~_agent|critical")
		}, "81"},
		{"connect", func() (dependency.Dependency, error) { return dependency.NewHealthConnectQuery("web") }, ""},
		{"services", func() (dependency.Dependency, error) { return dependency.NewCatalogServicesQuery("") }, "consul web"},
		{"instances", func() (dependency.Dependency, error) { return dependency.NewCatalogServiceQuery("web") }, "w0 w1 w2"},
		{"nodes", func() (dependency.Dependency, error) { return dependency.NewCatalogNodesQuery("") }, "node1"},
		{"node", func() (dependency.Dependency, error) { return dependency.NewCatalogNodeQuery("node1") }, "w0 w1 w2"},
		{"datacenters", func() (dependency.Dependency, error) { return dependency.NewCatalogDatacentersQuery(false) }, "[dc1]"},
		{"roots", func() (dependency.Dependency, error) { return dependency.NewConnectCAQuery(), nil }, ""},
		{"leaf", func() (dependency.Dependency, error) { return dependency.NewConnectLeafQuery("web"), nil }, ""},
	} {
		d, err := c.make()
		must(t, err)
		v, meta, err := d.Fetch(clients, &dependency.QueryOptions{AllowStale: true})
		switch got := shown(v); {
		case c.what == "connect":
			if err != nil || got != "" {
				t.Errorf("connect: %q, %v", got, err)
			}
		case (err == nil) != (c.want != ""):
			t.Errorf("%s: %q, %v; want %q", c.what, got, err, c.want)
		case err == nil && got != c.want:
			t.Errorf("%s: %q, want %q", c.what, got, c.want)
		case err == nil && meta.LastIndex == 0 && c.what != "datacenters":
			t.Errorf("%s: index = 0", c.what)
		}
	}
	a.Expect("Permission denied")
	waits(t, a, clients)
}

// waits checks that a query with an index returns after a change.
func waits(t *testing.T, a *testconsul.Agent, clients *dependency.ClientSet) {
	d, err := dependency.NewKVGetQuery("app/late")
	must(t, err)
	_, meta, err := d.Fetch(clients, nil)
	must(t, err)
	got := make(chan any, 1)
	go func() {
		v, _, err := d.Fetch(clients, &dependency.QueryOptions{WaitIndex: meta.LastIndex, WaitTime: time.Minute})
		if err != nil {
			v = err
		}
		got <- v
	}()
	a.PutKey("app/late", "here")
	if v := within(t, "late key", got); shown(v) != "here" {
		t.Errorf("late key = %v", v)
	}
}

// shown returns the part of an answer that the test compares.
func shown(v any) string {
	var out []string
	switch v := v.(type) {
	case []*dependency.KeyPair:
		for _, p := range v {
			out = append(out, p.Key+"="+p.Value)
		}
	case []*dependency.HealthService:
		for _, s := range v {
			out = append(out, fmt.Sprint(s.Port))
		}
	case []*dependency.CatalogSnippet:
		for _, s := range v {
			out = append(out, s.Name)
		}
	case []*dependency.CatalogService:
		for _, s := range v {
			out = append(out, s.ServiceID)
		}
	case []*dependency.Node:
		for _, n := range v {
			out = append(out, n.Node)
		}
	case *dependency.CatalogNode:
		for _, s := range v.Services {
			out = append(out, s.ID)
		}
	default:
		return fmt.Sprint(v)
	}
	return strings.Join(out, " ")
}
