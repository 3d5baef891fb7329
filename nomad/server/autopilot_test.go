package server_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/internal/testnet"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rpc"
	"github.com/open-nomad/open-nomad/nomad/server"
	"github.com/open-nomad/open-nomad/nomad/server/servertest"
)

// suffrage counts the voters and non-voters in the Raft configuration.
func suffrage(t *testing.T, m servertest.Member) (voters, others int) {
	t.Helper()
	servers, err := m.RaftServers()
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range servers {
		if s.Voter {
			voters++
		} else {
			others++
		}
	}
	return voters, others
}

// health returns the leader's health report. It is empty until autopilot has run.
func health(t *testing.T, m servertest.Member) message.OperatorHealthReply {
	t.Helper()
	var out message.OperatorHealthReply
	err := servertest.Retry(t, func(ctx context.Context) error {
		return m.Call(ctx, "Operator.ServerHealth", &message.GenericRequest{QueryOptions: servertest.Global}, &out)
	})
	if coded, ok := errors.AsType[*apierror.Coded](err); err != nil && (!ok || coded.Code != 503) {
		t.Fatalf("Operator.ServerHealth: %v", err)
	}
	return out
}

func TestAutopilot_RemovesDeadServers(t *testing.T) {
	all := servertest.Cluster(t, 5, servertest.FastAutopilot)
	for len(all) > 3 {
		_, followers := servertest.Split(t, all)
		dead := followers[0]
		dead.Stop()
		var rest []servertest.Member
		for _, m := range all {
			if m.Server != dead.Server {
				rest = append(rest, m)
			}
		}
		all = rest
		servertest.WaitVoters(t, all, len(all))
	}
	// Of five servers, two are now a quorum.
	_, followers := servertest.Split(t, all)
	followers[0].Stop()
	servertest.Register(t, followers[1].Server, servertest.BatchJob("b", 0))
}

func TestAutopilot_NoQuorum(t *testing.T) {
	var leader servertest.Member
	for took := time.Hour; took > 300*time.Millisecond; { // a failed server is removed while the other is alive
		all := servertest.Cluster(t, 3, func(c *server.Config) {
			servertest.FastAutopilot(c)
			c.Autopilot.LastContactThreshold = 150 * time.Millisecond // a failed server is unhealthy at the next check
		})
		var followers []servertest.Member
		leader, followers = servertest.Split(t, all)
		begun := time.Now()
		var stops sync.WaitGroup
		for _, f := range followers {
			stops.Go(f.Stop)
		}
		stops.Wait()
		took = time.Since(begun)
	}
	servertest.Eventually(t, func() bool {
		_, id := leader.Leader()
		failed := 0
		for _, m := range leader.Members() {
			if m.Status == "failed" {
				failed++
			}
		}
		return id == "" && failed == 2
	})
	if voters, _ := suffrage(t, leader); voters != 3 {
		t.Errorf("%d voters remain", voters)
	}
}

func TestAutopilot_NewServerIsNonVoter(t *testing.T) {
	one := servertest.StartMember(t, "s0", func(c *server.Config) {
		servertest.FastAutopilot(c)
		c.BootstrapExpect, c.Autopilot.ServerStabilizationTime = 1, time.Hour
	})
	two := servertest.StartMember(t, "s1", func(c *server.Config) {
		servertest.FastAutopilot(c)
		c.StartJoin = []string{one.GossipAddr()}
	})
	servertest.Eventually(t, func() bool {
		voters, others := suffrage(t, two)
		return voters == 1 && others == 1
	})
	servertest.Eventually(t, func() bool {
		h := health(t, two)
		return h.Healthy && len(h.Servers) == 2 && !h.Servers[1].Voter && len(h.ReadReplicas) == 0
	})
	conf := servertest.Read[nomad.AutopilotConfig](t, two.Server, "Operator.AutopilotGetConfiguration",
		&message.GenericRequest{QueryOptions: servertest.Global})
	conf.ServerStabilizationTime = time.Millisecond
	if !setAutopilot(t, two, conf, true) {
		t.Error("the configuration was not set with its current index")
	}
	servertest.Eventually(t, func() bool {
		voters, others := suffrage(t, two)
		return voters == 2 && others == 0
	})
	if setAutopilot(t, two, conf, true) {
		t.Error("the configuration was set with an old index")
	}
	if !setAutopilot(t, two, conf, false) {
		t.Error("the configuration was not set without an index")
	}
	conf.EnableRedundancyZones = true
	err := servertest.Retry(t, func(ctx context.Context) error {
		return two.Call(ctx, "Operator.AutopilotSetConfiguration",
			&message.AutopilotSetConfigRequest{Config: conf, WriteRequest: message.WriteRequest{Region: "global"}}, nil)
	})
	servertest.WantError(t, err, 501, "enable_redundancy_zones")
}

