package server_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/internal/testnet"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/server"
)

// inLog reports whether a server is in the Raft configuration, as m sees it.
func inLog(t *testing.T, m member, id string) bool {
	t.Helper()
	servers, err := m.RaftServers()
	if err != nil {
		t.Fatal(err)
	}
	return slices.ContainsFunc(servers, func(s *nomad.RaftServer) bool { return s.ID == id })
}

// waitStatus waits until m sees the server with the ID in the given gossip status.
func waitStatus(t *testing.T, m member, id, status string) {
	t.Helper()
	eventually(t, func() bool {
		return slices.ContainsFunc(m.Members(), func(s *nomad.ServerMember) bool { return s.Tags["id"] == id && s.Status == status })
	})
}

// A server leaves, joins again and fails later. A later leader has recorded the leave event but
// must use the current status. A failed server stays in the Raft configuration until autopilot
// or an operator removes it.
func TestNewLeaderKeepsAServerThatLeftAndCameBack(t *testing.T) {
	dirs := map[string]string{"s0": t.TempDir(), "s1": t.TempDir(), "s2": t.TempDir(), "s3": t.TempDir()}
	blocks := map[string]*testnet.Block{"s0": testnet.Take(t), "s1": testnet.Take(t), "s2": testnet.Take(t), "s3": testnet.Take(t)}
	place := func(c *server.Config) {
		conf := nomad.DefaultAutopilotConfig()
		conf.CleanupDeadServers = false
		c.Autopilot = &conf
		c.DataDir, c.RPCAddr, c.SerfAddr = dirs[c.Name], blocks[c.Name].Addr(4647), blocks[c.Name].Addr(4648)
	}
	all := cluster(t, 3, place)
	leader, followers := split(t, all)
	back, next := followers[0], followers[1]
	name, id := strings.TrimSuffix(back.Self().Name, ".global"), back.Self().Tags["id"]
	if err := back.Leave(within(t)); err != nil {
		t.Fatal(err)
	}
	back.stop()
	waitStatus(t, next, id, "left")
	waitVoters(t, []member{leader, next}, 2)

	joining := func(c *server.Config) {
		place(c)
		c.StartJoin = []string{next.gossipAddr()}
	}
	again := startMember(t, name, joining)
	waitVoters(t, []member{leader, next, again}, 3)
	waitStatus(t, next, id, "alive")
	again.stop()
	waitStatus(t, next, id, "failed")
	transfer(t, []member{leader, next}, next)
	startMember(t, "s3", joining)
	eventually(t, func() bool { // the new leader has compared the members with its configuration
		servers, err := next.RaftServers()
		return err == nil && slices.ContainsFunc(servers, func(s *nomad.RaftServer) bool { return s.Node == "s3.global" })
	})
	if !inLog(t, next, id) {
		t.Errorf("the new leader removed server %s, which failed and did not leave", name)
	}
}
