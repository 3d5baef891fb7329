package services_test

import (
	"context"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/drivers"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/catalog"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/server"
	"github.com/open-nomad/open-nomad/nomad/server/servertest"
)

// TestServices_Restore checks that a restore keeps mapped services with their health, ends queries that wait on any
// server, and that the next leader and stale reads have the same.
func TestServices_Restore(t *testing.T) {
	all := servertest.Cluster(t, 3, func(c *server.Config) { c.Kinds = drivers.Table() })
	leader, followers := servertest.Split(t, all)
	n := servertest.Join(t, leader.RPCAddr())
	job := servertest.BatchJob("j", 1)
	job.TaskGroups[0].Services = []*nomad.Service{{Name: "web", Provider: "consul", PortLabel: "8080", Checks: []*nomad.ServiceCheck{
		{Name: "up", Type: "tcp", Interval: time.Second, Timeout: time.Second}}}}
	servertest.Register(t, leader.Server, job)
	write := func(address string) {
		t.Helper()
		row := registration(n.Allocs(1)[0], "web", func(r *catalog.Registration) {
			r.Address, r.Status = address, catalog.Warning
			r.Checks = []*catalog.Check{{ID: "c", Name: "up", Type: "tcp", Status: catalog.Warning}}
		})
		if err := servertest.Retry(t, func(context.Context) error { return upsertServices(n, row) }); err != nil {
			t.Fatal(err)
		}
	}
	request := func(index uint64) *message.ServiceInstancesRequest {
		return &message.ServiceInstancesRequest{ServiceName: "web", QueryOptions: message.QueryOptions{Region: "global",
			Namespace: "default", AllowStale: true, MinQueryIndex: index, MaxQueryTime: 5 * time.Minute}}
	}
	read := func(s *server.Server, index uint64) message.ServiceInstancesResponse {
		return servertest.Read[message.ServiceInstancesResponse](t, s, "ServiceRegistration.Instances", request(index))
	}
	has := func(out message.ServiceInstancesResponse, address string) bool {
		return len(out.Instances) == 1 && out.Instances[0].Address == address && out.Instances[0].Health() == catalog.Warning
	}
	write("10.0.0.1")
	archive := servertest.Save(t, leader.Server)
	write("10.0.0.2")
	for _, m := range all {
		servertest.Eventually(t, func() bool { return has(read(m.Server, 0), "10.0.0.2") })
	}
	latest := read(leader.Server, 0).Index
	answers := make(chan message.ServiceInstancesResponse, len(all))
	for _, m := range all {
		go func() { answers <- read(m.Server, latest) }()
	}
	if err := servertest.Restore(t, servertest.RestoreStream(t, followers[0].Server), archive, "EOF"); err != nil {
		t.Fatal(err)
	}
	// The indexes of restored tables are higher than all before: readers notice the older state, and miss no later write.
	var restored uint64
	for range all {
		out := <-answers
		if !has(out, "10.0.0.1") || out.Index <= latest {
			t.Errorf("a query that waited has %+v at index %d, want the restored state after index %d", out.Instances, out.Index, latest)
		}
		restored = out.Index
	}
	servertest.TransferLeadership(t, all, followers[0])
	for _, m := range all {
		if out := read(m.Server, 0); !has(out, "10.0.0.1") || out.Index != restored {
			t.Errorf("after another leader: %+v at index %d, want those of index %d", out.Instances, out.Index, restored)
		}
		stored := servertest.Read[message.SingleJobResponse](t, m.Server, "Job.GetJob", servertest.JobRequest("j")).Job
		if s := stored.TaskGroups[0].Services[0]; s.Provider != "nomad" || s.DeclaredProvider != "consul" {
			t.Errorf("the service has the provider %q, declared %q", s.Provider, s.DeclaredProvider)
		}
	}
	write("10.0.0.3")
	if out := read(followers[1].Server, restored); !has(out, "10.0.0.3") || out.Index <= restored {
		t.Errorf("after a write: %+v at index %d, want a higher index than %d", out.Instances, out.Index, restored)
	}
}
