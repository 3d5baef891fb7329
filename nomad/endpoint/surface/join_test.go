package surface_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/internal/testpki"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/server"
	"github.com/open-nomad/open-nomad/nomad/server/servertest"
)

// Servers that join by gossip without a valid server certificate get no vote, no log and no
// leader. A later server with one gets all.
func TestJoin_NoCertificate(t *testing.T) {
	ca, other := testpki.New(t), testpki.New(t)
	// On a busy machine a quick probe would report alive servers as failed.
	calm := func(c *server.Config) { c.GossipProbe = time.Second }
	all := servertest.Cluster(t, 3, func(c *server.Config) {
		servertest.FastAutopilot(c)
		c.Autopilot.CleanupDeadServers = false
		calm(c)
		servertest.WithTLS(t, ca)(c)
	})
	servertest.Register(t, all[0].Server, servertest.BatchJob("secret", 0))
	// These servers do not verify others, only the honest ones do.
	careless := func(ca *testpki.CA, name string) func(*server.Config) {
		return func(c *server.Config) {
			cfg := ca.Agent(name).Config()
			cfg.Server, cfg.VerifyServerHostname = true, false
			c.TLS = testpki.Open(t, cfg)
		}
	}
	intruders := map[string]servertest.Member{}
	for name, change := range map[string]func(*server.Config){noTLS: func(*server.Config) {}, otherCA: careless(other, servertest.ServerCert),
		clientHere: careless(ca, servertest.ClientCert), serverThere: careless(ca, farCert)} {
		intruders[name] = servertest.StartMember(t, fmt.Sprintf("intruder-%d", len(intruders)), func(c *server.Config) {
			c.BootstrapExpect, c.StartJoin = 3, []string{all[0].GossipAddr()}
			calm(c)
			change(c)
		})
	}
	servertest.Eventually(t, func() bool { return len(all[0].Members()) == 3+len(intruders) })
	honest := servertest.StartMember(t, "honest", func(c *server.Config) {
		c.BootstrapExpect, c.StartJoin = 3, []string{all[0].GossipAddr()}
		calm(c)
		servertest.WithTLS(t, ca)(c)
	})
	all = append(all, honest)
	var known, voters []string
	servertest.Eventually(t, func() bool {
		servers, err := all[0].RaftServers()
		known, voters = nil, nil
		for _, s := range servers {
			known = append(known, s.Address)
			if s.Voter {
				voters = append(voters, s.Address)
			}
		}
		return err == nil && slices.Contains(voters, honest.RPCAddr())
	})
	if len(voters) != len(all) || len(known) != len(all) {
		t.Errorf("%d servers are in the configuration and %d vote, want %d", len(known), len(voters), len(all))
	}
	if out := servertest.Read[message.SingleJobResponse](t, honest.Server, "Job.GetJob", servertest.JobRequest("secret")); out.Job == nil {
		t.Error("the honest server has no job")
	}
	for name, m := range intruders {
		if slices.Contains(voters, m.RPCAddr()) {
			t.Errorf("%s: has a vote", name)
		}
		if _, id := m.Leader(); id != "" {
			t.Errorf("%s: has the leader %s", name, id)
		}
		var out message.SingleJobResponse
		q := message.QueryOptions{Region: "global", AllowStale: true}
		if err := m.Call(servertest.Context(t), "Job.GetJob", &message.JobSpecificRequest{JobID: "secret", QueryOptions: q},
			&out); err == nil && out.Job != nil {
			t.Errorf("%s: has the log", name)
		}
	}
}
