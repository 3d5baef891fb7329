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
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rpc"
	"github.com/open-nomad/open-nomad/nomad/server"
)

// member is one server of a cluster.
type member struct {
	*server.Server
	stop func()
}

// startMember runs a server with gossip.
func startMember(t *testing.T, name string, change func(*server.Config)) member {
	t.Helper()
	s, stop := start(t, func(c *server.Config) {
		c.Name, c.SerfAddr, c.GossipProbe = name, testnet.Any, 100*time.Millisecond
		if change != nil {
			change(c)
		}
	})
	return member{s, stop}
}

// gossipAddr returns the address for joining the server.
func (m member) gossipAddr() string { return joinAddr(m.Self()) }

func joinAddr(m *nomad.ServerMember) string { return fmt.Sprintf("%s:%d", m.Addr, m.Port) }

// cluster starts servers that bootstrap a cluster, and waits until all agree.
func cluster(t *testing.T, count int, change func(*server.Config)) []member {
	t.Helper()
	var all []member
	for i := range count {
		all = append(all, startMember(t, fmt.Sprintf("s%d", i), func(c *server.Config) {
			c.BootstrapExpect = count
			if i > 0 {
				c.RetryJoin = []string{all[0].gossipAddr()}
			}
			if change != nil {
				change(c)
			}
		}))
	}
	waitVoters(t, all, count)
	return all
}

// waitVoters waits until every server has the same leader and number of voters.
func waitVoters(t *testing.T, all []member, count int) {
	t.Helper()
	eventually(t, func() bool {
		_, first := all[0].Leader()
		for _, m := range all {
			_, id := m.Leader()
			voters, err := m.RaftServers()
			if id == "" || id != first || err != nil || len(voters) != count {
				return false
			}
		}
		return true
	})
}

// split returns the leader and the followers, after an election.
func split(t *testing.T, all []member) (leader member, followers []member) {
	t.Helper()
	eventually(t, func() bool {
		leader, followers = member{}, nil
		_, id := all[0].Leader()
		for _, m := range all {
			if m.Self().Tags["id"] == id {
				leader = m
			} else {
				followers = append(followers, m)
			}
		}
		return leader.Server != nil
	})
	return leader, followers
}

func TestAFollowerTakesWhatTheLeaderTakes(t *testing.T) {
	all := cluster(t, 3, nil)
	_, followers := split(t, all)
	f := followers[0]
	n := join(t, f.RPCAddr())
	register(t, f.Server, batchJob("b", 1))
	alloc := n.allocs(1)[0]
	if alloc.SignedIdentities["t"] == "" {
		t.Error("the allocation has no identity")
	}
	n.beat(n.jwt, false)
	for _, m := range all {
		eventually(t, func() bool {
			stale := message.QueryOptions{Region: "global", AllowStale: true}
			var got message.SingleJobResponse
			err := m.Call(within(t), "Job.GetJob", &message.JobSpecificRequest{JobID: "b", QueryOptions: stale}, &got)
			return err == nil && got.Job != nil && got.KnownLeader && got.LastContact < 5*time.Second
		})
	}
	eventually(t, func() bool { return len(n.beat(n.jwt, false).Servers) == 3 })
	eventually(t, func() bool {
		members := read[message.ServerMembersResponse](t, f.Server, "Status.Members", &message.GenericRequest{QueryOptions: global})
		return len(members.Members) == 3
	})
	if peers := read[[]string](t, f.Server, "Status.Peers", &message.GenericRequest{QueryOptions: global}); len(peers) != 3 {
		t.Errorf("Status.Peers = %v", peers)
	}
}

func TestOnlyWorkersOfFollowersWork(t *testing.T) {
	all := cluster(t, 3, func(c *server.Config) {
		if c.Name == "s0" {
			c.Workers = -1
		}
	})
	leader, _ := split(t, all)
	if leader.Server != all[0].Server {
		transfer(t, all, all[0])
	}
	n := join(t, all[1].RPCAddr())
	register(t, all[2].Server, batchJob("b", 2))
	n.allocs(2)
}

