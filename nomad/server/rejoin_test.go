package server_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/internal/testnet"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/server"
	"github.com/open-nomad/open-nomad/nomad/server/servertest"
)

// inLog reports whether a server is in the Raft configuration, as m sees it.
func inLog(t *testing.T, m servertest.Member, id string) bool {
	t.Helper()
	servers, err := m.RaftServers()
	if err != nil {
		t.Fatal(err)
	}
	return slices.ContainsFunc(servers, func(s *message.RaftServer) bool { return s.ID == id })
}

// waitStatus waits until m sees the server with the ID in the given gossip status.
func waitStatus(t *testing.T, m servertest.Member, id, status string) {
	t.Helper()
	servertest.Eventually(t, func() bool {
		return slices.ContainsFunc(m.Members(), func(s *message.ServerMember) bool { return s.Tags["id"] == id && s.Status == status })
	})
}

// A server leaves, joins again and fails later. A later leader has recorded the leave event but
// must use the current status. A failed server stays in the Raft configuration until autopilot
// or an operator removes it.
func TestMembers_LeftAndReturned(t *testing.T) {
	dirs := map[string]string{"s0": t.TempDir(), "s1": t.TempDir(), "s2": t.TempDir(), "s3": t.TempDir()}
	blocks := map[string]*testnet.Block{"s0": testnet.Take(t), "s1": testnet.Take(t), "s2": testnet.Take(t), "s3": testnet.Take(t)}
	place := func(c *server.Config) {
		conf := nomad.DefaultAutopilotConfig()
		conf.CleanupDeadServers = false
		c.Autopilot = &conf
		c.DataDir, c.RPCAddr, c.SerfAddr = dirs[c.Name], blocks[c.Name].Addr(4647), blocks[c.Name].Addr(4648)
	}
	all := servertest.Cluster(t, 3, place)
	leader, followers := servertest.Split(t, all)
	back, next := followers[0], followers[1]
	name, id := strings.TrimSuffix(back.Self().Name, ".global"), back.Self().Tags["id"]
	if err := back.Leave(servertest.Context(t)); err != nil {
		t.Fatal(err)
	}
	back.Stop()
	waitStatus(t, next, id, "left")
	servertest.WaitVoters(t, []servertest.Member{leader, next}, 2)

	joining := func(c *server.Config) {
		place(c)
		c.StartJoin = []string{next.GossipAddr()}
	}
	again := servertest.StartMember(t, name, joining)
	servertest.WaitVoters(t, []servertest.Member{leader, next, again}, 3)
	waitStatus(t, next, id, "alive")
	again.Stop()
	waitStatus(t, next, id, "failed")
	servertest.TransferLeadership(t, []servertest.Member{leader, next}, next)
	servertest.StartMember(t, "s3", joining)
	servertest.Eventually(t, func() bool { // the new leader has compared the members with its configuration
		servers, err := next.RaftServers()
		return err == nil && slices.ContainsFunc(servers, func(s *message.RaftServer) bool { return s.Node == "s3.global" })
	})
	if !inLog(t, next, id) {
		t.Errorf("the new leader removed server %s, which failed and did not leave", name)
	}
}
