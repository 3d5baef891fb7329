package scheduler_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/jobspec"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/hostvolume"
	"github.com/open-nomad/open-nomad/nomad/nodeclass"
)

// TestPlaceScripts runs testdata/place/*.txt. A script is a list of steps. The lines after "eval" that begin with ">"
// are its plan and its metrics; -update rewrites them.
//
//	node n1 [key=value …]     adds a node; the keys are in nodeFields
//	alloc a1 n1 [key=value …] adds an allocation of another job; the keys are in allocFields
//	config [key=value …]      changes the scheduler configuration; the keys are in configFields
//	pool [key=value …]        sets the configuration of the node pool
//	job "j" { … }             registers a jobspec, up to the line "}"; validation is not done
//	eval [ID]                 processes an evaluation of the job
//	matches                   processes an evaluation and prints only the nodes with an allocation, and the reasons
//	fresh                     removes the job and its allocations
//	failed j.g[0]             reports that an allocation failed
//	down n1 | ready n1        changes the status of a node
//	volume v1 n1 data [key=value …] adds a dynamic volume; the keys are in volumeFields
//	claims                    prints the claims of the job on volumes
//	unclaim v1                deletes the claim on a volume
func TestPlaceScripts(t *testing.T) {
	testScripts(t, "place", func(t *testing.T, text string) string { return (&placeScript{world: newWorld(t)}).run(text) })
}

// placeScript is a world that the steps of a script change.
type placeScript struct {
	*world
	steps int // evaluations so far
}

// run runs the steps and returns the text with the actual plans.
func (s *placeScript) run(text string) string {
	var out, spec strings.Builder
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, ">") {
			continue
		}
		out.WriteString(line)
		words := strings.Fields(line)
		switch {
		case spec.Len() > 0 || strings.HasPrefix(line, "job "):
			spec.WriteString(line)
			if line == "}\n" {
				s.job(spec.String())
				spec.Reset()
			}
		case len(words) > 0 && words[0] != "#":
			for _, l := range s.step(words[0], words[1:]) {
				out.WriteString("> " + l + "\n")
			}
		}
	}
	if spec.Len() > 0 {
		s.t.Fatal("the job has no end")
	}
	return out.String()
}

func (s *placeScript) step(verb string, args []string) []string {
	switch verb {
	case "node":
		s.addNode(args[0], func(n *nomad.Node) { fields(s.t, nodeFields, n, args[1:]) })
	case "alloc":
		s.set(s.other(args[0], args[1], args[2:]))
	case "config":
		fields(s.t, configFields, &s.config, args)
	case "pool":
		s.pool = &nomad.NodePoolSchedulerConfiguration{}
		fields(s.t, poolFields, s.pool, args)
	case "failed":
		for _, a := range s.live() {
			if a.Name == args[0] {
				s.report(nomad.AllocClientStatusFailed, nil, a)
			}
		}
	case "down":
		s.nodes[args[0]].Status = nomad.NodeStatusDown
	case "ready":
		s.nodes[args[0]].Status = nomad.NodeStatusReady
	case "volume":
		s.addVolume(args)
	case "unclaim":
		s.claims = slices.DeleteFunc(s.claims, func(c *hostvolume.Claim) bool { return c.VolumeID == args[0] })
	case "claims":
		return s.showClaims()
	case "eval":
		return s.evaluate(args)
	case "matches":
		return s.matches()
	case "fresh":
		s.fresh()
	default:
		s.t.Fatalf("unknown step %q", verb)
	}
	return nil
}

// addVolume adds a dynamic volume to a node.
func (s *placeScript) addVolume(args []string) {
	v := &hostvolume.Volume{ID: args[0], NodeID: args[1], Name: args[2], Namespace: "default", State: hostvolume.Ready}
	fields(s.t, volumeFields, v, args[3:])
	v.Canonicalize()
	s.volumes = append(s.volumes, v)
	n := *s.nodes[v.NodeID]
	n.HostVolumes = maps.Clone(n.HostVolumes)
	if n.HostVolumes == nil {
		n.HostVolumes = map[string]*nomad.ClientHostVolumeConfig{}
	}
	n.HostVolumes[v.Name] = &nomad.ClientHostVolumeConfig{Name: v.Name, ID: v.ID}
	n.ComputedClass = nodeclass.Of(&n)
	s.nodes[n.ID] = &n
}

