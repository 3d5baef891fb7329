package migrate

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/open-nomad/open-nomad/drivers"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// uses counts the nodes with a part and collects the jobs that need it.
type uses struct {
	nodes map[string]int
	jobs  map[string][]string
}

// nodeFindings lists the parts of nodes that clients of this version do not have by themselves, sorted by
// name. Nodes that are down are skipped. Drivers are not lost: external ones of Nomad work.
func nodeFindings(s *state.Snapshot) []Finding {
	u := uses{map[string]int{}, map[string][]string{}}
	for n := range s.Nodes(nil) {
		if n.Status != nomad.NodeStatusDown {
			for _, name := range nodeParts(n) {
				u.nodes[name]++
			}
		}
	}
	for j := range s.Jobs(nil) {
		if !j.Stopped() && j.Status != nomad.JobStatusDead {
			for _, name := range jobNeeds(j) {
				u.jobs[name] = append(u.jobs[name], j.Namespace+"/"+j.ID)
			}
		}
	}
	all := maps.Clone(u.nodes)
	for name := range u.jobs {
		all[name] = u.nodes[name]
	}
	out := []Finding{}
	for name, n := range all {
		jobs := u.jobs[name]
		slices.Sort(jobs)
		kind, _, _ := strings.Cut(name, " ")
		lost := kind == "attribute" && len(jobs) > 0
		out = append(out, Finding{Name: name, Count: n, Effect: nodeEffect(name, n, len(jobs)), Jobs: jobs, Lost: lost})
	}
	slices.SortFunc(out, byName)
	return out
}

func byName(a, b Finding) int { return cmp.Compare(a.Name, b.Name) }

func nodeEffect(name string, nodes, jobs int) string {
	out := fmt.Sprintf("%s is on %s", name, plural(nodes, "node"))
	kind, _, _ := strings.Cut(name, " ")
	switch {
	case jobs == 0:
		return out + "; no job needs it"
	case jobs == 1:
		out += "; 1 job needs it"
	default:
		out = fmt.Sprintf("%s; %d jobs need it", out, jobs)
	}
	if kind == "driver" {
		out += ": install its program on the new clients"
	}
	return out
}

func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// nodeParts returns the parts of a node that clients of this version do not have.
func nodeParts(n *nomad.Node) []string {
	parts := map[string]bool{}
	for name, d := range n.Drivers {
		if d != nil && d.Detected && d.Healthy {
			parts["driver "+name] = true
		}
	}
	for name, value := range n.Attributes {
		driver, ok := strings.CutPrefix(name, "driver.")
		if ok && !strings.Contains(driver, ".") && value == "1" && n.Drivers[driver] == nil {
			parts["driver "+driver] = true // the client sends no driver information
		}
	}
	for name := range drivers.Table() {
		delete(parts, "driver "+name)
	}
	return slices.Collect(maps.Keys(parts))
}

// jobNeeds returns the drivers of a job that this version does not have.
func jobNeeds(j *nomad.Job) []string {
	needs, known := map[string]bool{}, drivers.Table()
	for _, g := range j.TaskGroups {
		for _, t := range g.Tasks {
			if known[t.Driver] == nil {
				needs["driver "+t.Driver] = true
			}
		}
	}
	return slices.Collect(maps.Keys(needs))
}
