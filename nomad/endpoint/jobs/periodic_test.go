package jobs_test

import (
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/server"
	"github.com/open-nomad/open-nomad/nomad/server/servertest"
)

// launches returns the times of the launches of the job cron, oldest first. It fails the test if
// one happened twice.
func launches(t *testing.T, s *server.Server) []time.Time {
	t.Helper()
	list := servertest.Read[message.JobListResponse](t, s, "Job.List", &message.JobListRequest{
		QueryOptions: message.QueryOptions{Namespace: "default", Prefix: "cron/"}})
	var out []time.Time
	for _, child := range list.Jobs {
		at, ok := nomad.LaunchTime("cron", child.ID)
		if !ok || child.ParentID != "cron" {
			t.Errorf("launch %+v", child)
		}
		job := servertest.Read[message.SingleJobResponse](t, s, "Job.GetJob", servertest.JobRequest(child.ID)).Job
		evals := servertest.Read[message.JobEvaluationsResponse](t, s, "Job.Evaluations", servertest.JobRequest(child.ID)).Evaluations
		if job.Version != 0 || len(evals) == 0 || evals[len(evals)-1].TriggeredBy != nomad.EvalTriggerPeriodicJob {
			t.Errorf("launch %s has version %d and %d evaluations", child.ID, job.Version, len(evals))
		}
		out = append(out, at)
	}
	return out
}

// A leader that stops is followed by one that launches the periodic jobs, at once and never twice.
func TestPeriodic_TwoLeaders(t *testing.T) {
	all := servertest.Cluster(t, 3, nil)
	job := servertest.BatchJob("cron", 0)
	job.Periodic = &nomad.PeriodicConfig{Enabled: true, Spec: "* * * * * * *"}
	servertest.Register(t, all[0].Server, job)
	leader, followers := servertest.Split(t, all)
	more := func(s *server.Server, n int) []time.Time {
		var at []time.Time
		servertest.Eventually(t, func() bool { at = launches(t, s); return len(at) >= n })
		return at
	}
	before := more(leader.Server, 2)
	servertest.TransferLeadership(t, all, followers[0])
	between := more(followers[0].Server, len(before)+2)
	followers[0].Stop()
	last := more(followers[1].Server, len(between)+2)
	for i := 1; i < len(last); i++ {
		if !last[i].After(last[i-1]) {
			t.Errorf("launches %v", last)
		}
	}
	// Seconds without a leader are made up for once, so at most the time of two elections is missing.
	t.Logf("%d launches in %v", len(last), last[len(last)-1].Sub(last[0])+time.Second)
}

// Force launches a job over RPC, Plan reports the next launch, and an invalid job is refused.
func TestPeriodic_Force(t *testing.T) {
	s, _ := servertest.Start(t, nil)
	n := servertest.Join(t, s.RPCAddr())
	job := servertest.BatchJob("cron", 1)
	job.Periodic = &nomad.PeriodicConfig{Enabled: true, Spec: "0 0 1 1 *", TimeZone: "Asia/Tokyo"}
	plan := servertest.Read[message.JobPlanResponse](t, s, "Job.Plan", &message.JobPlanRequest{Job: job})
	if next := plan.NextPeriodicLaunch.UTC(); next.Before(time.Now()) || next.Month() != time.December || next.Day() != 31 ||
		next.Hour() != 15 {
		t.Errorf("next launch %v", plan.NextPeriodicLaunch)
	}
	if reg := servertest.Register(t, s, job); reg.EvalID != "" {
		t.Error("a periodic job is evaluated")
	}
	out := servertest.Read[message.PeriodicForceResponse](t, s, "Periodic.Force", &message.PeriodicForceRequest{JobID: "cron",
		WriteRequest: message.WriteRequest{Namespace: "default"}})
	a := n.Allocs(1)[0]
	if a.EvalID != out.EvalID || a.Job.ParentID != "cron" || !strings.HasPrefix(a.JobID, "cron/periodic-") {
		t.Errorf("Periodic.Force = %+v, allocation of %q by %s", out, a.JobID, a.EvalID)
	}
	if claims := servertest.Claims(t, a.SignedIdentities["t"]); claims["nomad_job_id"] != "cron" {
		t.Errorf("the launch has the identity of %v", claims["nomad_job_id"])
	}
	job = servertest.BatchJob("other", 1)
	job.Periodic = &nomad.PeriodicConfig{Enabled: true, Spec: "0 0 31 2 *"}
	err := s.Call(servertest.Context(t), "Job.Register", &message.JobRegisterRequest{Job: job}, nil)
	if !servertest.IsCoded(err, 400, "never fires again") {
		t.Errorf("Job.Register = %v", err)
	}
	err = s.Call(servertest.Context(t), "Periodic.Force", &message.PeriodicForceRequest{JobID: "other"}, nil)
	if !servertest.IsCoded(err, 404, "job not found") {
		t.Errorf("Periodic.Force = %v", err)
	}
}
