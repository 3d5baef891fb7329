package ecosystem

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/consul-template/config"
	"github.com/hashicorp/consul-template/manager"
	consulapi "github.com/hashicorp/consul/api"
	nomadapi "github.com/hashicorp/nomad/api"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/discovery"
	"github.com/prometheus/prometheus/discovery/consul"
	"github.com/prometheus/prometheus/discovery/targetgroup"
	ptypes "github.com/traefik/paerser/types"
	"github.com/traefik/traefik/v3/pkg/config/dynamic"
	"github.com/traefik/traefik/v3/pkg/provider/consulcatalog"
)

// Unmodified clients of Consul use the Consul API of one agent.
func TestConsulClients(t *testing.T) {
	c, address := agentWithConsul(t)
	if _, _, err := c.Variables().Create(&nomadapi.Variable{Path: "consul/app/db/host",
		Items: nomadapi.VariableItems{"value": "db1"}}, nil); err != nil {
		t.Fatal(err)
	}
	t.Run("sdk", func(t *testing.T) { sdkReads(t, c, address) })
	t.Run("blocking", func(t *testing.T) { sdkBlocks(t, c, address) })
	t.Run("writes", func(t *testing.T) { sdkWrites(t, address) })
	t.Run("traefik", func(t *testing.T) {
		follows(t, c, func(t *testing.T, watch bool) func() *dynamic.HTTPConfiguration {
			return catalogProvider(t, address, watch)
		})
	})
	t.Run("prometheus", func(t *testing.T) { prometheusFollows(t, c, address) })
	t.Run("consul-template", func(t *testing.T) { templateFollows(t, c, address) })
}

// sdk returns a client of Consul.
func sdk(t *testing.T, address string) *consulapi.Client {
	t.Helper()
	c, err := consulapi.NewClient(&consulapi.Config{Address: address})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// start registers the job web until the test ends, and returns its address.
func start(t *testing.T, c *nomadapi.Client) (address string) {
	t.Helper()
	if _, _, err := c.Jobs().Register(web(), nil); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stop(t, c) })
	await(t, "the registration", func() bool {
		list, _, err := c.Services().Get("web", nil)
		if err != nil || len(list) != 1 {
			return false
		}
		address = net.JoinHostPort(list[0].Address, fmt.Sprint(list[0].Port))
		return true
	})
	return address
}

// stop purges the job web and waits until it has no registration.
func stop(t *testing.T, c *nomadapi.Client) {
	t.Helper()
	if _, _, err := c.Jobs().Deregister("web", true, nil); err != nil && !strings.Contains(err.Error(), "not found") {
		t.Fatal(err)
	}
	await(t, "the end of the registration", func() bool {
		list, _, err := c.Services().Get("web", nil)
		return err == nil && len(list) == 0
	})
}

func sdkReads(t *testing.T, n *nomadapi.Client, address string) {
	want := start(t, n)
	c := sdk(t, address)
	services, meta, err := c.Catalog().Services(nil)
	if err != nil || len(services["web"]) != 2 || meta.LastIndex == 0 || !meta.KnownLeader {
		t.Errorf("services = %v, %+v, %v", services, meta, err)
	}
	rows, _, err := c.Catalog().Service("web", "traefik.enable=true", &consulapi.QueryOptions{AllowStale: true})
	if err != nil || len(rows) != 1 || net.JoinHostPort(rows[0].ServiceAddress, fmt.Sprint(rows[0].ServicePort)) != want {
		t.Errorf("instances = %v, %v, want one at %s", rows, err, want)
	}
	entries, _, err := c.Health().Service("web", "", true, &consulapi.QueryOptions{Filter: `Service.Service == "web"`, Near: "_agent"})
	if err != nil || len(entries) != 1 || entries[0].Checks.AggregatedStatus() != consulapi.HealthPassing {
		t.Fatalf("entries = %v, %v", entries, err)
	}
	self, err := c.Agent().Self()
	if err != nil || self["Config"]["NodeName"] != entries[0].Node.Node {
		t.Errorf("self = %v, %v, want the node %s", self, err, entries[0].Node.Node)
	}
	own, err := c.Agent().Services()
	if err != nil || own[entries[0].Service.ID] == nil {
		t.Errorf("services of the agent = %v, %v", own, err)
	}
	if status, _, err := c.Agent().AgentHealthServiceByName("web"); err != nil || status != consulapi.HealthPassing {
		t.Errorf("health = %s, %v", status, err)
	}
	nodes, _, err := c.Catalog().Nodes(nil)
	if err != nil || len(nodes) != 1 || nodes[0].ID != entries[0].Node.ID {
		t.Errorf("nodes = %v, %v", nodes, err)
	}
	node, _, err := c.Catalog().Node(nodes[0].Node, nil)
	if err != nil || node == nil || len(node.Services) != 1 {
		t.Errorf("node = %v, %v", node, err)
	}
	if list, _, err := c.Health().State(consulapi.HealthAny, nil); err != nil || len(list) != 1 || list[0].CheckID != "serfHealth" {
		t.Errorf("checks = %v, %v", list, err)
	}
	if leader, err := c.Status().Leader(); err != nil || leader == "" {
		t.Errorf("leader = %q, %v", leader, err)
	}
	pair, _, err := c.KV().Get("app/db/host", nil)
	if err != nil || pair == nil || string(pair.Value) != "db1" {
		t.Errorf("key = %v, %v", pair, err)
	}
	if pair, meta, err := c.KV().Get("absent", nil); err != nil || pair != nil || meta.LastIndex == 0 {
		t.Errorf("absent key = %v, %v", pair, err)
	}
	if list, _, err := c.KV().List("app/", nil); err != nil || len(list) != 1 {
		t.Errorf("keys = %v, %v", list, err)
	}
	if list, _, err := c.KV().Keys("app/", "/", nil); err != nil || len(list) != 1 || list[0] != "app/db/" {
		t.Errorf("names = %v, %v", list, err)
	}
}

