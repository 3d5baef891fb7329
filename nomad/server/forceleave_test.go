package server_test

import (
	"testing"

	"github.com/open-nomad/open-nomad/nomad/server"
	"github.com/open-nomad/open-nomad/nomad/server/servertest"
)

// statusOf returns the status of the member with a server ID, or "" without such a member.
func statusOf(at *server.Server, id string) string {
	for _, m := range at.Members() {
		if m.Tags["id"] == id {
			return m.Status
		}
	}
	return ""
}

// A member that lives is leaving after force-leave, and stays a voter.
func TestForceLeave_LivingMember(t *testing.T) {
	all := servertest.Cluster(t, 3, nil)
	leader, followers := servertest.Split(t, all)
	self := followers[0].Self()
	servertest.Eventually(t, func() bool { // the member may object before its status is read
		if err := leader.ForceLeave(self.Name); err != nil {
			t.Fatal(err)
		}
		return statusOf(leader.Server, self.Tags["id"]) == "leaving"
	})
	servertest.WaitVoters(t, all, 3)
}

// A member that lives is removed from the list of a server by force-leave with prune there, and from the voters. Other servers
// may keep it: it objects, and they may receive that first.
func TestForceLeave_PruneLivingMember(t *testing.T) {
	leader, followers := servertest.Split(t, servertest.Cluster(t, 3, nil))
	self := followers[0].Self()
	if err := leader.Prune(self.Name); err != nil {
		t.Fatal(err)
	}
	servertest.Eventually(t, func() bool { return statusOf(leader.Server, self.Tags["id"]) == "" })
	servertest.WaitVoters(t, []servertest.Member{leader}, 2)
}
