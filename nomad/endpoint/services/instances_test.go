package services_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/catalog"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/server/servertest"
)

// watch calls ServiceRegistration.Watch as a node.
func watch(n *servertest.FakeNode, wait time.Duration, services ...message.ServiceVersion) (*message.ServiceWatchResponse, error) {
	out := new(message.ServiceWatchResponse)
	err := n.Call("ServiceRegistration.Watch", &message.ServiceWatchRequest{Services: services,
		QueryOptions: message.QueryOptions{Region: "global", AuthToken: n.JWT, MaxQueryTime: wait, AllowStale: true}}, out)
	return out, err
}

func TestInstances(t *testing.T) {
	g := servertest.StartACL(t, nil)
	n := servertest.Join(t, g.Server.RPCAddr())
	g.Must("Namespace.UpsertNamespaces", &message.NamespaceUpsertRequest{Namespaces: []*nomad.Namespace{{Name: "a"}, {Name: "b"}}}, nil)
	for _, ns := range []string{"a", "b"} {
		job := servingJob("j", 1)
		job.Namespace = ns
		g.Must("Job.Register", &message.JobRegisterRequest{Job: job}, nil)
	}
	var workload string
	for _, a := range n.Allocs(2) {
		if err := upsertServices(n, registration(a, "web"), registration(a, "db")); err != nil {
			t.Fatal(err)
		}
		if a.Namespace == "a" {
			workload = a.SignedIdentities["t"]
		}
	}
	reader := g.TokenWith(`namespace "a" { policy = "read" }`)
	for _, c := range []struct{ who, secret, ns, name, node, want string }{
		{"reader", reader, "a", "web", "", "[a/web]"},
		{"reader", reader, "a", "", "", "[a/db a/web]"},
		{"reader", reader, "b", "web", "", "denied"},
		{"reader", reader, "*", "web", "", "[a/web]"},
		{"nobody", "", "a", "web", "", "denied"},
		{"nobody", "", "*", "", "", "[]"},
		{"workload", workload, "b", "web", "", "[b/web]"},
		{"workload", workload, "*", "web", "", "[]"},
		{"node", n.JWT, "*", "web", "", "[a/web b/web]"},
		{"root", g.Root, "*", "web", n.Node.ID, "[a/web b/web]"},
		{"root", g.Root, "a", "", nomad.NewID(), "[]"},
	} {
		var out message.ServiceInstancesResponse
		err := g.Call(c.secret, "ServiceRegistration.Instances", &message.ServiceInstancesRequest{ServiceName: c.name, NodeID: c.node,
			QueryOptions: message.QueryOptions{Namespace: c.ns}}, &out)
		got := []string{}
		for _, i := range out.Instances {
			got = append(got, i.Namespace+"/"+i.ServiceName)
			servertest.Equal(t, "name of the node", i.NodeName, n.Node.Name)
		}
		text := fmt.Sprint(got)
		if errors.Is(err, apierror.ErrPermissionDenied) {
			text = "denied"
		} else if err != nil {
			t.Errorf("%s: %v", c.who, err)
		}
		if text != c.want {
			t.Errorf("%s reads %q in %q: %s, want %s", c.who, c.name, c.ns, text, c.want)
		}
	}
}

func TestWatch(t *testing.T) {
	s, _ := servertest.Start(t, nil)
	n := servertest.Join(t, s.RPCAddr())
	servertest.Register(t, s, servingJob("j", 1))
	a := n.Allocs(1)[0]
	none, err := watch(n, time.Minute, message.ServiceVersion{Name: "web"}, message.ServiceVersion{Name: "db"})
	if err != nil || len(none.Services) != 2 || none.Services[0].Version == "" || len(none.Services[0].Instances) != 0 {
		t.Fatalf("services without registrations: %+v, %v", none, err)
	}
	known := []message.ServiceVersion{{Name: "web", Version: none.Services[0].Version}, {Name: "db", Version: none.Services[1].Version}}
	if same, err := watch(n, time.Millisecond, known...); err != nil || len(same.Services) != 0 || same.Index == 0 {
		t.Errorf("the same versions: %+v, %v", same, err)
	}
	answer := make(chan *message.ServiceWatchResponse, 1)
	go func() {
		out, err := watch(n, time.Minute, known...)
		if err != nil {
			t.Errorf("a watch that waits: %v", err)
		}
		answer <- out
	}()
	critical := func(r *catalog.Registration) { r.Status = catalog.Critical }
	if err := upsertServices(n, registration(a, "web")); err != nil {
		t.Fatal(err)
	}
	first := <-answer
	if len(first.Services) != 1 || first.Services[0].Name != "web" || len(first.Services[0].Instances) != 1 {
		t.Fatalf("after a registration: %+v", first.Services)
	}
	known[0].Version = first.Services[0].Version
	if err := upsertServices(n, registration(a, "web", critical)); err != nil {
		t.Fatal(err)
	}
	second, err := watch(n, time.Minute, known...)
	if err != nil || len(second.Services) != 1 {
		t.Fatalf("after a change of health: %+v, %v", second, err)
	}
	was, is := first.Services[0].Instances[0], second.Services[0].Instances[0]
	servertest.Equal(t, "status", is.Status, catalog.Critical)
	servertest.Equal(t, "CreateIndex", is.CreateIndex, was.CreateIndex)
	if is.ModifyIndex <= was.ModifyIndex {
		t.Errorf("ModifyIndex = %d, want more than %d", is.ModifyIndex, was.ModifyIndex)
	}
}

func TestWatch_Limits(t *testing.T) {
	s, _ := servertest.Start(t, nil)
	n := servertest.Join(t, s.RPCAddr())
	for want, services := range map[string][]message.ServiceVersion{
		"want 1 to 4096":            nil,
		"4097 services":             make([]message.ServiceVersion, 4097),
		"invalid service name":      {{Name: strings.Repeat("w", 64)}},
		"invalid namespace":         {{Name: "web", Namespace: strings.Repeat("n", 129)}},
		"invalid version":           {{Name: "web", Version: strings.Repeat("v", 65)}},
		"duplicate service \"web\"": {{Name: "web"}, {Name: "web", Namespace: "default"}},
	} {
		if _, err := watch(n, time.Minute, services...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%d services: %v, want %q", len(services), err, want)
		}
	}
	many := make([]message.ServiceVersion, 4096)
	for i := range many {
		many[i].Name = fmt.Sprint("s", i)
	}
	out, err := watch(n, time.Minute, many...)
	if err != nil || len(out.Services) != len(many) {
		t.Fatalf("%d of %d services, %v", len(out.Services), len(many), err)
	}
}