// transfer transfers leadership to a server. It repeats the transfer if the server loses the
// election on a busy machine.
func transfer(t *testing.T, all []member, to member) {
	t.Helper()
	id := to.Self().Tags["id"]
	var last error
	defer func() {
		if t.Failed() {
			t.Logf("TransferLeadershipToPeer: %v", last)
		}
	}()
	eventually(t, func() bool {
		var out message.LeadershipTransferResponse
		last = all[0].Call(within(t), "Operator.TransferLeadershipToPeer",
			&message.RaftPeerRequest{RaftIDAddress: nomad.RaftIDAddress{ID: id}, WriteRequest: message.WriteRequest{Region: "global"}}, &out)
		if last == nil && out.To.ID != id {
			t.Fatalf("TransferLeadershipToPeer = %+v", out)
		}
		_, now := to.Leader()
		return now == id
	})
}

func TestALeaderThatStopsIsReplaced(t *testing.T) {
	all := cluster(t, 3, nil)
	for i := range 2 {
		register(t, all[i].Server, batchJob(fmt.Sprintf("before-%d", i), 0))
	}
	leader, followers := split(t, all)
	leader.stop()
	begun := time.Now()
	register(t, followers[0].Server, batchJob("after", 0))
	t.Logf("the next write was acknowledged after %v", time.Since(begun))
	for _, id := range []string{"before-0", "before-1", "after"} {
		for _, f := range followers {
			if got := read[message.SingleJobResponse](t, f.Server, "Job.GetJob", jobRead(id)); got.Job == nil {
				t.Errorf("job %s is lost", id)
			}
		}
	}
}

func TestCallsAreRelayedThroughTheServerOfTheNode(t *testing.T) {
	all := cluster(t, 3, nil)
	_, followers := split(t, all)
	n := join(t, followers[0].RPCAddr())
	n.pool.Close()
	p := rpc.NewPool(rpc.PoolConfig{Serve: relayed(t)})
	t.Cleanup(func() { p.Close() })
	n.pool = p
	n.beat(n.jwt, false)
	register(t, all[0].Server, batchJob("b", 1))
	id := n.allocs(1)[0].ID
	for _, m := range all {
		eventually(t, func() bool {
			var got message.AllocStatsResponse
			err := m.Call(within(t), "ClientAllocations.Stats", &message.AllocStatsRequest{AllocID: id}, &got)
			return err == nil && got.Stats.Timestamp == 7
		})
		eventually(t, func() bool { // a server may take two seconds to answer
			st, err := m.Stream(within(t), "FileSystem.Logs")
			if err != nil {
				return false
			}
			defer st.Close()
			var frame nomad.StreamErrWrapper
			err = errors.Join(st.Encode(&message.FsLogsRequest{AllocID: id, Task: "t"}), st.Decode(&frame))
			return err == nil && string(frame.Payload) == "log of t"
		})
	}
}

