package e2e

import (
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/e2e/cluster"
)

// voters waits until the Raft configuration has count voters, according to a server.
func (s *servers) voters(through *cluster.Agent, count int) {
	s.t.Helper()
	within(s.t, 20*time.Second, fmt.Sprintf("%d voters", count), func() bool {
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
func (s *servers) status(through *cluster.Agent, name, status string) {
	s.t.Helper()
	within(s.t, 40*time.Second, name+" is "+status, func() bool {
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
	cfg := filepath.Join(tempDir(t), "leave.hcl")
	write(t, cfg, "leave_on_terminate = true\nautopilot {\n  server_stabilization_time = \"1s\"\n}\nserver {\n  rejoin_after_leave = true\n}\n")
	s := startServersWith(t, func(o *cluster.Options) { o.Args = append(o.Args, "-config="+cfg) })
	lead := s.agreed()
	s.write(s.all[lead])
	next, last := (lead+1)%3, (lead+2)%3
	name := func(i int) string { return fmt.Sprintf("s%d.global", i) }

	begun := time.Now()
	if err := s.all[lead].Stop(); err != nil {
		t.Fatal(err)
	}
	t.Logf("the leader left within %v", time.Since(begun))
	s.voters(s.all[next], 2)
	s.status(s.all[next], name(lead), "left")
	s.write(s.all[next])
	s.check(s.all[last], false)

	s.all[lead] = again(t, s.all[lead])
	s.voters(s.all[next], 3)
	s.status(s.all[next], name(lead), "alive")
	s.check(s.all[lead], true)

	// SIGINT does not leave, since leave_on_interrupt is off: it stays a voter.
	if err := s.all[last].Interrupt(); err != nil {
		t.Fatal(err)
	}
	s.voters(s.all[next], 3)
	s.write(s.all[next])
	s.all[last] = again(t, s.all[last])
	s.check(s.all[last], true)
	s.voters(s.all[next], 3)
}
