package server_test

import (
	"testing"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/server"
	"github.com/open-nomad/open-nomad/nomad/server/servertest"
)

// setPause sets pause_eval_broker. The leader follows before the call returns.
func setPause(t *testing.T, leader *server.Server, paused bool) {
	t.Helper()
	cfg := nomad.SchedulerConfiguration{PauseEvalBroker: paused}
	req := &message.SchedulerSetConfigRequest{Config: cfg, WriteRequest: message.WriteRequest{Region: "global"}}
	var resp message.SchedulerSetConfigurationResponse
	if err := leader.Call(servertest.Context(t), "Operator.SchedulerSetConfiguration", req, &resp); err != nil || !resp.Updated {
		t.Fatalf("set pause_eval_broker = %t: %v, updated: %t", paused, err, resp.Updated)
	}
	if leader.BrokerEnabled() == paused {
		t.Errorf("pause_eval_broker is %t, and the broker is enabled: %t", paused, leader.BrokerEnabled())
	}
}

// A pause outlasts the leader. Afterwards the evaluations that were created meanwhile are processed.
func TestPauseBroker_NextLeader(t *testing.T) {
	all := servertest.Cluster(t, 3, nil)
	leader, followers := servertest.Split(t, all)
	servertest.Eventually(t, leader.BrokerEnabled)
	setPause(t, leader.Server, true)
	servertest.Register(t, leader.Server, servertest.BatchJob("first", 0))
	next := followers[0]
	servertest.TransferLeadership(t, all, next)
	servertest.Register(t, next.Server, servertest.BatchJob("second", 0)) // the new leader works
	if next.BrokerEnabled() {
		t.Error("the new leader does not keep the pause")
	}
	statuses := func() map[string]int {
		out := map[string]int{}
		for _, job := range []string{"first", "second"} {
			for _, e := range servertest.Read[message.JobEvaluationsResponse](t, next.Server, "Job.Evaluations",
				servertest.JobRequest(job)).Evaluations {
				out[e.Status]++
			}
		}
		return out
	}
	if got := statuses(); got[nomad.EvalStatusPending] != 2 {
		t.Errorf("evaluations during the pause are %v, want 2 pending", got)
	}
	setPause(t, next.Server, false)
	servertest.Eventually(t, func() bool { return statuses()[nomad.EvalStatusComplete] == 2 })
	setPause(t, next.Server, true)
	setPause(t, next.Server, true) // no change
	setPause(t, next.Server, false)
	servertest.Register(t, next.Server, servertest.BatchJob("first", 0))
	servertest.Eventually(t, func() bool { return statuses()[nomad.EvalStatusComplete] == 3 })
}

// A cluster may begin with a paused broker.
func TestPauseBroker_AtStart(t *testing.T) {
	s, _ := servertest.Start(t, func(c *server.Config) { c.Scheduler.PauseEvalBroker = true })
	servertest.Register(t, s, servertest.BatchJob("first", 0))
	if s.BrokerEnabled() {
		t.Error("the broker is enabled")
	}
}
