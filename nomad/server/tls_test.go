package server_test

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/open-nomad/open-nomad/internal/certs"
	"github.com/open-nomad/open-nomad/internal/testpki"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rpc"
	"github.com/open-nomad/open-nomad/nomad/server"
	"github.com/open-nomad/open-nomad/nomad/server/servertest"
)

func TestTLS_Cluster(t *testing.T) {
	ca := testpki.New(t)
	all := servertest.Cluster(t, 3, servertest.WithTLS(t, ca))
	leader, followers := servertest.Split(t, all)
	p := rpc.NewPool(rpc.PoolConfig{Region: "global", TLS: testpki.Open(t, ca.Agent(servertest.ClientCert).Config())})
	defer p.Close()
	n := servertest.JoinWith(t, p, followers[0].RPCAddr())
	servertest.Register(t, followers[1].Server, servertest.BatchJob("b", 1))
	if n.Allocs(1)[0].SignedIdentities["t"] == "" {
		t.Error("the allocation has no identity")
	}
	n.Heartbeat(n.JWT, false)
	leader.Stop() // its successor is elected, and calls continue
	left := followers
	servertest.Eventually(t, func() bool {
		_, id := left[0].Leader()
		return id != "" && id != leader.Self().Tags["id"]
	})
	servertest.Register(t, left[0].Server, servertest.BatchJob("c", 1))
}

// Two regions verify each other's names.
func TestTLS_Regions(t *testing.T) {
	ca := testpki.New(t)
	home := servertest.StartMember(t, "s", func(c *server.Config) { c.BootstrapExpect = 1; servertest.WithTLS(t, ca)(c) })
	far := servertest.StartMember(t, "f", func(c *server.Config) {
		c.Region, c.BootstrapExpect, c.RetryJoin = "far", 1, []string{home.GossipAddr()}
		servertest.WithTLS(t, ca)(c)
	})
	servertest.Register(t, home.Server, servertest.BatchJob("b", 1))
	servertest.Eventually(t, func() bool {
		var out message.SingleJobResponse
		err := far.Call(servertest.Context(t), "Job.GetJob", &message.JobSpecificRequest{JobID: "b", QueryOptions: servertest.Global}, &out)
		return err == nil && out.Job != nil
	})
}

// A cluster switches to TLS and back under load. No acknowledged write is lost, and requests
// are answered.
func TestTLS_MigrationAndBack(t *testing.T) {
	ca := testpki.New(t)
	var settings []certs.Config
	var stores []*certs.Store
	all := servertest.Cluster(t, 3, func(c *server.Config) {
		cfg := ca.Agent(servertest.ServerCert).Config()
		cfg.Server, cfg.RPC = true, false
		c.TLS = testpki.Open(t, cfg)
		settings, stores = append(settings, cfg), append(stores, c.TLS)
	})
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var wg sync.WaitGroup
	written := make([][]string, len(all))
	for i, m := range all {
		wg.Go(func() {
			for k := 0; ctx.Err() == nil; k++ {
				id := fmt.Sprintf("j%d-%d", i, k)
				req := &message.JobRegisterRequest{Job: servertest.BatchJob(id, 1), WriteRequest: message.WriteRequest{Region: "global"}}
				if m.Call(ctx, "Job.Register", req, nil) == nil {
					written[i] = append(written[i], id)
				}
			}
		})
	}
	steps := []func(*certs.Config){
		func(c *certs.Config) { c.RPC, c.UpgradeMode = true, true },
		func(c *certs.Config) { c.UpgradeMode = false },
		func(c *certs.Config) { c.UpgradeMode = true },
		func(c *certs.Config) { c.RPC = false },
	}
	for k, step := range steps {
		for i, store := range stores {
			step(&settings[i])
			if err := store.Reload(settings[i]); err != nil {
				t.Fatal(err)
			}
			servertest.Eventually(t, func() bool { return servertest.AllAnswer(all) })
		}
		if want := k == 0 || k == 1 || k == 2; stores[0].RPC() != want {
			t.Errorf("after step %d TLS is %t", k, stores[0].RPC())
		}
	}
	cancel()
	wg.Wait()
	total := 0
	for i, ids := range written {
		total += len(ids)
		for _, id := range ids {
			if out := servertest.Read[message.SingleJobResponse](t, all[i].Server, "Job.GetJob",
				&message.JobSpecificRequest{JobID: id, QueryOptions: servertest.Global}); out.Job == nil {
				t.Errorf("job %s was acknowledged but is lost", id)
			}
		}
	}
	if total == 0 {
		t.Error("nothing was written")
	}
}
