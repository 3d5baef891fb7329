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
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rpc"
	"github.com/open-nomad/open-nomad/nomad/server"
)

// quickPilot makes autopilot check often and accept a slow machine as healthy.
func quickPilot(c *server.Config) {
	conf := nomad.DefaultAutopilotConfig()
	conf.LastContactThreshold, conf.ServerStabilizationTime = 10*time.Second, 100*time.Millisecond
	c.Autopilot, c.AutopilotInterval = &conf, 200*time.Millisecond
}

// suffrage counts the voters and non-voters in the Raft configuration.
func suffrage(t *testing.T, m member) (voters, others int) {
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
func health(t *testing.T, m member) message.OperatorHealthReply {
	t.Helper()
	var out message.OperatorHealthReply
	err := led(t, func(ctx context.Context) error {
		return m.Call(ctx, "Operator.ServerHealth", &message.GenericRequest{QueryOptions: global}, &out)
	})
	if coded, ok := errors.AsType[*nomad.CodedError](err); err != nil && (!ok || coded.Code != 503) {
		t.Fatalf("Operator.ServerHealth: %v", err)
	}
	return out
}

func TestDeadServersAreRemovedAndTheQuorumShrinks(t *testing.T) {
	all := cluster(t, 5, quickPilot)
	for len(all) > 3 {
		_, followers := split(t, all)
		dead := followers[0]
		dead.stop()
		var rest []member
		for _, m := range all {
			if m.Server != dead.Server {
				rest = append(rest, m)
			}
		}
		all = rest
		waitVoters(t, all, len(all))
	}
	// Of five servers, two are now a quorum.
	_, followers := split(t, all)
	followers[0].stop()
	register(t, followers[1].Server, batchJob("b", 0))
}

func TestWithoutQuorumNoneIsRemoved(t *testing.T) {
	var leader member
	for took := time.Hour; took > 300*time.Millisecond; { // a failed server is removed while the other is alive
		all := cluster(t, 3, func(c *server.Config) {
			quickPilot(c)
			c.Autopilot.LastContactThreshold = 150 * time.Millisecond // a failed server is unhealthy at the next check
		})
		var followers []member
		leader, followers = split(t, all)
		begun := time.Now()
		var stops sync.WaitGroup
		for _, f := range followers {
			stops.Go(f.stop)
		}
		stops.Wait()
		took = time.Since(begun)
	}
	eventually(t, func() bool {
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

func TestANewServerHasNoVoteAtFirst(t *testing.T) {
	one := startMember(t, "s0", func(c *server.Config) {
		quickPilot(c)
		c.BootstrapExpect, c.Autopilot.ServerStabilizationTime = 1, time.Hour
	})
	two := startMember(t, "s1", func(c *server.Config) {
		quickPilot(c)
		c.StartJoin = []string{one.gossipAddr()}
	})
	eventually(t, func() bool {
		voters, others := suffrage(t, two)
		return voters == 1 && others == 1
	})
	eventually(t, func() bool {
		h := health(t, two)
		return h.Healthy && len(h.Servers) == 2 && !h.Servers[1].Voter && len(h.ReadReplicas) == 0
	})
	conf := read[nomad.AutopilotConfig](t, two.Server, "Operator.AutopilotGetConfiguration", &message.GenericRequest{QueryOptions: global})
	conf.ServerStabilizationTime = time.Millisecond
	if !setAutopilot(t, two, conf, true) {
		t.Error("the configuration was not set with its current index")
	}
	eventually(t, func() bool {
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
	err := led(t, func(ctx context.Context) error {
		return two.Call(ctx, "Operator.AutopilotSetConfiguration", &message.AutopilotSetConfigRequest{Config: conf, WriteRequest: message.WriteRequest{Region: "global"}}, nil)
	})
	failsWith(t, err, 501, "enable_redundancy_zones")
}

func setAutopilot(t *testing.T, m member, conf nomad.AutopilotConfig, cas bool) bool {
	t.Helper()
	var done bool
	req := &message.AutopilotSetConfigRequest{Config: conf, CAS: cas, WriteRequest: message.WriteRequest{Region: "global"}}
	if err := led(t, func(ctx context.Context) error { return m.Call(ctx, "Operator.AutopilotSetConfiguration", req, &done) }); err != nil {
		t.Fatal(err)
	}
	return done
}

func TestANonVotingServerNeverVotes(t *testing.T) {
	all := cluster(t, 3, quickPilot)
	reader := startMember(t, "reader", func(c *server.Config) {
		quickPilot(c)
		c.NonVoting, c.StartJoin = true, []string{all[0].gossipAddr()}
	})
	register(t, reader.Server, batchJob("b", 0))
	eventually(t, func() bool {
		h := health(t, reader)
		return len(h.Servers) == 4 && h.Healthy && len(h.Voters) == 3 && h.FailureTolerance == 1 &&
			fmt.Sprint(h.ReadReplicas) == fmt.Sprint([]string{reader.Self().Tags["id"]})
	})
	id := reader.Self().Tags["id"]
	err := led(t, func(ctx context.Context) error {
		return reader.Call(ctx, "Operator.TransferLeadershipToPeer",
			&message.RaftPeerRequest{RaftIDAddress: nomad.RaftIDAddress{ID: id}, WriteRequest: message.WriteRequest{Region: "global"}}, nil)
	})
	failsWith(t, err, 400, "is not a voter")
	// A non-voting server does not become leader and is not part of the quorum.
	leader, followers := split(t, all)
	leader.stop()
	register(t, reader.Server, batchJob("c", 0))
	if _, now := followers[0].Leader(); now == id {
		t.Error("a non-voting server is the leader")
	}
	if voters, others := suffrage(t, followers[0]); voters > 3 || others != 1 {
		t.Errorf("%d voters, %d others", voters, others)
	}
	if _, err := server.New(server.Config{Region: "global", Datacenter: "dc1", Name: "x", RPCAddr: "127.0.0.1:0", SerfAddr: "127.0.0.1:0",
		NonVoting: true, BootstrapExpect: 3}, logger()); err == nil {
		t.Error("a non-voting server bootstraps a cluster")
	}
}

// The bootstrap server is removed after a failure and added again when it returns, although it
// still has bootstrap_expect.
func TestBootstrapServerReturns(t *testing.T) {
	dir, block := t.TempDir(), testnet.Take(t)
	first := func(c *server.Config) {
		quickPilot(c)
		c.BootstrapExpect, c.DataDir, c.RPCAddr, c.SerfAddr = 1, dir, block.Addr(4647), block.Addr(4648)
	}
	one := startMember(t, "s0", first)
	rest := []member{}
	for _, name := range []string{"s1", "s2"} {
		rest = append(rest, startMember(t, name, func(c *server.Config) {
			quickPilot(c)
			c.StartJoin = []string{one.gossipAddr()}
		}))
	}
	three := func() bool {
		voters, _ := suffrage(t, rest[0])
		return voters == 3
	}
	eventually(t, three)
	one.stop()
	eventually(t, func() bool {
		voters, others := suffrage(t, rest[0])
		return voters == 2 && others == 0
	})
	register(t, rest[1].Server, batchJob("meanwhile", 0))
	one = startMember(t, "s0", first)
	eventually(t, three)
	if got := read[message.SingleJobResponse](t, one.Server, "Job.GetJob", jobRead("meanwhile")); got.Job == nil {
		t.Error("the server that came back lacks a job")
	}
}

// Snapshots contain the configuration, stored as an index row.
func TestAfterARestoreTheConfigurationIsThatOfTheSnapshot(t *testing.T) {
	s, _ := start(t, func(c *server.Config) { quickPilot(c); c.Autopilot.MinQuorum = 3 })
	m := member{Server: s}
	get := func() nomad.AutopilotConfig {
		return read[nomad.AutopilotConfig](t, s, "Operator.AutopilotGetConfiguration", &message.GenericRequest{QueryOptions: global})
	}
	conf := get()
	conf.MinQuorum = 5
	setAutopilot(t, m, conf, false)
	raw := saved(t, s)
	conf.MinQuorum = 7
	setAutopilot(t, m, conf, false)
	if err := restore(t, func() (*rpc.Stream, error) { return s.Stream(within(t), "Operator.SnapshotRestore") }, raw, "EOF"); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() bool { return get().MinQuorum == 5 })
}
