package discover_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/open-nomad/open-nomad/internal/consul"
	"github.com/open-nomad/open-nomad/internal/consul/discover"
	"github.com/open-nomad/open-nomad/internal/testconsul"
)

// at returns a finder of the service nomad.
func at(t *testing.T, address, token, tag string) discover.Finder {
	t.Helper()
	a, err := consul.New(consul.Settings{Name: consul.DefaultCluster, HTTP: api.Config{Address: address, Token: token}, Timeout: 5 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	return discover.Finder{Agent: a, Service: "nomad", Tag: tag}
}

// TestFinder finds instances by their tag, with a token that may read services, and reports that there are none.
func TestFinder(t *testing.T) {
	c := testconsul.Start(t, testconsul.Config{ACL: true})
	register, err := api.NewClient(&api.Config{Address: c.Addr(), Token: c.NewToken(t, `service_prefix "" { policy = "write" }`)})
	if err != nil {
		t.Fatal(err)
	}
	f := at(t, c.Addr(), c.NewToken(t, `service "nomad" { policy = "read" }
		node_prefix "" { policy = "read" }`), "serf")
	var none *discover.NoneError
	if _, err := f.All(t.Context()); !errors.As(err, &none) || !slices.Equal(none.Datacenters, []string{"dc1"}) ||
		!strings.Contains(err.Error(), `advertising service "nomad"`) {
		t.Errorf("without servers: %v", err)
	}
	for _, r := range []*api.AgentServiceRegistration{
		{ID: "a", Name: "nomad", Tags: []string{"serf"}, Address: "10.0.0.1", Port: 4648},
		{ID: "b", Name: "nomad", Tags: []string{"rpc"}, Address: "10.0.0.1", Port: 4647},
		{ID: "c", Name: "nomad", Tags: []string{"serf", "x"}, Address: "2001:db8::1", Port: 1},
		{ID: "d", Name: "other", Tags: []string{"serf"}, Address: "10.0.0.1", Port: 1},
	} {
		if err := register.Agent().ServiceRegister(r); err != nil {
			t.Fatal(err)
		}
	}
	for name, find := range map[string]func(context.Context) ([]string, error){"All": f.All, "First": f.First} {
		got, err := find(t.Context())
		if slices.Sort(got); err != nil || !slices.Equal(got, []string{"10.0.0.1:4648", "[2001:db8::1]:1"}) {
			t.Errorf("%s() = %q, %v", name, got, err)
		}
	}
}

// TestFinder_Datacenters checks the order and the limits of a search, which entries are left out, and that a failing
// datacenter does not hide the others.
func TestFinder_Datacenters(t *testing.T) {
	var asked []string
	dcs := []string{"empty", "broken", "odd"}
	for i := range 40 {
		dcs = append(dcs, fmt.Sprint("dc", i))
	}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		out := []api.CatalogService{}
		switch dc := q.Get("dc"); {
		case r.URL.Path == "/v1/catalog/datacenters":
			json.NewEncoder(w).Encode(dcs)
			return
		case q.Get("tag") != "rpc" || q.Get("near") != "_agent" || !q.Has("stale") || q.Get("wait") != "2000ms":
			t.Errorf("query %v", q)
		case dc == "broken":
			asked = append(asked, dc)
			http.Error(w, "s3cret", http.StatusInternalServerError)
			return
		case dc == "odd":
			asked = append(asked, dc)
			out = []api.CatalogService{{ServiceAddress: "0.0.0.0", ServicePort: 1}, {ServiceAddress: "a b", ServicePort: 1},
				{ServiceAddress: "10.0.0.1", ServicePort: 70000}, {ServiceAddress: "10.0.0.1"}, {ServicePort: 1},
				{ServiceID: "_nomad-task-1-group-g-nomad-rpc", ServiceAddress: "10.0.0.1", ServicePort: 1},
				{ServiceAddress: "10.0.0.1/x", ServicePort: 1}, {ServiceAddress: strings.Repeat("a", 300), ServicePort: 1},
				{Address: "node.example", ServicePort: 4647}, {ServiceAddress: "224.0.0.1", ServicePort: 1}}
		default:
			if asked = append(asked, dc); dc != "empty" {
				for i := range 30 {
					out = append(out, api.CatalogService{ServiceAddress: dc, ServicePort: 1 + i})
				}
			}
		}
		json.NewEncoder(w).Encode(out)
	}))
	defer s.Close()
	f := at(t, s.URL, "", "rpc")
	got, err := f.First(t.Context())
	if err != nil || !slices.Equal(got, []string{"node.example:4647"}) || !slices.Equal(asked, []string{"empty", "broken", "odd"}) {
		t.Errorf("First() = %q, %v after asking %q", got, err, asked)
	}
	asked = nil
	if got, err = f.All(t.Context()); err != nil || len(got) != discover.MaxServers || len(asked) != 7 {
		t.Errorf("All() = %d addresses, %v after asking %d datacenters", len(got), err, len(asked))
	}
	dcs = slices.Repeat([]string{"empty"}, 40)
	asked = nil
	if _, err = f.All(t.Context()); err == nil || len(asked) != discover.MaxDatacenters {
		t.Errorf("asked %d datacenters, %v", len(asked), err)
	}
	dcs = []string{"broken"}
	if _, err = f.All(t.Context()); err == nil || strings.Contains(err.Error(), "s3cret") || !strings.Contains(err.Error(), "500") {
		t.Errorf("error = %v", err)
	}
}
