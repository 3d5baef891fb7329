package scheduler_test

import (
	"cmp"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/nomad"
)

// TestSystemScripts runs testdata/system/*.txt: deployments of system jobs. The format is that of the scripts of
// canaries. In addition to their steps, or instead of them:
//
//	node n4 [1.10.5]        adds a ready node, with a version of its client
//	unfit n2 | small n3     adds a node that is not feasible, or has no memory
//	lost n2 | back n2       marks a node as down or ready
//	ineligible n2           marks a node as ineligible
//	healthy [n1 ...]        reports the live allocations of the deployment healthy: all, or those on the nodes
//	failed n1 ...           reports that the live allocations on the nodes failed
//	complete                marks the deployment as successful if it is complete
func TestSystemScripts(t *testing.T) {
	testScripts(t, "system", func(t *testing.T, text string) string { return run(text, newSystemScript(t).step) })
}

// systemScript is a script of a system job.
type systemScript struct{ *script }

func newSystemScript(t *testing.T) *systemScript { return &systemScript{newScript(t)} }

func (s *systemScript) step(verb string, args []string) []string {
	switch verb {
	case "node":
		s.node(args[0], append(args[1:], "2.0.6")[0])
	case "nodes":
		for i := range s.number(args[0]) {
			s.node(fmt.Sprintf("n%d", i+1), "2.0.6")
		}
	case "unfit":
		s.node(args[0], "2.0.6", func(n *nomad.Node) { n.Drivers = nil })
	case "small":
		s.node(args[0], "2.0.6", func(n *nomad.Node) { n.NodeResources.Memory.MemoryMB = 10 })
	case "lost":
		s.nodes[args[0]].Status = nomad.NodeStatusDown
	case "back":
		s.nodes[args[0]].Status = nomad.NodeStatusReady
	case "ineligible":
		s.nodes[args[0]].SchedulingEligibility = nomad.NodeSchedulingIneligible
	case "job":
		s.job(args)
	case "healthy":
		s.healthy(args)
	case "failed":
		s.report(nomad.AllocClientStatusFailed, nil, s.on(args)...)
	case "complete":
		if d := s.latest(); s.done(d) {
			d.Status, d.StatusDescription = nomad.DeploymentStatusSuccessful, nomad.DeploymentStatusDescriptionSuccessful
		}
	case "eval":
		return s.plan()
	default:
		return s.script.step(verb, args)
	}
	return nil
}

func (s *systemScript) node(id, version string, edit ...func(*nomad.Node)) {
	s.addNode(id, append(edit, func(n *nomad.Node) { n.Attributes["nomad.version"] = version })...)
}

// job registers the job, or a changed copy.
func (s *systemScript) job(args []string) {
	if s.jobs["j"] == nil {
		s.register(job(nomad.JobTypeSystem, 1, rolling(1)))
		s.jobs["j"].TaskGroups[0].Update.Stagger = 30 * time.Second
		s.jobs["j"].Version = 0
		s.editFirst(args)
		return
	}
	s.script.job(args)
}

// editFirst sets the fields of version 0.
func (s *systemScript) editFirst(args []string) {
	first := s.jobs["j"]
	s.script.job(args)
	changed := s.jobs["j"]
	changed.Version, changed.ModifyIndex, changed.JobModifyIndex = 0, first.ModifyIndex, first.JobModifyIndex
}

// on returns the live allocations on the nodes.
func (s *systemScript) on(nodes []string) []*nomad.Allocation {
	return slices.DeleteFunc(s.live(), func(a *nomad.Allocation) bool { return !slices.Contains(nodes, a.NodeID) })
}

func (s *systemScript) healthy(nodes []string) {
	healthy := true
	chosen := s.on(nodes)
	if len(nodes) == 0 {
		chosen = s.live()
	}
	chosen = slices.DeleteFunc(chosen, func(a *nomad.Allocation) bool { return a.DeploymentID != s.latest().ID })
	s.report(nomad.AllocClientStatusRunning, &healthy, chosen...)
}

// done reports whether each feasible node runs a healthy allocation of the deployment, as the watcher checks.
func (s *systemScript) done(d *nomad.Deployment) bool {
	n := 0
	for _, a := range s.live() {
		if a.DeploymentID == d.ID && a.DeploymentStatus != nil && a.DeploymentStatus.Healthy != nil && *a.DeploymentStatus.Healthy {
			n++
		}
	}
	g := d.TaskGroups["g"]
	return d.Active() && !g.RequiresPromotion() && n >= g.Needs()
}

// plan processes an evaluation and returns the changes by node, and the state of the deployment.
func (s *systemScript) plan() []string {
	s.now = s.now.Add(time.Minute)
	before, plans := map[string]*nomad.Allocation{}, len(s.plans)
	for id, a := range s.allocs {
		before[id] = a
	}
	e := s.process()
	var out []string
	for id, a := range s.allocs {
		was, kind := before[id], ""
		if a.IsCanary() {
			kind = " canary"
		}
		switch {
		case was == nil:
			out = append(out, fmt.Sprintf("%s: place version %d%s", a.NodeID, a.Job.Version, kind))
		case was.DesiredStatus != a.DesiredStatus:
			out = append(out, fmt.Sprintf("%s: stop version %d%s: %s", a.NodeID, was.Job.Version, kind, a.DesiredDescription))
		case was.Job.Version != a.Job.Version:
			out = append(out, fmt.Sprintf("%s: update to version %d", a.NodeID, a.Job.Version))
		}
	}
	slices.SortFunc(out, func(a, b string) int { return cmp.Compare(a, b) })
	if len(s.plans) == plans {
		out = append(out, "nothing")
	}
	if n := e.QueuedAllocations["g"]; n > 0 {
		out = append(out, fmt.Sprintf("%d queued", n))
	}
	if e.NextEval != "" {
		out = append(out, "the next step follows later")
	}
	d := s.latest()
	if d == nil {
		return append(out, "no deployment")
	}
	g := d.TaskGroups["g"]
	return append(out, fmt.Sprintf("deployment of version %d %s: %s: %d desired, %d canaries", d.JobVersion, d.Status, d.StatusDescription,
		g.DesiredTotal, g.DesiredCanaries))
}