// sdkBlocks checks that a blocking query of a service ends when its job ends, and not before.
func sdkBlocks(t *testing.T, n *nomadapi.Client, address string) {
	start(t, n)
	c := sdk(t, address)
	list, meta, err := c.Health().Service("web", "", true, nil)
	if err != nil || len(list) != 1 {
		t.Fatalf("entries = %v, %v", list, err)
	}
	type result struct {
		rows int
		err  error
	}
	ended := make(chan result, 1)
	go func() {
		list, _, err := c.Health().Service("web", "", true, &consulapi.QueryOptions{WaitIndex: meta.LastIndex, WaitTime: time.Minute})
		ended <- result{len(list), err}
	}()
	select {
	case r := <-ended:
		t.Fatalf("ended without a change: %+v", r)
	case <-time.After(2 * time.Second):
	}
	stop(t, n)
	select {
	case r := <-ended:
		if r.err != nil || r.rows != 0 {
			t.Errorf("%+v", r)
		}
	case <-time.After(30 * time.Second):
		t.Error("the query did not end within 30 s of the change")
	}
}

func sdkWrites(t *testing.T, address string) {
	c := sdk(t, address)
	_, put := c.KV().Put(&consulapi.KVPair{Key: "a", Value: []byte("b")}, nil)
	_, _, session := c.Session().Create(nil, nil)
	for name, err := range map[string]error{
		"nomad var put": put, "nomad job run": c.Agent().ServiceRegister(&consulapi.AgentServiceRegistration{Name: "x"}),
		"nomad var lock": session,
	} {
		if err == nil || !strings.Contains(err.Error(), "501") || !strings.Contains(err.Error(), name) {
			t.Errorf("write: %v, want 501 and %q", err, name)
		}
	}
}

// catalogProvider runs Traefik's provider of Consul.
func catalogProvider(t *testing.T, address string, watch bool) func() *dynamic.HTTPConfiguration {
	t.Helper()
	var b consulcatalog.ProviderBuilder
	b.SetDefaults()
	b.Endpoint.Address, b.ExposedByDefault, b.Watch = address, false, watch
	b.RefreshInterval = ptypes.Duration(200 * time.Millisecond)
	return runProvider(t, b.BuildProviders()[0])
}

func prometheusFollows(t *testing.T, n *nomadapi.Client, address string) {
	conf := consul.DefaultSDConfig
	conf.Server, conf.ServiceTags = address, []string{"traefik.enable=true"}
	conf.RefreshInterval = model.Duration(200 * time.Millisecond)
	registry := prometheus.NewRegistry()
	metrics := conf.NewDiscovererMetrics(registry, discovery.NewRefreshMetrics(registry))
	d, err := conf.NewDiscoverer(discovery.DiscovererOptions{Logger: slog.New(slog.DiscardHandler), Metrics: metrics})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	groups, done := make(chan []*targetgroup.Group), make(chan struct{})
	go func() {
		defer close(done)
		d.Run(ctx, groups)
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
	targets := map[string]string{} // by source: address
	next := func(what string, holds func() bool) {
		t.Helper()
		for limit := time.After(patience); !holds(); {
			select {
			case list := <-groups:
				for _, g := range list {
					delete(targets, g.Source)
					for _, target := range g.Targets {
						targets[g.Source] = string(target["__address__"])
					}
				}
			case <-limit:
				t.Fatalf("not within %s: %s: %v", patience, what, targets)
			}
		}
	}
	want := start(t, n)
	next("Prometheus has the target "+want, func() bool {
		for _, target := range targets {
			if target == want {
				return true
			}
		}
		return false
	})
	stop(t, n)
	next("Prometheus has no target", func() bool { return len(targets) == 0 })
}

func templateFollows(t *testing.T, n *nomadapi.Client, address string) {
	file := filepath.Join(t.TempDir(), "out.txt")
	conf, err := config.Parse(fmt.Sprintf(`consul { address = %q }
template {
  contents    = "{{ range service \"web\" }}{{ .Address }}:{{ .Port }} {{ end }}{{ key \"app/db/host\" }}{{ range ls \"app/db\" }} {{ .Key }}{{ end }}"
  destination = %q
}`, address, file))
	if err != nil {
		t.Fatal(err)
	}
	conf = config.DefaultConfig().Merge(conf)
	conf.Finalize()
	runner, err := manager.NewRunner(conf, false)
	if err != nil {
		t.Fatal(err)
	}
	go runner.Start()
	t.Cleanup(runner.Stop)
	has := func(want string) func() bool {
		return func() bool {
			text, err := os.ReadFile(file)
			return err == nil && string(text) == want
		}
	}
	await(t, "the key in the file", has("db1 host"))
	want := start(t, n)
	await(t, "the service in the file", has(want+" db1 host"))
	if _, _, err := n.Variables().Update(&nomadapi.Variable{Path: "consul/app/db/host",
		Items: nomadapi.VariableItems{"value": "db2"}}, nil); err != nil {
		t.Fatal(err)
	}
	await(t, "the new value in the file", has(want+" db2 host"))
	stop(t, n)
	await(t, "no service in the file", has("db2 host"))
}
