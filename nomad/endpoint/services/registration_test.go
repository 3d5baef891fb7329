package services_test

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/catalog"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/server"
	"github.com/open-nomad/open-nomad/nomad/server/servertest"
)

// servingJob returns a job whose group has the services web and, interpolated, node-* and *-metrics.
func servingJob(id string, count int) *nomad.Job {
	j := servertest.BatchJob(id, count)
	j.TaskGroups[0].Services = []*nomad.Service{{Name: "web", Provider: "nomad", PortLabel: "8080"},
		{Name: "node-${node.unique.name}", Provider: "nomad"},
		{Name: "${node.unique.name}-metrics", Provider: "nomad"}}
	j.TaskGroups[0].Tasks[0].Services = []*nomad.Service{{Name: "db", Provider: "nomad"}}
	return j
}

// registration returns the registration of a service of an allocation, as its client writes it.
func registration(a *nomad.Allocation, name string, edit ...func(*catalog.Registration)) *catalog.Registration {
	r := &catalog.Registration{ID: catalog.ID(a.ID, "t", name, "x"), ServiceName: name, Namespace: a.Namespace,
		NodeID:     a.NodeID,
		Datacenter: "lies", JobID: a.JobID, AllocID: a.ID, Tags: []string{"v1"}, Address: "10.0.0.1", Port: 8080}
	for _, e := range edit {
		e(r)
	}
	return r
}

func upsertServices(n *servertest.FakeNode, all ...*catalog.Registration) error {
	return n.Call("ServiceRegistration.Upsert", &message.ServiceRegistrationUpsertRequest{Services: all, WriteRequest: n.Write(n.JWT)},
		&message.ServiceRegistrationUpsertResponse{})
}

func deleteService(n *servertest.FakeNode, ns, id string) error {
	req := &message.ServiceRegistrationDeleteByIDRequest{ID: id, WriteRequest: n.Write(n.JWT)}
	req.Namespace = ns
	return n.Call("ServiceRegistration.DeleteByID", req, &message.ServiceRegistrationDeleteByIDResponse{})
}

func byName(ns, name string) *message.ServiceRegistrationByNameRequest {
	return &message.ServiceRegistrationByNameRequest{ServiceName: name, QueryOptions: message.QueryOptions{Region: "global", Namespace: ns}}
}

