package servertest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/internal/testnet"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/server"
)

// FastAutopilot makes autopilot check often and accept a slow machine as healthy.
func FastAutopilot(c *server.Config) {
	conf := nomad.DefaultAutopilotConfig()
	conf.LastContactThreshold, conf.ServerStabilizationTime = 10*time.Second, 100*time.Millisecond
	c.Autopilot, c.AutopilotInterval = &conf, 200*time.Millisecond
}

// Member is one server of a cluster.
type Member struct {
	*server.Server
	Stop func()
}

// StartMember runs a server with gossip.
func StartMember(t *testing.T, name string, change func(*server.Config)) Member {
	t.Helper()
	s, stop := Start(t, func(c *server.Config) {
		c.Name, c.SerfAddr, c.GossipProbe = name, testnet.Any, 100*time.Millisecond
		if change != nil {
			change(c)
		}
	})
	return Member{s, stop}
}

// GossipAddr returns the address for joining the server.
func (m Member) GossipAddr() string { return JoinAddr(m.Self()) }

// JoinAddr returns the gossip address of a member.
func JoinAddr(m *message.ServerMember) string { return fmt.Sprintf("%s:%d", m.Addr, m.Port) }

// Cluster starts servers that bootstrap a cluster, and waits until all agree.
func Cluster(t *testing.T, count int, change func(*server.Config)) []Member {
	t.Helper()
	var all []Member
	for i := range count {
		all = append(all, StartMember(t, fmt.Sprintf("s%d", i), func(c *server.Config) {
			c.BootstrapExpect = count
			if i > 0 {
				c.RetryJoin = []string{all[0].GossipAddr()}
			}
			if change != nil {
				change(c)
			}
		}))
	}
	WaitVoters(t, all, count)
	return all
}

// WaitVoters waits until every server has the same leader and number of voters.
func WaitVoters(t *testing.T, all []Member, count int) {
	t.Helper()
	Eventually(t, func() bool {
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

// Split returns the leader and the followers, after an election.
func Split(t *testing.T, all []Member) (leader Member, followers []Member) {
	t.Helper()
	Eventually(t, func() bool {
		leader, followers = Member{}, nil
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

// TransferLeadership transfers leadership to a server. It repeats the transfer if the server loses the
// election on a busy machine.
func TransferLeadership(t *testing.T, all []Member, to Member) {
	t.Helper()
	id := to.Self().Tags["id"]
	var last error
	defer func() {
		if t.Failed() {
			t.Logf("TransferLeadershipToPeer: %v", last)
		}
	}()
	Eventually(t, func() bool {
		var out message.LeadershipTransferResponse
		last = all[0].Call(Context(t), "Operator.TransferLeadershipToPeer",
			&message.RaftPeerRequest{RaftIDAddress: message.RaftIDAddress{ID: id}, WriteRequest: message.WriteRequest{Region: "global"}}, &out)
		if last == nil && out.To.ID != id {
			t.Fatalf("TransferLeadershipToPeer = %+v", out)
		}
		_, now := to.Leader()
		return now == id
	})
}

// AllAnswer reports whether every server gets an answer from the leader.
func AllAnswer(all []Member) bool {
	for _, m := range all {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		err := m.Call(ctx, "Job.List", &message.JobListRequest{QueryOptions: Global}, nil)
		cancel()
		if err != nil {
			return false
		}
	}
	return true
}
