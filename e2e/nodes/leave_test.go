package nodes_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/e2e/cluster"
	"github.com/open-nomad/open-nomad/e2e/harness"
)

// voters waits until the Raft configuration has count voters, according to a server.
func waitVoters(s *harness.Servers, through *cluster.Agent, count int) {
	s.T.Helper()
	harness.Within(s.T, 20*time.Second, fmt.Sprintf("%d voters", count), func() bool {
		conf, err := through.Client.Operator().RaftGetConfiguration(nil)
		if err != nil {
			return false
		}
		votes := 0
		for _, server := range conf.Servers {
			if server.Voter {
				votes++
			}
		}
		return votes == count
	})
}

// status waits until a server has the status in the member list.
func waitMember(s *harness.Servers, through *cluster.Agent, name, status string) {
	s.T.Helper()
	harness.Within(s.T, 40*time.Second, name+" is "+status, func() bool {
		m, err := through.Client.Agent().Members()
		if err != nil {
			return false
		}
		return slices.ContainsFunc(m.Members, func(m *api.AgentMember) bool { return m.Name == name && m.Status == status })
	})
}

// A leader that leaves is removed at once and others lead. With rejoin_after_leave it returns by
// itself, with its data. A server that ends without leaving stays a voter.
func TestServersLeaveAndRejoin(t *testing.T) {
	cfg := filepath.Join(harness.TempDir(t), "leave.hcl")
	harness.WriteFile(t, cfg, "leave_on_terminate = true\nautopilot {\n  server_stabilization_time = \"1s\"\n}\nserver {\n"+
		"  rejoin_after_leave = true\n}\n")
	s := harness.StartServersWith(t, func(o *cluster.Options) { o.Args = append(o.Args, "-config="+cfg) })
	lead := s.Agreed()
	s.Write(s.All[lead])
	next, last := (lead+1)%3, (lead+2)%3
	name := func(i int) string { return fmt.Sprintf("s%d.global", i) }

	begun := time.Now()
	if err := s.All[lead].Stop(); err != nil {
		t.Fatal(err)
	}
	t.Logf("the leader left within %v", time.Since(begun))
	waitVoters(s, s.All[next], 2)
	waitMember(s, s.All[next], name(lead), "left")
	s.Write(s.All[next])
	s.Check(s.All[last], false)

	s.All[lead] = harness.Restart(t, s.All[lead])
	waitVoters(s, s.All[next], 3)
	waitMember(s, s.All[next], name(lead), "alive")
	s.Check(s.All[lead], true)

	// SIGINT does not leave, since leave_on_interrupt is off: it stays a voter.
	if err := s.All[last].Interrupt(); err != nil {
		t.Fatal(err)
	}
	waitVoters(s, s.All[next], 3)
	s.Write(s.All[next])
	s.All[last] = harness.Restart(t, s.All[last])
	s.Check(s.All[last], true)
	waitVoters(s, s.All[next], 3)
}