func TestServices_RegisterAndRemove(t *testing.T) {
	s, _ := servertest.Start(t, nil)
	n := servertest.Join(t, s.RPCAddr())
	servertest.Register(t, s, servingJob("j", 2))
	allocs := n.Allocs(2)
	find := func(name string) message.ServiceRegistrationByNameResponse {
		return servertest.Read[message.ServiceRegistrationByNameResponse](t, s, "ServiceRegistration.GetService", byName("default", name))
	}
	if got := find("web"); got.Services == nil || len(got.Services) != 0 || got.Index == 0 {
		t.Errorf("an unknown service has %+v", got)
	}
	if err := upsertServices(n, registration(allocs[0], "web"), registration(allocs[1], "web",
		func(r *catalog.Registration) { r.Tags = []string{"v2", "v1"} }), registration(allocs[0], "node-fake")); err != nil {
		t.Fatal(err)
	}
	got := find("web")
	if len(got.Services) != 2 || got.Services[0].Datacenter != n.Node.Datacenter || got.Services[0].CreateIndex != got.Index {
		t.Fatalf("the service has %+v", got)
	}
	list := servertest.Read[message.ServiceRegistrationListResponse](t, s, "ServiceRegistration.List",
		&message.ServiceRegistrationListRequest{QueryOptions: servertest.Global})
	if len(list.Services) != 1 || list.Services[0].Namespace != "default" || len(list.Services[0].Services) != 2 ||
		list.Services[0].Services[0].ServiceName != "node-fake" || !slices.Equal(list.Services[0].Services[1].Tags, []string{"v1", "v2"}) {
		t.Errorf("services %+v", list.Services)
	}
	// An equal registration does not change the index, so that readers sleep on.
	if err := upsertServices(n, registration(allocs[0], "web")); err != nil || find("web").Index != got.Index {
		t.Errorf("registering again: %v, index %d, want %d", err, find("web").Index, got.Index)
	}

	// Pages, filters and choices.
	paged := byName("default", "web")
	paged.PerPage = 1
	first := servertest.Read[message.ServiceRegistrationByNameResponse](t, s, "ServiceRegistration.GetService", paged)
	paged.NextToken = first.NextToken
	second := servertest.Read[message.ServiceRegistrationByNameResponse](t, s, "ServiceRegistration.GetService", paged)
	servertest.Equal(t, "services of the first page", len(first.Services), 1)
	servertest.Equal(t, "token of the next page", first.NextToken, "default."+got.Services[1].ID)
	servertest.Equal(t, "services of the second page", len(second.Services), 1)
	servertest.Equal(t, "token after the last page", second.NextToken, "")
	filtered := byName("default", "web")
	filtered.Filter = `"v2" in Tags`
	if got := servertest.Read[message.ServiceRegistrationByNameResponse](t, s, "ServiceRegistration.GetService",
		filtered); len(got.Services) != 1 || got.Services[0].AllocID != allocs[1].ID {
		t.Errorf("filtered %+v", got.Services)
	}
	chosen := byName("default", "web")
	chosen.Choose = "1|key"
	if got := servertest.Read[message.ServiceRegistrationByNameResponse](t, s, "ServiceRegistration.GetService",
		chosen); len(got.Services) != 1 {
		t.Errorf("chosen %+v", got.Services)
	}
	chosen.Choose = "x"
	if err := s.Call(servertest.Context(t), "ServiceRegistration.GetService", chosen, nil); err == nil ||
		!strings.Contains(err.Error(), "failed to choose services") {
		t.Errorf("a malformed choice: %v", err)
	}
	ofJob := servertest.Read[message.JobServiceRegistrationsResponse](t, s, "Job.GetServiceRegistrations",
		&message.JobServiceRegistrationsRequest{JobID: "j", QueryOptions: servertest.Global})
	ofAlloc := servertest.Read[message.AllocServiceRegistrationsResponse](t, s, "Alloc.GetServiceRegistrations",
		&message.AllocServiceRegistrationsRequest{AllocID: allocs[0].ID, QueryOptions: servertest.Global})
	if len(ofJob.Services) != 3 || len(ofAlloc.Services) != 2 {
		t.Errorf("%d services of the job and %d of the allocation, want 3 and 2", len(ofJob.Services), len(ofAlloc.Services))
	}

	// A blocking query ends with the deletion.
	blocked := byName("default", "web")
	blocked.MinQueryIndex, blocked.MaxQueryTime = find("web").Index, time.Minute
	answer := make(chan int, 1)
	go func() {
		var out message.ServiceRegistrationByNameResponse
		if err := s.Call(servertest.Context(t), "ServiceRegistration.GetService", blocked, &out); err != nil {
			t.Errorf("blocking query: %v", err)
		}
		answer <- len(out.Services)
	}()
	if err := deleteService(n, "default", got.Services[0].ID); err != nil {
		t.Fatal(err)
	}
	if left := <-answer; left != 1 {
		t.Errorf("the blocking query has %d registrations, want 1", left)
	}
	if err := deleteService(n, "default", got.Services[0].ID); err == nil || !strings.Contains(err.Error(), "service registration not found") {
		t.Errorf("a second deletion: %v", err)
	}
	// The end of an allocation removes the rest.
	n.Report(nomad.AllocClientStatusRunning, allocs...)
	n.Report(nomad.AllocClientStatusComplete, allocs...)
	if left := find("web").Services; len(left) != 0 {
		t.Errorf("after the end of the allocations %+v remain", left)
	}
	if err := upsertServices(n, registration(allocs[0], "web")); err == nil || !strings.Contains(err.Error(), "has ended") {
		t.Errorf("a registration of an ended allocation: %v", err)
	}
}

