package scheduler_test

import (
	"fmt"
	"testing"

	"github.com/open-nomad/open-nomad/nomad"
)

// The targets of a spread get their percentages, and all other values together the rest, whatever their number.
func TestSpreadTargets_Rest(t *testing.T) {
	for _, c := range []struct {
		targets map[string]uint8
		values  int // racks, each with two nodes
		want    map[string]int
	}{
		{map[string]uint8{"r0": 50}, 2, map[string]int{"r0": 4}},
		{map[string]uint8{"r0": 50}, 5, map[string]int{"r0": 4}},
		{map[string]uint8{"r0": 75}, 5, map[string]int{"r0": 6}},
		{map[string]uint8{"r0": 25, "r1": 25}, 6, map[string]int{"r0": 2, "r1": 2}},
		{map[string]uint8{"r0": 50, "*": 50}, 5, map[string]int{"r0": 4}},
		{map[string]uint8{"r0": 50, "r1": 50}, 5, map[string]int{"r0": 4, "r1": 4}},
	} {
		w := newWorld(t)
		for i := range 2 * c.values {
			w.addNode(fmt.Sprint("n", i), func(n *nomad.Node) { n.Meta["rack"] = fmt.Sprint("r", i%c.values) })
		}
		w.register(job(nomad.JobTypeService, 8, func(j *nomad.Job) {
			s := &nomad.Spread{Attribute: "${meta.rack}", Weight: 100}
			for value, percent := range c.targets {
				s.SpreadTarget = append(s.SpreadTarget, &nomad.SpreadTarget{Value: value, Percent: percent})
			}
			j.TaskGroups[0].Spreads = []*nomad.Spread{s}
		}))
		w.process()
		got := map[string]int{}
		for _, a := range w.live() {
			got[w.nodes[a.NodeID].Meta["rack"]]++
		}
		for rack, want := range c.want {
			if got[rack] != want {
				t.Errorf("targets %v of 8 on %d racks: %v, want %d on %s", c.targets, c.values, got, want, rack)
			}
		}
	}
}