// showClaims returns the claims with the nodes of the allocations that hold them, in order of the volumes. A plan is a map:
// it makes claims in any order.
func (s *placeScript) showClaims() []string {
	out := []string{}
	for _, c := range s.claims {
		out = append(out, fmt.Sprintf("%s of %s by %s on %s", c.VolumeID, c.TaskGroupName, shown(s.allocs[c.AllocID]),
			s.allocs[c.AllocID].NodeID))
	}
	slices.Sort(out)
	return out
}

// job registers a jobspec. Both types of jobs have the same JSON.
func (s *placeScript) job(spec string) {
	in, err := jobspec.Parse(jobspec.Config{Source: []byte(spec)})
	if err != nil {
		s.t.Fatal(err)
	}
	in.Canonicalize()
	raw, err := json.Marshal(in)
	if err != nil {
		s.t.Fatal(err)
	}
	j := &nomad.Job{}
	if err := json.Unmarshal(raw, j); err != nil {
		s.t.Fatal(err)
	}
	j.CreateIndex, j.ModifyIndex, j.JobModifyIndex = 5, 5, 5
	s.register(j)
}

// other returns a running allocation of another job.
func (s *placeScript) other(id, node string, args []string) *nomad.Allocation {
	a := &nomad.Allocation{
		ID: id, Name: "other.g[0]", NodeID: node, Namespace: "default", JobID: "other", TaskGroup: "g",
		Job:           &nomad.Job{ID: "other", Priority: 50, TaskGroups: []*nomad.TaskGroup{{Name: "g"}}},
		DesiredStatus: nomad.AllocDesiredStatusRun, ClientStatus: nomad.AllocClientStatusRunning,
		AllocatedResources: &nomad.AllocatedResources{Tasks: map[string]*nomad.AllocatedTaskResources{"t": {}}},
	}
	fields(s.t, allocFields, a, args)
	return a
}

// evaluate processes an evaluation and returns its result.
func (s *placeScript) evaluate(args []string) []string {
	s.now = s.now.Add(time.Minute)
	s.steps++
	before := maps.Clone(s.allocs)
	e := s.process(func(e *nomad.Evaluation) {
		e.ID = fmt.Sprintf("evaluation-%d", s.steps)
		if len(args) > 0 {
			e.ID = args[0]
		}
	})
	var placed []*nomad.Allocation
	var out []string
	for id, a := range s.allocs {
		switch was := before[id]; {
		case was == nil:
			placed = append(placed, a)
		case was.DesiredStatus == nomad.AllocDesiredStatusRun && a.DesiredStatus != nomad.AllocDesiredStatusRun:
			out = append(out, fmt.Sprintf("%s %s on %s", a.DesiredStatus, shown(a), a.NodeID))
		}
	}
	slices.Sort(out)
	slices.SortFunc(placed, func(a, b *nomad.Allocation) int { return strings.Compare(a.Name+a.NodeID, b.Name+b.NodeID) })
	for _, a := range placed {
		out = append(out, s.describe(a)...)
	}
	for _, group := range slices.Sorted(maps.Keys(e.FailedTGAllocs)) {
		out = append(out, "no node for group "+group+":")
		out = append(out, describeMetric(e.FailedTGAllocs[group])...)
	}
	if len(out) == 0 {
		return []string{"nothing"}
	}
	return out
}

