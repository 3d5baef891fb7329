package scheduler_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/open-nomad/open-nomad/nomad"
)

// TestSystemProperties applies random events to a system job and checks after each evaluation:
//
//   - no node has two live allocations, and each ready node has one
//   - until the promotion, the canaries are the only replacements of outdated allocations, and never more than desired
//   - later, one evaluation replaces at most max_parallel allocations, minus those of the deployment without health
//   - the total of an active deployment is the number of ready nodes
//   - a second evaluation changes nothing
func TestSystemProperties(t *testing.T) {
	for seed := range uint64(200) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 3))
			s := newSystemScript(t)
			s.step("nodes", []string{"5"})
			s.step("job", []string{fmt.Sprintf("canary=%d", []int{0, 20, 50, 100}[r.IntN(4)]), fmt.Sprintf("max_parallel=%d", 1+r.IntN(3))})
			for range 30 {
				event := s.random(r)
				before := s.byNode()
				room := s.room()
				s.step("eval", nil)
				s.check(event, before, room)
				if got := s.step("eval", nil); got[0] != "nothing" {
					t.Fatalf("after %s: a second evaluation makes %q", event, got)
				}
				s.step("complete", nil)
			}
		})
	}
}

// random applies one event.
func (s *systemScript) random(r *rand.Rand) string {
	node := fmt.Sprintf("n%d", 1+r.IntN(5))
	d := s.latest()
	switch n := r.IntN(10); {
	case n == 0 && d != nil:
		s.step("job", nil)
		return "a new version"
	case n == 1:
		s.step("lost", []string{node})
		return "the loss of " + node
	case n == 2 || n == 3:
		s.step("back", []string{node})
		return "the return of " + node
	case n == 4:
		s.step("failed", []string{node})
		return "a failure on " + node
	case n == 5 && d != nil && d.Status == nomad.DeploymentStatusRunning && r.IntN(3) == 0:
		s.step("fail", nil)
		return "a failed deployment"
	case n == 6 && d != nil && d.Active() && d.RequiresPromotion():
		s.step("healthy", nil)
		s.promote()
		return "a promotion"
	case n == 7 && d != nil:
		s.step("healthy", []string{node})
		return "health on " + node
	case n > 7 && d != nil:
		s.step("healthy", nil)
		return "health on all nodes"
	}
	return "nothing"
}

// byNode returns the live allocations by node.
func (s *systemScript) byNode() map[string]*nomad.Allocation {
	out := map[string]*nomad.Allocation{}
	for _, a := range s.live() {
		if out[a.NodeID] != nil {
			s.t.Fatalf("%s has two live allocations", a.NodeID)
		}
		out[a.NodeID] = a
	}
	return out
}

// room returns how many allocations an evaluation may replace.
func (s *systemScript) room() int {
	room := s.jobs["j"].TaskGroups[0].Update.MaxParallel
	d := s.latest()
	if d == nil || d.JobVersion != s.jobs["j"].Version {
		return room
	}
	if d.Status == nomad.DeploymentStatusFailed {
		return 0
	}
	for _, a := range s.live() {
		if s.nodes[a.NodeID].Status == nomad.NodeStatusReady && a.DeploymentID == d.ID && !isHealthy(a) {
			room--
		}
	}
	return max(room, 0)
}

func isHealthy(a *nomad.Allocation) bool {
	return a.DeploymentStatus != nil && a.DeploymentStatus.Healthy != nil && *a.DeploymentStatus.Healthy
}

// check tests the properties.
func (s *systemScript) check(event string, before map[string]*nomad.Allocation, room int) {
	s.t.Helper()
	j, d, now := s.jobs["j"], s.latest(), s.byNode()
	ready, replaced, canaries := 0, 0, 0
	for id, n := range s.nodes {
		if n.Status != nomad.NodeStatusReady {
			continue
		}
		ready++
		a, was := now[id], before[id]
		switch {
		case a == nil:
			s.t.Fatalf("after %s: nothing runs on %s", event, id)
		case was != nil && was.ID != a.ID:
			replaced++
			if d.RequiresPromotion() && !a.IsCanary() {
				s.t.Fatalf("after %s: %s was updated before the promotion", event, id)
			}
		}
		if a.IsCanary() && a.DeploymentID == d.ID {
			canaries++
		}
	}
	switch g := d.TaskGroups["g"]; {
	case replaced > room && !d.RequiresPromotion():
		s.t.Fatalf("after %s: %d allocations replaced, want at most %d", event, replaced, room)
	case canaries > g.DesiredCanaries:
		s.t.Fatalf("after %s: %d canaries, want at most %d", event, canaries, g.DesiredCanaries)
	case d.Active() && d.JobVersion == j.Version && ready > 0 && g.DesiredTotal != ready:
		s.t.Fatalf("after %s: the total is %d with %d ready nodes", event, g.DesiredTotal, ready)
	}
}