func TestServersLeaveAndAreRemoved(t *testing.T) {
	all := cluster(t, 4, func(c *server.Config) { // a failed server stays until force-leave
		conf := nomad.DefaultAutopilotConfig()
		conf.CleanupDeadServers = false
		c.Autopilot = &conf
	})
	leader, followers := split(t, all)
	gone := followers[0]
	if err := gone.Leave(within(t)); err != nil {
		t.Fatal(err)
	}
	gone.stop()
	rest := []member{leader, followers[1], followers[2]}
	waitVoters(t, rest, 3)
	followers[1].stop()
	name := "s"
	for _, m := range leader.Members() {
		if m.Status != "left" && m.Tags["id"] == followers[1].Self().Tags["id"] {
			name = m.Name
		}
	}
	eventually(t, func() bool {
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
	waitVoters(t, []member{leader, followers[2]}, 2)
	err := led(t, func(ctx context.Context) error {
		return leader.Call(ctx, "Operator.RaftRemovePeerByID", &message.RaftPeerByIDRequest{ID: nomad.NewID(), WriteRequest: message.WriteRequest{Region: "global"}}, nil)
	})
	failsWith(t, err, 404, "was not found in the Raft configuration")
}

// A leaving server may never receive the entry that removes it, because the leader closes the
// connection at the same moment. The server must not wait for it.
func TestLeaveWithoutLeaderContact(t *testing.T) {
	all := cluster(t, 3, nil)
	leader, followers := split(t, all)
	leader.stop()
	followers[0].stop()
	eventually(t, func() bool {
		_, id := followers[1].Server.Leader()
		return id == ""
	})
	ctx := within(t)
	if err := followers[1].Leave(ctx); err != nil {
		t.Error(err)
	}
	if ctx.Err() != nil {
		t.Error("it waited for the complete timeout")
	}
}

func TestALaterServerIsAdded(t *testing.T) {
	one := startMember(t, "s0", func(c *server.Config) { c.BootstrapExpect = 1 })
	register(t, one.Server, batchJob("b", 0))
	two := startMember(t, "s1", func(c *server.Config) { c.StartJoin = []string{one.gossipAddr()} })
	waitVoters(t, []member{one, two}, 2)
	if got := read[message.SingleJobResponse](t, two.Server, "Job.GetJob", jobRead("b")); got.Job == nil {
		t.Error("the new server has no job")
	}
	// A server that bootstrapped its own cluster cannot join.
	three := startMember(t, "s2", func(c *server.Config) { c.BootstrapExpect = 1 })
	if _, err := three.Join([]string{one.gossipAddr()}); err == nil || !strings.Contains(err.Error(), "each bootstrapped a cluster") {
		t.Errorf("Join() = %v", err)
	}
}

func TestAnotherRegionIsFederated(t *testing.T) {
	here := startMember(t, "s0", func(c *server.Config) { c.BootstrapExpect = 1 })
	there := startMember(t, "s0", func(c *server.Config) { c.BootstrapExpect, c.Region = 1, "far" })
	if _, err := there.Join([]string{here.gossipAddr()}); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() bool { return len(here.Members()) == 2 && len(there.Members()) == 2 })
	var regions []string
	if err := here.Call(within(t), "Region.List", &message.GenericRequest{}, &regions); err != nil || fmt.Sprint(regions) != "[far global]" {
		t.Errorf("Region.List = %v, %v", regions, err)
	}
	register(t, here.Server, batchJob("b", 0))
	q := message.QueryOptions{Region: "global"}
	if got := read[message.SingleJobResponse](t, there.Server, "Job.GetJob", &message.JobSpecificRequest{JobID: "b", QueryOptions: q}); got.Job == nil {
		t.Error("the other region's job is not found")
	}
	err := there.Call(within(t), "Job.GetJob", &message.JobSpecificRequest{JobID: "b", QueryOptions: message.QueryOptions{Region: "none"}}, nil)
	if !errors.Is(err, nomad.ErrNoRegionPath) {
		t.Errorf("an unknown region: %v", err)
	}
	for _, m := range []member{here, there} {
		if voters, err := m.RaftServers(); err != nil || len(voters) != 1 {
			t.Errorf("%d voters, %v", len(voters), err)
		}
	}
}

func TestAServerComesBackWithItsData(t *testing.T) {
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
	all := cluster(t, 3, place)
	_, followers := split(t, all)
	back := followers[0]
	name := strings.TrimSuffix(back.Self().Name, ".global")
	id := back.Self().Tags["id"]
	back.stop()
	register(t, followers[1].Server, batchJob("meanwhile", 0))
	if !keep {
		if err := os.Truncate(filepath.Join(dirs[name], "server", "serf", "snapshot"), 0); err != nil {
			t.Fatal(err)
		}
	}
	// It finds the others without configuration.
	again := startMember(t, name, place)
	if got := again.Self().Tags["id"]; got != id {
		t.Errorf("it returns with the ID %s, not %s", got, id)
	}
	eventually(t, func() bool {
		var got message.SingleJobResponse
		stale := message.QueryOptions{Region: "global", AllowStale: true}
		err := again.Call(within(t), "Job.GetJob", &message.JobSpecificRequest{JobID: "meanwhile", QueryOptions: stale}, &got)
		return err == nil && got.Job != nil && len(again.Members()) == 3
	})
}
