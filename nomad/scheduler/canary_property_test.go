package scheduler_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/open-nomad/open-nomad/nomad"
)

// TestCanaryProperties applies random events to a job with canaries and checks after each evaluation:
//
//   - there are never more canaries than the deployment has, nor more other allocations than the count
//   - all canaries are of the current deployment, which has not failed
//   - until the promotion, the canaries are the only allocations of the version
//   - a second evaluation changes nothing
func TestCanaryProperties(t *testing.T) {
	for seed := range uint64(150) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 7))
			s := newScript(t)
			s.step("nodes", []string{"4"})
			s.step("job", []string{fmt.Sprintf("count=%d", 2+r.IntN(3)), fmt.Sprintf("canary=%d", 1+r.IntN(2)),
				fmt.Sprintf("max_parallel=%d", 1+r.IntN(3))})
			s.step("eval", nil)
			s.step("healthy", nil)
			s.step("eval", nil)
			for range 25 {
				event := s.random(r)
				s.step("eval", nil)
				s.check(event)
				if got := s.step("eval", nil); s.idle(got) != "" {
					t.Fatalf("after %s: a second evaluation makes %q", event, got)
				}
			}
		})
	}
}

// random applies one event.
func (s *script) random(r *rand.Rand) string {
	d := s.latest()
	active := d.Status == nomad.DeploymentStatusRunning
	if n := s.nodes[fmt.Sprintf("n%d", 1+r.IntN(4))]; r.IntN(5) == 0 {
		n.Status = map[string]string{nomad.NodeStatusReady: nomad.NodeStatusDown, nomad.NodeStatusDown: nomad.NodeStatusReady}[n.Status]
		return "a change of " + n.ID + " to " + n.Status
	}
	switch n := r.IntN(8); {
	case n == 0:
		s.job(nil)
		return "a new version"
	case n == 1 && s.jobs["j"].TaskGroups[0].Count < 6:
		s.job([]string{fmt.Sprintf("count=%d", s.jobs["j"].TaskGroups[0].Count+1)})
		return "a new version with a higher count"
	case n == 2 && active:
		s.step("fail", nil)
		return "a failed deployment"
	case n == 3:
		s.step("failed", []string{"canary"})
		return "failed canaries"
	case n == 4 && len(s.live()) > 0:
		s.report(nomad.AllocClientStatusFailed, nil, s.live()[r.IntN(len(s.live()))])
		return "a failed allocation"
	case n < 7 && active && d.RequiresPromotion():
		s.step("healthy", []string{"canary"})
		if g := d.TaskGroups["g"]; g.HealthyAllocs >= g.DesiredCanaries {
			s.promote()
		}
		return "a promotion"
	}
	s.step("healthy", nil)
	return "healthy allocations"
}

// idle returns the text of a plan that is not empty. A step of a rolling update may follow.
func (s *script) idle(plan []string) string {
	if len(plan) == 1 {
		return ""
	}
	return fmt.Sprint(plan)
}

// check tests the properties.
func (s *script) check(event string) {
	s.t.Helper()
	d, j := s.latest(), s.jobs["j"]
	canaries, others, ofVersion := 0, 0, 0
	for _, a := range s.live() {
		switch {
		case !a.IsCanary():
			others++
			if a.Job.Version == j.Version && a.DeploymentID == d.ID {
				ofVersion++
			}
		case a.DeploymentID != d.ID || d.Status == nomad.DeploymentStatusFailed || d.JobVersion != j.Version:
			s.t.Fatalf("after %s: a canary of version %d is left in a deployment that is %s, of version %d", event, a.Job.Version, d.Status,
				d.JobVersion)
		default:
			canaries++
		}
	}
	g := d.TaskGroups["g"]
	switch {
	case canaries > g.DesiredCanaries:
		s.t.Fatalf("after %s: %d canaries, want at most %d", event, canaries, g.DesiredCanaries)
	case others > j.TaskGroups[0].Count:
		s.t.Fatalf("after %s: %d allocations besides the canaries, want at most %d", event, others, j.TaskGroups[0].Count)
	case g.RequiresPromotion() && d.JobVersion == j.Version && ofVersion > 0:
		s.t.Fatalf("after %s: %d allocations of version %d run before the promotion", event, ofVersion, j.Version)
	}
}
