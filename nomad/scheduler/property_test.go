package scheduler_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/scheduler/feasible"
)

// TestRandomHistories runs random events on one job in a random cluster. After each event no node is
// overcommitted, live names are unique where required, the count is not exceeded, and nothing
// panics (CVE-2022-24684: stopping allocations of a job with spreads).
func TestRandomHistories(t *testing.T) {
	for seed := range uint64(300) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { runStory(t, seed) })
	}
}

func runStory(t *testing.T, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 1))
	w := newWorld(t)
	types := []string{nomad.JobTypeService, nomad.JobTypeBatch, nomad.JobTypeSystem, nomad.JobTypeSysBatch}
	typ := types[rng.IntN(len(types))]
	for i := range 1 + rng.IntN(6) {
		w.addNode(fmt.Sprint("n", i), randomNode(rng), richNode(rng))
	}
	w.register(job(typ, 1+rng.IntN(12), randomJob(rng), richJob(rng)))
	for step := range 25 {
		w.process(func(e *nomad.Evaluation) {
			if len(w.created) > 0 && rng.IntN(3) == 0 {
				e.ID = w.created[rng.IntN(len(w.created))].ID
			}
		})
		w.checkFacts(step, typ)
		w.happen(rng)
	}
}

func randomNode(rng *rand.Rand) func(*nomad.Node) {
	return func(n *nomad.Node) {
		n.NodeResources.Cpu.CpuShares = 200 + rng.Int64N(1500)
		n.NodeResources.Memory.MemoryMB = 200 + rng.Int64N(1500)
		if rng.IntN(2) == 0 {
			n.Meta["rack"] = fmt.Sprint(rng.IntN(3))
		}
		if rng.IntN(4) == 0 {
			n.NodeMaxAllocs = 1 + rng.IntN(4)
		}
		n.NodeResources.MinDynamicPort, n.NodeResources.MaxDynamicPort = 20000, 20000+rng.IntN(8)
	}
}

func randomJob(rng *rand.Rand) func(*nomad.Job) {
	return func(j *nomad.Job) {
		tg := j.TaskGroups[0]
		tg.ReschedulePolicy = &nomad.ReschedulePolicy{Unlimited: rng.IntN(2) == 0, Attempts: 2, Interval: time.Hour,
			Delay: 5 * time.Second, DelayFunction: "fibonacci", MaxDelay: time.Minute}
		if rng.IntN(2) == 0 {
			tg.Update = &nomad.UpdateStrategy{MaxParallel: rng.IntN(4), Stagger: time.Second}
		}
		if rng.IntN(2) == 0 {
			tg.Spreads = []*nomad.Spread{{Attribute: "${meta.rack}", Weight: 50, SpreadTarget: []*nomad.SpreadTarget{{Value: "1", Percent: 60}}}}
			j.Spreads = []*nomad.Spread{{Attribute: "${node.unique.id}", Weight: 50}}
		}
		if rng.IntN(3) == 0 {
			tg.Networks = nomad.Networks{{DynamicPorts: []nomad.Port{{Label: "p"}}, ReservedPorts: []nomad.Port{{Label: "q", Value: 8080}}}}
		}
		if rng.IntN(3) == 0 {
			tg.Tasks[0].Resources.Cores = 1
		}
		if rng.IntN(4) == 0 {
			tg.Constraints = []*nomad.Constraint{{LTarget: "${meta.rack}", Operand: nomad.ConstraintDistinctProperty, RTarget: "2"}}
		}
	}
}