// A node registers services of its own allocations only, whatever its request says. One bad registration refuses all.
func TestServices_HostileRegistrations(t *testing.T) {
	s, _ := servertest.Start(t, nil)
	n := servertest.Join(t, s.RPCAddr())
	servertest.Register(t, s, servingJob("j", 1))
	a := n.Allocs(1)[0]
	evil := servertest.Join(t, s.RPCAddr())
	if err := upsertServices(n, registration(a, "web")); err != nil {
		t.Fatal(err)
	}
	own := registration(a, "web").ID
	if err := deleteService(evil, "default", own); !errors.Is(err, apierror.ErrPermissionDenied) {
		t.Errorf("another node removes the registration: %v", err)
	}
	for name, c := range map[string]struct {
		by   *servertest.FakeNode
		edit func(*catalog.Registration)
		want string
	}{
		"another node":         {evil, func(*catalog.Registration) {}, "Permission denied"},
		"another node's alloc": {evil, func(r *catalog.Registration) { r.NodeID = evil.Node.ID }, "Permission denied"},
		"for another node":     {n, func(r *catalog.Registration) { r.NodeID = evil.Node.ID }, "Permission denied"},
		"unknown alloc":        {n, func(r *catalog.Registration) { r.AllocID = nomad.NewID() }, "alloc"},
		"another job":          {n, func(r *catalog.Registration) { r.JobID = "k" }, "is of another job"},
		"another namespace":    {n, func(r *catalog.Registration) { r.Namespace = "prod" }, "is of another job"},
		"ID of another alloc": {n, func(r *catalog.Registration) { r.ID = catalog.ID(nomad.NewID(), "t", "web", "x") },
			"the ID does not begin with"},
		"undeclared service":  {n, func(r *catalog.Registration) { r.ServiceName = "vault" }, `has no service "vault"`},
		"unspecified address": {n, func(r *catalog.Registration) { r.Address = "0.0.0.0" }, "invalid service registration address"},
		"unspecified IPv6":    {n, func(r *catalog.Registration) { r.Address = "::" }, "invalid service registration address"},
		"unspecified mapped": {n, func(r *catalog.Registration) { r.Address = "::ffff:0.0.0.0" },
			"invalid service registration address"},
		"port":                   {n, func(r *catalog.Registration) { r.Port = 65536 }, "invalid service registration port"},
		"no name":                {n, func(r *catalog.Registration) { r.ServiceName = "" }, "missing service name"},
		"name with a line":       {n, func(r *catalog.Registration) { r.ServiceName = "node-a\nserver evil" }, "must have 1 to 63 letters"},
		"address with a line":    {n, func(r *catalog.Registration) { r.Address = "10.0.0.1;\n}\nserver evil" }, "without spaces"},
		"address at length":      {n, func(r *catalog.Registration) { r.Address = strings.Repeat("a", 256) }, "at most 255 bytes"},
		"without the fixed end":  {n, func(r *catalog.Registration) { r.ServiceName = "vault" }, `has no service "vault"`},
		"shorter than the fixed": {n, func(r *catalog.Registration) { r.ServiceName = "node" }, `has no service "node"`},
	} {
		t.Run(name, func(t *testing.T) {
			if c.by == n && upsertServices(n, registration(a, "db"), registration(a, "web", c.edit)) == nil {
				t.Error("the request is accepted with a valid registration before it")
			}
			err := upsertServices(c.by, registration(a, "web", c.edit))
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("ServiceRegistration.Upsert = %v, want %q", err, c.want)
			}
		})
	}
	if err := upsertServices(n, nil...); err == nil {
		t.Error("a request without registrations is accepted")
	}
	got := servertest.Read[message.AllocServiceRegistrationsResponse](t, s, "Alloc.GetServiceRegistrations",
		&message.AllocServiceRegistrationsRequest{AllocID: a.ID, QueryOptions: servertest.Global})
	if len(got.Services) != 1 || got.Services[0].ID != own {
		t.Errorf("the allocation has %+v, want its own registration only", got.Services)
	}
	// The state of the servers does not grow without end.
	var many []*catalog.Registration
	for i := range 9_999 {
		many = append(many, registration(a, "web", func(r *catalog.Registration) { r.ID += strconv.Itoa(i) }))
	}
	if err := upsertServices(n, many...); err != nil {
		t.Fatal(err)
	}
	if err := upsertServices(n, many[0], registration(a, "web")); err != nil {
		t.Errorf("updates at the limit: %v", err)
	}
	if err := upsertServices(n, registration(a, "db")); err == nil || !strings.Contains(err.Error(), "has more than 10000") {
		t.Errorf("registration 10,001 of an allocation: %v", err)
	}
}