func setAutopilot(t *testing.T, m servertest.Member, conf nomad.AutopilotConfig, cas bool) bool {
	t.Helper()
	var done bool
	req := &message.AutopilotSetConfigRequest{Config: conf, CAS: cas, WriteRequest: message.WriteRequest{Region: "global"}}
	if err := servertest.Retry(t, func(ctx context.Context) error {
		return m.Call(ctx, "Operator.AutopilotSetConfiguration", req,
			&done)
	}); err != nil {
		t.Fatal(err)
	}
	return done
}

func TestNonVoter_NeverVotes(t *testing.T) {
	all := servertest.Cluster(t, 3, servertest.FastAutopilot)
	reader := servertest.StartMember(t, "reader", func(c *server.Config) {
		servertest.FastAutopilot(c)
		c.NonVoting, c.StartJoin = true, []string{all[0].GossipAddr()}
	})
	servertest.Register(t, reader.Server, servertest.BatchJob("b", 0))
	servertest.Eventually(t, func() bool {
		h := health(t, reader)
		return len(h.Servers) == 4 && h.Healthy && len(h.Voters) == 3 && h.FailureTolerance == 1 &&
			fmt.Sprint(h.ReadReplicas) == fmt.Sprint([]string{reader.Self().Tags["id"]})
	})
	id := reader.Self().Tags["id"]
	err := servertest.Retry(t, func(ctx context.Context) error {
		return reader.Call(ctx, "Operator.TransferLeadershipToPeer",
			&message.RaftPeerRequest{RaftIDAddress: message.RaftIDAddress{ID: id}, WriteRequest: message.WriteRequest{Region: "global"}}, nil)
	})
	servertest.WantError(t, err, 400, "is not a voter")
	// A non-voting server does not become leader and is not part of the quorum.
	leader, followers := servertest.Split(t, all)
	leader.Stop()
	servertest.Register(t, reader.Server, servertest.BatchJob("c", 0))
	if _, now := followers[0].Leader(); now == id {
		t.Error("a non-voting server is the leader")
	}
	if voters, others := suffrage(t, followers[0]); voters > 3 || others != 1 {
		t.Errorf("%d voters, %d others", voters, others)
	}
	if _, err := server.New(server.Config{Region: "global", Datacenter: "dc1", Name: "x", RPCAddr: "127.0.0.1:0", SerfAddr: "127.0.0.1:0",
		NonVoting: true, BootstrapExpect: 3}, servertest.Logger()); err == nil {
		t.Error("a non-voting server bootstraps a cluster")
	}
}

// The bootstrap server is removed after a failure and added again when it returns, although it
// still has bootstrap_expect.
func TestBootstrap_ServerReturns(t *testing.T) {
	dir, block := t.TempDir(), testnet.Take(t)
	first := func(c *server.Config) {
		servertest.FastAutopilot(c)
		c.BootstrapExpect, c.DataDir, c.RPCAddr, c.SerfAddr = 1, dir, block.Addr(4647), block.Addr(4648)
	}
	one := servertest.StartMember(t, "s0", first)
	rest := []servertest.Member{}
	for _, name := range []string{"s1", "s2"} {
		rest = append(rest, servertest.StartMember(t, name, func(c *server.Config) {
			servertest.FastAutopilot(c)
			c.StartJoin = []string{one.GossipAddr()}
		}))
	}
	three := func() bool {
		voters, _ := suffrage(t, rest[0])
		return voters == 3
	}
	servertest.Eventually(t, three)
	one.Stop()
	servertest.Eventually(t, func() bool {
		voters, others := suffrage(t, rest[0])
		return voters == 2 && others == 0
	})
	servertest.Register(t, rest[1].Server, servertest.BatchJob("meanwhile", 0))
	one = servertest.StartMember(t, "s0", first)
	servertest.Eventually(t, three)
	if got := servertest.Read[message.SingleJobResponse](t, one.Server, "Job.GetJob", servertest.JobRequest("meanwhile")); got.Job == nil {
		t.Error("the server that came back lacks a job")
	}
}

// Snapshots contain the configuration, stored as an index row.
func TestAutopilot_RestoredConfig(t *testing.T) {
	s, _ := servertest.Start(t, func(c *server.Config) { servertest.FastAutopilot(c); c.Autopilot.MinQuorum = 3 })
	m := servertest.Member{Server: s}
	get := func() nomad.AutopilotConfig {
		return servertest.Read[nomad.AutopilotConfig](t, s, "Operator.AutopilotGetConfiguration",
			&message.GenericRequest{QueryOptions: servertest.Global})
	}
	conf := get()
	conf.MinQuorum = 5
	setAutopilot(t, m, conf, false)
	raw := servertest.Save(t, s)
	conf.MinQuorum = 7
	setAutopilot(t, m, conf, false)
	if err := servertest.Restore(t, func() (*rpc.Stream, error) { return s.Stream(servertest.Context(t), "Operator.SnapshotRestore") }, raw,
		"EOF"); err != nil {
		t.Fatal(err)
	}
	servertest.Eventually(t, func() bool { return get().MinQuorum == 5 })
}