// happen applies one random event.
func (w *world) happen(rng *rand.Rand) {
	w.now = w.now.Add(time.Duration(rng.IntN(20)) * time.Second)
	live := w.live()
	var some *nomad.Allocation
	if len(live) > 0 {
		some = live[rng.IntN(len(live))]
	}
	node := fmt.Sprint("n", rng.IntN(7))
	switch k := rng.IntN(11); {
	case k == 0 && some != nil:
		w.report(nomad.AllocClientStatusFailed, nil, some)
	case k == 1 && some != nil:
		w.report(nomad.AllocClientStatusComplete, nil, some)
	case k == 2:
		w.report(nomad.AllocClientStatusRunning, []*bool{&yes, &no}[rng.IntN(2)], live...)
	case k == 3 && w.nodes[node] != nil:
		w.addNode(node, randomNode(rng), func(n *nomad.Node) {
			n.NodeResources, n.NodeMaxAllocs = w.nodes[node].NodeResources, w.nodes[node].NodeMaxAllocs
			n.Status = []string{nomad.NodeStatusDown, nomad.NodeStatusReady}[rng.IntN(2)]
		})
	case k == 4:
		delete(w.nodes, node)
	case k == 5:
		if w.nodes[node] == nil && len(w.byNode[node]) == 0 {
			w.addNode(node, randomNode(rng))
		}
	case k == 6 && some != nil:
		out := *some
		out.DesiredTransition = []nomad.DesiredTransition{{Migrate: &yes}, {Reschedule: &yes}, {ForceReschedule: &yes}}[rng.IntN(3)]
		w.set(&out)
	case k == 7:
		w.change(func(j *nomad.Job) { j.TaskGroups[0].Count = rng.IntN(12) })
	case k == 8:
		w.change(func(j *nomad.Job) { j.Meta = map[string]string{"v": fmt.Sprint(rng.IntN(3))} })
	case k == 9:
		w.change(func(j *nomad.Job) { j.Stop = rng.IntN(2) == 0 })
	case k == 10:
		refused := rng.IntN(7)
		tries := 0
		w.refuse = func(n string) bool { tries++; return tries < 4 && n == fmt.Sprint("n", refused) }
	}
}

func (w *world) checkFacts(step int, typ string) {
	w.t.Helper()
	for id, n := range w.nodes {
		if fit, dim, _, err := feasible.AllocsFit(n, slices.Collect(w.LiveAllocsByNode(id))); err != nil || !fit {
			w.t.Fatalf("step %d: node %s is overcommitted: %s %v", step, id, dim, err)
		}
		if err := w.checkNode(n); err != nil {
			w.t.Fatalf("step %d: node %s: %v", step, id, err)
		}
	}
	j := w.jobs["j"]
	seen := map[string]bool{}
	for _, a := range w.live() {
		key := a.Name
		if typ == nomad.JobTypeSystem || typ == nomad.JobTypeSysBatch {
			key += " on " + a.NodeID
		}
		if seen[key] {
			w.t.Fatalf("step %d: two live allocations are %s", step, key)
		}
		seen[key] = true
		if n := w.nodes[a.NodeID]; n == nil || n.Status == nomad.NodeStatusDown {
			w.t.Fatalf("step %d: %s is live on a node that does not exist", step, a.Name)
		}
	}
	perNode := typ == nomad.JobTypeSystem || typ == nomad.JobTypeSysBatch
	if n := len(w.live()); j.Stop && n > 0 || !perNode && n > j.TaskGroups[0].Count {
		w.t.Fatalf("step %d: %d live, count %d, stop %v", step, n, j.TaskGroups[0].Count, j.Stop)
	}
	for _, p := range w.plans {
		for node, list := range p.NodeAllocation {
			for _, a := range list {
				if a.NodeID != node {
					w.t.Fatalf("step %d: plan puts an allocation of node %s on %s", step, a.NodeID, node)
				}
			}
		}
	}
}

func TestPlan_Deterministic(t *testing.T) {
	encode := func(seed uint64) []byte {
		rng := rand.New(rand.NewPCG(seed, 7))
		w := newWorld(t)
		for i := range 12 {
			w.addNode(fmt.Sprint("n", i), randomNode(rng), richNode(rng))
		}
		w.register(job(nomad.JobTypeService, 20, randomJob(rng), richJob(rng)))
		w.process(func(e *nomad.Evaluation) { e.ID = "eval" })
		w.change(newCommand)
		w.process(func(e *nomad.Evaluation) { e.ID = "eval" })
		var out []byte
		for _, p := range w.plans {
			raw, err := json.Marshal(p) // sorts the keys of maps
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, raw...)
		}
		return out
	}
	for seed := range uint64(20) {
		if !bytes.Equal(encode(seed), encode(seed)) {
			t.Fatalf("seed %d: two runs made different plans", seed)
		}
	}
}
