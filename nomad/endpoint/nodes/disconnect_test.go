package nodes_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/server"
	"github.com/open-nomad/open-nomad/nomad/server/servertest"
)

// silentSoon marks a node as disconnected some seconds after its last heartbeat, also after an election.
func silentSoon(c *server.Config) {
	c.MinHeartbeatTTL, c.HeartbeatGrace, c.FailoverHeartbeatTTL, c.MaxHeartbeatsPerSecond = time.Second, 2*time.Second, 3*time.Second, 1e6
}

// unknownAlloc starts three servers, and returns an allocation that is unknown, its node, and the leader first.
func unknownAlloc(t *testing.T, d *nomad.DisconnectStrategy) (all []servertest.Member, n *servertest.FakeNode, alloc *nomad.Allocation) {
	t.Helper()
	all = servertest.Cluster(t, 3, silentSoon)
	leader, followers := servertest.Split(t, all)
	all = append([]servertest.Member{leader}, followers...)
	n = servertest.Join(t, followers[1].RPCAddr())
	job := servertest.BatchJob("web", 1)
	job.Type = nomad.JobTypeService
	job.TaskGroups[0].Disconnect = d
	job.TaskGroups[0].ReschedulePolicy = &nomad.ReschedulePolicy{Unlimited: true, Delay: 2 * time.Hour, DelayFunction: "constant"}
	servertest.Register(t, leader.Server, job)
	alloc = n.Allocs(1)[0]
	n.Report(nomad.AllocClientStatusRunning, alloc)
	servertest.Eventually(t, func() bool {
		return storedAlloc(t, leader.Server, alloc.ID).ClientStatus == nomad.AllocClientStatusUnknown
	})
	return all, n, alloc
}

func storedAlloc(t *testing.T, s *server.Server, id string) *nomad.Allocation {
	t.Helper()
	return servertest.Read[message.SingleAllocResponse](t, s, "Alloc.GetAlloc",
		&message.AllocSpecificRequest{AllocID: id, QueryOptions: servertest.Global}).Alloc
}

// evalsBy returns the evaluations of the job web with a trigger.
func evalsBy(t *testing.T, s *server.Server, trigger string) (out []*nomad.Evaluation) {
	t.Helper()
	for _, e := range servertest.Read[message.JobEvaluationsResponse](t, s, "Job.Evaluations", servertest.JobRequest("web")).Evaluations {
		if e.TriggeredBy == trigger {
			out = append(out, e)
		}
	}
	return out
}

// live sends heartbeats of the node until the test ends.
func keepAlive(n *servertest.FakeNode) {
	ctx, cancel := context.WithCancel(context.Background())
	var done sync.WaitGroup
	done.Go(func() {
		tick := time.NewTicker(300 * time.Millisecond)
		defer tick.Stop()
		for ctx.Err() == nil {
			once, stop := context.WithTimeout(ctx, 10*time.Second)
			// An error means that no leader answers now. The next heartbeat follows.
			_ = n.Pool.Call(once, n.Addr, "Node.UpdateStatus", &message.NodeUpdateStatusRequest{NodeID: n.Node.ID,
				Status: nomad.NodeStatusReady, WriteRequest: n.Write(n.JWT)}, &message.NodeUpdateResponse{})
			stop()
			select {
			case <-ctx.Done():
			case <-tick.C:
			}
		}
	})
	n.T.Cleanup(func() { cancel(); done.Wait() })
}

// The time of an unknown allocation ends once, under a later leader than the one under which it began.
func TestDisconnect_LostUnderNextLeader(t *testing.T) {
	t.Parallel()
	no := false
	all, _, alloc := unknownAlloc(t, &nomad.DisconnectStrategy{LostAfter: 10 * time.Second, Replace: &no})
	servertest.TransferLeadership(t, all, all[1])
	other := servertest.Join(t, all[2].RPCAddr())
	keepAlive(other)
	all[1].Stop() // a third leader follows
	s := all[2].Server
	servertest.Eventually(t, func() bool { return storedAlloc(t, s, alloc.ID).ClientStatus == nomad.AllocClientStatusLost })
	if got := other.Allocs(1); len(got) != 1 || got[0].PreviousAllocation != alloc.ID {
		t.Errorf("replacements %+v", got)
	}
	lost := storedAlloc(t, s, alloc.ID)
	if len(lost.AllocStates) != 1 || lost.DesiredStatus != nomad.AllocDesiredStatusStop {
		t.Errorf("the lost allocation is %s, with %d states", lost.DesiredStatus, len(lost.AllocStates))
	}
	if evals := evalsBy(t, s, nomad.EvalTriggerMaxDisconnectTimeout); len(evals) != 1 {
		t.Errorf("%d evaluations for the end of the time, want 1", len(evals))
	}
}

// A client that returns under the next leader gets its allocation back. The follow-up evaluations are canceled for all
// leaders.
func TestDisconnect_ReturnsToNextLeader(t *testing.T) {
	t.Parallel()
	all, n, alloc := unknownAlloc(t, &nomad.DisconnectStrategy{LostAfter: time.Hour})
	servertest.TransferLeadership(t, all, all[1])
	s := all[2].Server
	keepAlive(n)
	servertest.Eventually(t, func() bool { return n.Stored(s).Status == nomad.NodeStatusInit })
	n.Report(nomad.AllocClientStatusRunning, alloc)
	servertest.Eventually(t, func() bool { return n.Stored(s).Status == nomad.NodeStatusReady })
	servertest.Eventually(t, func() bool {
		got := storedAlloc(t, s, alloc.ID)
		return got.ClientStatus == nomad.AllocClientStatusRunning && !got.WasUnknown() && got.FollowupEvalID == ""
	})
	check := func(when string) {
		t.Helper()
		for _, trigger := range []string{nomad.EvalTriggerMaxDisconnectTimeout, nomad.EvalTriggerAllocReschedule} {
			evals := evalsBy(t, s, trigger)
			if len(evals) != 1 || evals[0].Status != nomad.EvalStatusCancelled || evals[0].StatusDescription != "allocs reconnected" {
				t.Errorf("%s: evaluations by %s: %+v", when, trigger, evals)
			}
		}
		if got := storedAlloc(t, s, alloc.ID); len(got.AllocStates) != 2 || got.DesiredStatus != nomad.AllocDesiredStatusRun {
			t.Errorf("%s: the allocation is %s, with %d states", when, got.DesiredStatus, len(got.AllocStates))
		}
	}
	check("second leader")
	servertest.TransferLeadership(t, all, all[2])
	// An evaluation that the third leader processes shows that it has read the state.
	out := servertest.Read[message.JobRegisterResponse](t, s, "Job.Evaluate", &message.JobEvaluateRequest{JobID: "web",
		WriteRequest: message.WriteRequest{Region: "global", Namespace: "default"}})
	servertest.Eventually(t, func() bool {
		e := servertest.Read[message.SingleEvalResponse](t, s, "Eval.GetEval",
			&message.EvalSpecificRequest{EvalID: out.EvalID, QueryOptions: servertest.Global}).Eval
		return e.Status == nomad.EvalStatusComplete
	})
	check("third leader")
}