// matches processes an evaluation of a new job. It returns the nodes with an allocation and the reasons of the others.
func (s *placeScript) matches() []string {
	s.steps++
	e := s.process(func(e *nomad.Evaluation) { e.ID = fmt.Sprintf("evaluation-%d", s.steps) })
	line := "on"
	for _, a := range s.live() {
		line += " " + a.NodeID
	}
	s.fresh()
	if m := e.FailedTGAllocs["g"]; m != nil {
		return append([]string{line}, describeMetric(m)...)
	}
	return []string{line}
}

// fresh removes the job and its allocations.
func (s *placeScript) fresh() {
	for id, a := range s.allocs {
		if a.JobID == "j" {
			delete(s.allocs, id)
			delete(s.byNode[a.NodeID], id)
		}
	}
	delete(s.jobs, "j")
	s.deps = nil
}

// shown returns the name of an allocation of the job, and the ID of another one.
func shown(a *nomad.Allocation) string {
	if a.JobID == "other" {
		return a.ID
	}
	return a.Name
}

// describe returns the node, the assigned resources and the scores of an allocation.
func (s *placeScript) describe(a *nomad.Allocation) []string {
	line := fmt.Sprintf("place %s on %s", a.Name, a.NodeID)
	r := a.AllocatedResources
	for _, p := range r.Shared.Ports {
		line += fmt.Sprintf(", port %s=%s:%d", p.Label, p.HostIP, p.Value)
		if p.To > 0 {
			line += fmt.Sprintf(" to %d", p.To)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(r.Tasks)) {
		t := r.Tasks[name]
		if len(t.Cpu.ReservedCores) > 0 {
			line += fmt.Sprintf(", cores %v of %d MHz", t.Cpu.ReservedCores, t.Cpu.CpuShares)
		}
		if t.Memory.MemoryMaxMB != 0 {
			line += fmt.Sprintf(", memory %d of at most %d MB", t.Memory.MemoryMB, t.Memory.MemoryMaxMB)
		}
		for _, n := range t.Networks {
			for _, p := range slices.Concat(n.ReservedPorts, n.DynamicPorts) {
				line += fmt.Sprintf(", port of %s %s=%s:%d", name, p.Label, n.IP, p.Value)
			}
		}
		for _, d := range t.Devices {
			line += fmt.Sprintf(", device %s/%s/%s %v", d.Vendor, d.Type, d.Name, d.DeviceIDs)
		}
	}
	out := []string{fmt.Sprintf("%s (%d visited)", line, a.Metrics.NodesEvaluated)}
	for _, m := range a.Metrics.ScoreMetaData {
		scores := fmt.Sprintf("  %s %.4f:", m.NodeID, m.NormScore)
		for _, k := range slices.Sorted(maps.Keys(m.Scores)) {
			if m.Scores[k] != 0 {
				scores += fmt.Sprintf(" %s %.4f", k, m.Scores[k])
			}
		}
		out = append(out, scores)
	}
	return out
}

// describeMetric returns the reasons of a metric.
func describeMetric(m *nomad.AllocMetric) []string {
	out := []string{fmt.Sprintf("  %d of pool %s: available %v, evaluated %d, filtered %d, exhausted %d, coalesced %d",
		m.NodesInPool, m.NodePool, m.NodesAvailable, m.NodesEvaluated, m.NodesFiltered, m.NodesExhausted, m.CoalescedFailures)}
	for _, c := range []struct {
		what   string
		counts map[string]int
	}{{"filtered", m.ConstraintFiltered}, {"class filtered", m.ClassFiltered}, {"exhausted", m.DimensionExhausted},
		{"class exhausted", m.ClassExhausted}} {
		for _, k := range slices.Sorted(maps.Keys(c.counts)) {
			out = append(out, fmt.Sprintf("  %s %d: %s", c.what, c.counts[k], k))
		}
	}
	for _, task := range slices.Sorted(maps.Keys(m.ResourcesExhausted)) {
		r := m.ResourcesExhausted[task]
		out = append(out, fmt.Sprintf("  task %s asks cpu %d, cores %d, memory %d", task, r.CPU, r.Cores, r.MemoryMB))
	}
	return out
}