func TestServices_Rights(t *testing.T) {
	g := servertest.StartACL(t, nil)
	n := servertest.Join(t, g.Server.RPCAddr())
	g.Must("Namespace.UpsertNamespaces", &message.NamespaceUpsertRequest{Namespaces: []*nomad.Namespace{{Name: "a"}, {Name: "b"}}}, nil)
	for _, ns := range []string{"a", "b"} {
		job := servingJob("j", 1)
		job.Namespace = ns
		g.Must("Job.Register", &message.JobRegisterRequest{Job: job}, nil)
	}
	var workload string
	ids := map[string]string{}
	for _, a := range n.Allocs(2) {
		r := registration(a, "web")
		if ids[a.Namespace] = r.ID; upsertServices(n, r) != nil {
			t.Fatalf("register the service of %s", a.Namespace)
		}
		if a.Namespace == "a" {
			workload = a.SignedIdentities["t"]
		}
	}
	reader := g.TokenWith(`namespace "a" { policy = "read" }`)
	remover := g.TokenWith(`namespace "a" { capabilities = ["delete-service-registration"] }`)
	list := func(secret, ns string) string {
		var out message.ServiceRegistrationListResponse
		err := g.Call(secret, "ServiceRegistration.List",
			&message.ServiceRegistrationListRequest{QueryOptions: message.QueryOptions{Namespace: ns}}, &out)
		if err != nil {
			return "denied"
		}
		var names []string
		for _, s := range out.Services {
			names = append(names, s.Namespace)
		}
		return fmt.Sprint(names)
	}
	for _, c := range []struct{ who, secret, ns, want string }{
		{"reader", reader, "a", "[a]"}, {"reader", reader, "b", "denied"}, {"reader", reader, "*", "[a]"},
		{"nobody", "", "a", "denied"}, {"nobody", "", "*", "[]"}, {"root", g.Root, "*", "[a b]"},
		{"workload", workload, "b", "[b]"}, {"remover", remover, "a", "denied"},
	} {
		if got := list(c.secret, c.ns); got != c.want {
			t.Errorf("%s lists %s: %s, want %s", c.who, c.ns, got, c.want)
		}
	}
	get := func(secret, ns string) error {
		var out message.ServiceRegistrationByNameResponse
		err := g.Call(secret, "ServiceRegistration.GetService", byName(ns, "web"), &out)
		if err == nil && len(out.Services) != 1 {
			t.Errorf("%d registrations of web in %s", len(out.Services), ns)
		}
		return err
	}
	servertest.Equal(t, "a workload reads b", get(workload, "b"), nil)
	servertest.Equal(t, "a reader of a reads a", get(reader, "a"), nil)
	for who, err := range map[string]error{"a reader of a reads b": get(reader, "b"), "an anonymous caller reads a": get("", "a")} {
		if err == nil {
			t.Errorf("%s: no error", who)
		}
	}
	remove := func(secret, ns string) error {
		req := &message.ServiceRegistrationDeleteByIDRequest{ID: ids[ns]}
		req.Namespace = ns
		return g.Call(secret, "ServiceRegistration.DeleteByID", req, &message.ServiceRegistrationDeleteByIDResponse{})
	}
	for who, secret := range map[string]string{"reader": reader, "workload": workload, "nobody": ""} {
		if err := remove(secret, "a"); !errors.Is(err, apierror.ErrPermissionDenied) {
			t.Errorf("%s removes a registration: %v", who, err)
		}
	}
	if err := remove(remover, "b"); !errors.Is(err, apierror.ErrPermissionDenied) {
		t.Errorf("removal in another namespace: %v", err)
	}
	if err := remove(remover, "a"); err != nil {
		t.Error(err)
	}
}

