package server_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/internal/certs"
	"github.com/open-nomad/open-nomad/internal/testpki"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rpc"
	"github.com/open-nomad/open-nomad/nomad/server"
)

const (
	serverCert = "server.global.nomad"
	clientCert = "client.global.nomad"
)

// asServer configures a server with TLS and verified names.
func asServer(t *testing.T, ca *testpki.CA) func(*server.Config) {
	return func(c *server.Config) {
		cfg := ca.Agent("server." + c.Region + ".nomad").Config()
		cfg.Region, cfg.Server = c.Region, true
		c.TLS = testpki.Open(t, cfg)
	}
}

func TestAClusterSpeaksTLS(t *testing.T) {
	ca := testpki.New(t)
	all := cluster(t, 3, asServer(t, ca))
	leader, followers := split(t, all)
	p := rpc.NewPool(rpc.PoolConfig{Region: "global", TLS: testpki.Open(t, ca.Agent(clientCert).Config())})
	defer p.Close()
	n := joinBy(t, p, followers[0].RPCAddr())
	register(t, followers[1].Server, batchJob("b", 1))
	if n.allocs(1)[0].SignedIdentities["t"] == "" {
		t.Error("the allocation has no identity")
	}
	n.beat(n.jwt, false)
	leader.stop() // its successor is elected, and calls continue
	left := followers
	eventually(t, func() bool {
		_, id := left[0].Leader()
		return id != "" && id != leader.Self().Tags["id"]
	})
	register(t, left[0].Server, batchJob("c", 1))
}

// Two regions verify each other's names.
func TestRegionsForwardOverTLS(t *testing.T) {
	ca := testpki.New(t)
	home := startMember(t, "s", func(c *server.Config) { c.BootstrapExpect = 1; asServer(t, ca)(c) })
	far := startMember(t, "f", func(c *server.Config) {
		c.Region, c.BootstrapExpect, c.RetryJoin = "far", 1, []string{home.gossipAddr()}
		asServer(t, ca)(c)
	})
	register(t, home.Server, batchJob("b", 1))
	eventually(t, func() bool {
		var out message.SingleJobResponse
		err := far.Call(within(t), "Job.GetJob", &message.JobSpecificRequest{JobID: "b", QueryOptions: global}, &out)
		return err == nil && out.Job != nil
	})
}

// A cluster switches to TLS and back under load. No acknowledged write is lost, and requests
// are answered.
func TestAClusterMovesToTLSAndBack(t *testing.T) {
	ca := testpki.New(t)
	var settings []certs.Config
	var stores []*certs.Store
	all := cluster(t, 3, func(c *server.Config) {
		cfg := ca.Agent(serverCert).Config()
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
				req := &message.JobRegisterRequest{Job: batchJob(id, 1), WriteRequest: message.WriteRequest{Region: "global"}}
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
			eventually(t, func() bool { return answers(all) })
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
			if out := read[message.SingleJobResponse](t, all[i].Server, "Job.GetJob", &message.JobSpecificRequest{JobID: id, QueryOptions: global}); out.Job == nil {
				t.Errorf("job %s was acknowledged but is lost", id)
			}
		}
	}
	if total == 0 {
		t.Error("nothing was written")
	}
}

// answers reports whether every server gets an answer from the leader.
func answers(all []member) bool {
	for _, m := range all {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		err := m.Call(ctx, "Job.List", &message.JobListRequest{QueryOptions: global}, nil)
		cancel()
		if err != nil {
			return false
		}
	}
	return true
}
