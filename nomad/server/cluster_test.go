package server_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/internal/testnet"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/server"
	"github.com/open-nomad/open-nomad/nomad/server/servertest"
)

func TestFollower_SameCalls(t *testing.T) {
	all := servertest.Cluster(t, 3, nil)
	_, followers := servertest.Split(t, all)
	f := followers[0]
	n := servertest.Join(t, f.RPCAddr())
	servertest.Register(t, f.Server, servertest.BatchJob("b", 1))
	alloc := n.Allocs(1)[0]
	if alloc.SignedIdentities["t"] == "" {
		t.Error("the allocation has no identity")
	}
	n.Heartbeat(n.JWT, false)
	for _, m := range all {
		servertest.Eventually(t, func() bool {
			stale := message.QueryOptions{Region: "global", AllowStale: true}
			var got message.SingleJobResponse
			err := m.Call(servertest.Context(t), "Job.GetJob", &message.JobSpecificRequest{JobID: "b", QueryOptions: stale}, &got)
			return err == nil && got.Job != nil && got.KnownLeader && got.LastContact < 5*time.Second
		})
	}
	servertest.Eventually(t, func() bool { return len(n.Heartbeat(n.JWT, false).Servers) == 3 })
	servertest.Eventually(t, func() bool {
		members := servertest.Read[message.ServerMembersResponse](t, f.Server, "Status.Members",
			&message.GenericRequest{QueryOptions: servertest.Global})
		return len(members.Members) == 3
	})
	if peers := servertest.Read[[]string](t, f.Server, "Status.Peers",
		&message.GenericRequest{QueryOptions: servertest.Global}); len(peers) != 3 {
		t.Errorf("Status.Peers = %v", peers)
	}
}

func TestWorkers_FollowersOnly(t *testing.T) {
	all := servertest.Cluster(t, 3, func(c *server.Config) {
		if c.Name == "s0" {
			c.Workers = -1
		}
	})
	leader, _ := servertest.Split(t, all)
	if leader.Server != all[0].Server {
		servertest.TransferLeadership(t, all, all[0])
	}
	n := servertest.Join(t, all[1].RPCAddr())
	servertest.Register(t, all[2].Server, servertest.BatchJob("b", 2))
	n.Allocs(2)
}

func TestLeader_Stops(t *testing.T) {
	all := servertest.Cluster(t, 3, nil)
	for i := range 2 {
		servertest.Register(t, all[i].Server, servertest.BatchJob(fmt.Sprintf("before-%d", i), 0))
	}
	leader, followers := servertest.Split(t, all)
	leader.Stop()
	begun := time.Now()
	servertest.Register(t, followers[0].Server, servertest.BatchJob("after", 0))
	t.Logf("the next write was acknowledged after %v", time.Since(begun))
	for _, id := range []string{"before-0", "before-1", "after"} {
		for _, f := range followers {
			if got := servertest.Read[message.SingleJobResponse](t, f.Server, "Job.GetJob", servertest.JobRequest(id)); got.Job == nil {
				t.Errorf("job %s is lost", id)
			}
		}
	}
}

func TestMembers_LeaveAndForceLeave(t *testing.T) {
	all := servertest.Cluster(t, 4, func(c *server.Config) { // a failed server stays until force-leave
		conf := nomad.DefaultAutopilotConfig()
		conf.CleanupDeadServers = false
		c.Autopilot = &conf
	})
	leader, followers := servertest.Split(t, all)
	gone := followers[0]
	if err := gone.Leave(servertest.Context(t)); err != nil {
		t.Fatal(err)
	}
	gone.Stop()
	rest := []servertest.Member{leader, followers[1], followers[2]}
	servertest.WaitVoters(t, rest, 3)
	followers[1].Stop()
	name := "s"
	for _, m := range leader.Members() {
		if m.Status != "left" && m.Tags["id"] == followers[1].Self().Tags["id"] {
			name = m.Name
		}
	}
	servertest.Eventually(t, func() bool {
		for _, m := range leader.Members() {
			if m.Name == name {
				return m.Status == "failed"
			}
		}
		return false
	})
	if err := leader.ForceLeave(name); err != nil {
		t.Fatal(err)
	}
	servertest.WaitVoters(t, []servertest.Member{leader, followers[2]}, 2)
	err := servertest.Retry(t, func(ctx context.Context) error {
		return leader.Call(ctx, "Operator.RaftRemovePeerByID",
			&message.RaftPeerByIDRequest{ID: nomad.NewID(), WriteRequest: message.WriteRequest{Region: "global"}}, nil)
	})
	servertest.WantError(t, err, 404, "was not found in the Raft configuration")
}

// A leaving server may never receive the entry that removes it, because the leader closes the
// connection at the same moment. The server must not wait for it.
func TestLeave_NoLeader(t *testing.T) {
	all := servertest.Cluster(t, 3, nil)
	leader, followers := servertest.Split(t, all)
	leader.Stop()
	followers[0].Stop()
	servertest.Eventually(t, func() bool {
		_, id := followers[1].Server.Leader()
		return id == ""
	})
	ctx := servertest.Context(t)
	if err := followers[1].Leave(ctx); err != nil {
		t.Error(err)
	}
	if ctx.Err() != nil {
		t.Error("it waited for the complete timeout")
	}
}