// BenchmarkServiceBurst registers 1,000 services with one request each, as 100 nodes do that start at once, and waits
// until a reader has seen them all. The log is on disk. The target is 5 s.
func BenchmarkServiceBurst(b *testing.B) {
	const count, perAlloc = 1000, 10
	s, _ := servertest.Start(b, func(c *server.Config) { c.DataDir = b.TempDir() })
	ctx := servertest.Context(b)
	node := servertest.MockNode()
	node.Status = nomad.NodeStatusReady
	node.NodeResources.Memory.MemoryMB = 1e9
	var joined message.NodeUpdateResponse
	if err := s.Call(ctx, "Node.Register", &message.NodeRegisterRequest{Node: node, WriteRequest: message.WriteRequest{Region: "global"}},
		&joined); err != nil {
		b.Fatal(err)
	}
	job := servertest.BatchJob("j", count/perAlloc)
	job.TaskGroups[0].Tasks[0].Resources = &nomad.Resources{CPU: 1, MemoryMB: 10}
	for i := range perAlloc {
		job.TaskGroups[0].Services = append(job.TaskGroups[0].Services,
			&nomad.Service{Name: "web", Provider: "nomad", PortLabel: fmt.Sprint(8000 + i)})
	}
	if err := s.Call(ctx, "Job.Register", &message.JobRegisterRequest{Job: job, WriteRequest: message.WriteRequest{Region: "global"}},
		nil); err != nil {
		b.Fatal(err)
	}
	var placed message.JobAllocationsResponse
	for req := servertest.JobRequest("j"); len(placed.Allocations) < count/perAlloc; req.MinQueryIndex = placed.Index {
		if err := s.Call(ctx, "Job.Allocations", req, &placed); err != nil {
			b.Fatal(err)
		}
	}
	var total time.Duration
	for run := 0; b.Loop(); run++ {
		begun := time.Now()
		var wg sync.WaitGroup
		for i := range count {
			a := placed.Allocations[i/perAlloc]
			r := registration(&nomad.Allocation{ID: a.ID, Namespace: "default", NodeID: node.ID, JobID: "j"}, "web",
				func(r *catalog.Registration) {
					r.ID = catalog.ID(a.ID, "group-g", "web", fmt.Sprint(8000+i%perAlloc))
					r.Port += run // a change
				})
			wg.Go(func() {
				req := &message.ServiceRegistrationUpsertRequest{Services: []*catalog.Registration{r},
					WriteRequest: message.WriteRequest{Region: "global", AuthToken: *joined.SignedIdentity}}
				if err := s.Call(ctx, "ServiceRegistration.Upsert", req, nil); err != nil {
					b.Error(err)
				}
			})
		}
		var seen message.ServiceRegistrationByNameResponse
		req := byName("default", "web")
		req.Filter = fmt.Sprintf("Port == %d", 8080+run)
		for len(seen.Services) < count && !b.Failed() {
			req.MinQueryIndex = seen.Index
			if err := s.Call(ctx, "ServiceRegistration.GetService", req, &seen); err != nil {
				b.Fatal(err)
			}
		}
		wg.Wait()
		total += time.Since(begun)
	}
	b.ReportMetric(total.Seconds()/float64(b.N), "s/1000-services")
}

// A node interpolates a service name and changes nothing else of it.
func TestServices_NodeCannotRename(t *testing.T) {
	s, _ := servertest.Start(t, nil)
	n := servertest.Join(t, s.RPCAddr())
	job := servertest.BatchJob("b", 1)
	named := func(name string) *nomad.Service {
		return &nomad.Service{Name: name, Provider: "nomad", Identity: &nomad.WorkloadIdentity{Name: "id", Audience: []string{"x"}}}
	}
	job.TaskGroups[0].Services = []*nomad.Service{named("web"), named("api-${NOMAD_ALLOC_INDEX}")}
	servertest.ApplyJob(t, s, job)
	a := n.Allocs(1)[0]
	for _, c := range []struct {
		service, interpolated string
		want                  bool
	}{
		{"web", "", true}, {"web", "web", true}, {"web", "db", false}, {"web", "web-2", false},
		{"api-${NOMAD_ALLOC_INDEX}", "api-0", true}, {"api-${NOMAD_ALLOC_INDEX}", "db", false}, {"api-${NOMAD_ALLOC_INDEX}", "x-api-0", false},
	} {
		var out message.AllocIdentitiesResponse
		n.Must("Alloc.SignIdentities", &message.AllocIdentitiesRequest{QueryOptions: message.QueryOptions{AuthToken: n.JWT,
			MinQueryIndex: a.CreateIndex - 1},
			Identities: []*message.WorkloadIdentityRequest{{AllocID: a.ID, WIHandle: message.WIHandle{
				IdentityName:                   "id",
				WorkloadIdentifier:             c.service,
				WorkloadType:                   message.WorkloadTypeService,
				InterpolatedWorkloadIdentifier: c.interpolated,
			}}}}, &out)
		if got := len(out.SignedIdentities) == 1; got != c.want {
			t.Errorf("service %s as %q: signed %t, want %t", c.service, c.interpolated, got, c.want)
		}
	}
}
