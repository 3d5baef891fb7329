package consulapi_test

import (
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/open-nomad/open-nomad/internal/testnet"
)

// sdk returns Consul's own client of a server of the region.
func sdk(t *testing.T, r *region) *api.Client {
	t.Helper()
	address := net.JoinHostPort(testnet.Take(t).IP(), "8500")
	if line := <-serve(t, r, address); !strings.Contains(line, "listens") {
		t.Fatalf("log: %s", line)
	}
	c, err := api.NewClient(&api.Config{Address: address, Token: secret})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// names returns the service IDs of entries.
func names(list []*api.ServiceEntry) (out []string) {
	for _, e := range list {
		out = append(out, e.Service.ID+"="+e.Checks.AggregatedStatus())
	}
	return out
}

// Consul's own client decodes every answer.
func TestSDK(t *testing.T) {
	c := sdk(t, newRegion())
	for _, check := range []struct {
		name string
		read func() (any, error)
		want string
	}{
		{"services", func() (any, error) { got, _, err := c.Catalog().Services(nil); return got, err }, "map[web:[V1 prod v1 v2]]"},
		{"service", func() (any, error) {
			got, _, err := c.Catalog().Service("web", "prod", nil)
			if len(got) == 0 {
				return nil, err
			}
			return fmt.Sprintln(got[0].ServiceID, got[0].Node, got[0].ServicePort, got[0].ServiceWeights), err
		}, "w1 alpha 8080 {1 1}\n"},
		{"health", func() (any, error) { got, _, err := c.Health().Service("web", "", false, nil); return names(got), err },
			"[w1=passing w3=critical w2=critical]"},
		{"passing", func() (any, error) {
			got, _, err := c.Health().ServiceMultipleTags("web", []string{"v1", "prod"}, true, nil)
			return names(got), err
		}, "[w1=passing]"},
		{"connect", func() (any, error) { got, _, err := c.Health().Connect("web", "", false, nil); return names(got), err }, "[]"},
		{"state", func() (any, error) { got, _, err := c.Health().State("any", nil); return len(got), err }, "3"},
		{"checks", func() (any, error) { got, _, err := c.Health().Checks("web", nil); return got[0].Output, err }, "refused"},
		{"health of a node", func() (any, error) { got, _, err := c.Health().Node("alpha", nil); return len(got), err }, "2"},
		{"nodes", func() (any, error) { got, _, err := c.Catalog().Nodes(nil); return got[1].Meta, err }, "map[rack:r2]"},
		{"node", func() (any, error) { got, _, err := c.Catalog().Node("alpha", nil); return len(got.Services), err }, "2"},
		{"absent node", func() (any, error) { got, _, err := c.Catalog().Node("absent", nil); return got == nil, err }, "true"},
		{"services of a node", func() (any, error) {
			got, _, err := c.Catalog().NodeServiceList("alpha", nil)
			return len(got.Services), err
		}, "2"},
		{"datacenters", func() (any, error) { return c.Catalog().Datacenters() }, "[dc1]"},
		{"agent services", func() (any, error) { got, err := c.Agent().Services(); return len(got), err }, "2"},
		{"agent checks", func() (any, error) { got, err := c.Agent().Checks(); return got["c1"].Status, err }, "critical"},
		{"agent service", func() (any, error) { got, _, err := c.Agent().Service("w1", nil); return got.Tags, err }, "[v1 prod]"},
		{"agent health", func() (any, error) { got, _, err := c.Agent().AgentHealthServiceByName("web"); return got, err }, "critical"},
		{"agent health by ID", func() (any, error) { got, _, err := c.Agent().AgentHealthServiceByID("w1"); return got, err }, "passing"},
		{"members", func() (any, error) { got, err := c.Agent().Members(false); return len(got), err }, "2"},
		{"leader", func() (any, error) { return c.Status().Leader() }, "10.0.0.9:4647"},
		{"peers", func() (any, error) { return c.Status().Peers() }, "[10.0.0.9:4647]"},
		{"key", func() (any, error) { got, _, err := c.KV().Get("app/db/host", nil); return string(got.Value), err }, "db1"},
		{"absent key", func() (any, error) { got, _, err := c.KV().Get("absent", nil); return got == nil, err }, "true"},
		{"tree", func() (any, error) { got, _, err := c.KV().List("app/", nil); return len(got), err }, "3"},
		{"keys", func() (any, error) { got, _, err := c.KV().Keys("app/", "/", nil); return got, err }, "[app/db/ app/name]"},
		{"coordinates", func() (any, error) { got, _, err := c.Coordinate().Nodes(nil); return len(got), err }, "0"},
	} {
		t.Run(check.name, func(t *testing.T) {
			got, err := check.read()
			if err != nil || fmt.Sprint(got) != check.want {
				t.Errorf("%v, %v, want %s", got, err, check.want)
			}
		})
	}
}

// A blocking query of Consul's client ends with the change, and writes say what replaces them.
func TestSDK_BlockingAndWrites(t *testing.T) {
	r := newRegion()
	c := sdk(t, r)
	_, meta, err := c.Health().Service("web", "", true, nil)
	if err != nil || meta.LastIndex != 7 || !meta.KnownLeader {
		t.Fatalf("%+v, %v", meta, err)
	}
	before := r.made()
	ended := make(chan string, 1)
	go func() {
		list, meta, err := c.Health().Service("web", "", true, &api.QueryOptions{WaitIndex: meta.LastIndex, WaitTime: time.Minute})
		ended <- fmt.Sprint(names(list), meta.LastIndex, err)
	}()
	r.await(t, before)
	r.change(func() { r.rows[0].NodeStatus = "ready" })
	if got := <-ended; got != "[w1=passing w2=passing] 8 <nil>" {
		t.Errorf("the blocking query: %s", got)
	}
	_, put := c.KV().Put(&api.KVPair{Key: "a", Value: []byte("b")}, nil)
	for want, err := range map[string]error{
		"nomad var put":  put,
		"nomad job run":  c.Agent().ServiceRegister(&api.AgentServiceRegistration{Name: "x"}),
		"nomad job stop": c.Agent().ServiceDeregister("x"),
	} {
		if err == nil || !strings.Contains(err.Error(), "501") || !strings.Contains(err.Error(), want) {
			t.Errorf("write: %v, want 501 and %q", err, want)
		}
	}
}