func TestJoin_LaterServer(t *testing.T) {
	one := servertest.StartMember(t, "s0", func(c *server.Config) { c.BootstrapExpect = 1 })
	servertest.Register(t, one.Server, servertest.BatchJob("b", 0))
	two := servertest.StartMember(t, "s1", func(c *server.Config) { c.StartJoin = []string{one.GossipAddr()} })
	servertest.WaitVoters(t, []servertest.Member{one, two}, 2)
	if got := servertest.Read[message.SingleJobResponse](t, two.Server, "Job.GetJob", servertest.JobRequest("b")); got.Job == nil {
		t.Error("the new server has no job")
	}
	// A server that bootstrapped its own cluster cannot join.
	three := servertest.StartMember(t, "s2", func(c *server.Config) { c.BootstrapExpect = 1 })
	if _, err := three.Join([]string{one.GossipAddr()}); err == nil || !strings.Contains(err.Error(), "each bootstrapped a cluster") {
		t.Errorf("Join() = %v", err)
	}
}

func TestRegions_Federation(t *testing.T) {
	here := servertest.StartMember(t, "s0", func(c *server.Config) { c.BootstrapExpect = 1 })
	there := servertest.StartMember(t, "s0", func(c *server.Config) { c.BootstrapExpect, c.Region = 1, "far" })
	if _, err := there.Join([]string{here.GossipAddr()}); err != nil {
		t.Fatal(err)
	}
	servertest.Eventually(t, func() bool { return len(here.Members()) == 2 && len(there.Members()) == 2 })
	var regions []string
	if err := here.Call(servertest.Context(t), "Region.List", &message.GenericRequest{}, &regions); err != nil ||
		fmt.Sprint(regions) != "[far global]" {
		t.Errorf("Region.List = %v, %v", regions, err)
	}
	servertest.Register(t, here.Server, servertest.BatchJob("b", 0))
	q := message.QueryOptions{Region: "global"}
	if got := servertest.Read[message.SingleJobResponse](t, there.Server, "Job.GetJob",
		&message.JobSpecificRequest{JobID: "b", QueryOptions: q}); got.Job == nil {
		t.Error("the other region's job is not found")
	}
	err := there.Call(servertest.Context(t), "Job.GetJob",
		&message.JobSpecificRequest{JobID: "b", QueryOptions: message.QueryOptions{Region: "none"}}, nil)
	if !errors.Is(err, apierror.ErrNoRegionPath) {
		t.Errorf("an unknown region: %v", err)
	}
	for _, m := range []servertest.Member{here, there} {
		if voters, err := m.RaftServers(); err != nil || len(voters) != 1 {
			t.Errorf("%d voters, %v", len(voters), err)
		}
	}
}

func TestRestart_RejoinsWithData(t *testing.T) {
	for name, keep := range map[string]bool{"and the list of members": true, "killed before it noted the members": false} {
		t.Run(name, func(t *testing.T) { comesBack(t, keep) })
	}
}

// comesBack stops a follower and starts it again, with or without its gossip snapshot.
func comesBack(t *testing.T, keep bool) {
	dirs := map[string]string{"s0": t.TempDir(), "s1": t.TempDir(), "s2": t.TempDir()}
	blocks := map[string]*testnet.Block{"s0": testnet.Take(t), "s1": testnet.Take(t), "s2": testnet.Take(t)}
	place := func(c *server.Config) {
		c.DataDir, c.RPCAddr, c.SerfAddr = dirs[c.Name], blocks[c.Name].Addr(4647), blocks[c.Name].Addr(4648)
	}
	all := servertest.Cluster(t, 3, place)
	_, followers := servertest.Split(t, all)
	back := followers[0]
	name := strings.TrimSuffix(back.Self().Name, ".global")
	id := back.Self().Tags["id"]
	back.Stop()
	servertest.Register(t, followers[1].Server, servertest.BatchJob("meanwhile", 0))
	if !keep {
		if err := os.Truncate(filepath.Join(dirs[name], "server", "serf", "snapshot"), 0); err != nil {
			t.Fatal(err)
		}
	}
	// It finds the others without configuration.
	again := servertest.StartMember(t, name, place)
	if got := again.Self().Tags["id"]; got != id {
		t.Errorf("it returns with the ID %s, not %s", got, id)
	}
	servertest.Eventually(t, func() bool {
		var got message.SingleJobResponse
		stale := message.QueryOptions{Region: "global", AllowStale: true}
		err := again.Call(servertest.Context(t), "Job.GetJob", &message.JobSpecificRequest{JobID: "meanwhile", QueryOptions: stale}, &got)
		return err == nil && got.Job != nil && len(again.Members()) == 3
	})
}
