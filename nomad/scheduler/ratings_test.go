package scheduler_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/scheduler"
)

// TestRatings runs random events on one job in a random cluster, like TestStories. Each search must have the result of a
// search that tries every node: the same node, scores, victims, reasons and number of visited nodes.
func TestRatings(t *testing.T) {
	searches, read, placed := 0, 0, 0
	for seed := range uint64(300) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 3))
			w := newWorld(t)
			w.slow = rng.IntN(2) == 0
			w.config.NodeLimitForFeasibilityChecks = []uint{0, 3, 8}[rng.IntN(3)]
			w.config.PreemptionConfig.ServiceSchedulerEnabled = rng.IntN(2) == 0
			if rng.IntN(3) == 0 {
				w.config.SchedulerAlgorithm = nomad.SchedulerAlgorithmSpread
			}
			for i := range 1 + rng.IntN(30) {
				id := fmt.Sprint("n", i)
				w.addNode(id, randomNode(rng), richNode(rng), func(n *nomad.Node) { n.NodeClass = []string{"", "a", "b"}[rng.IntN(3)] },
					has([]string{"data", "data[0]", "data[1]", "data[2]"}[rng.IntN(4):]...))
				if rng.IntN(3) == 0 {
					w.fill(id, 100, 10+rng.IntN(30))
				}
			}
			typ := []string{nomad.JobTypeService, nomad.JobTypeBatch}[rng.IntN(2)]
			w.register(job(typ, 1+rng.IntN(30), randomJob(rng), richJob(rng), rankedJob(rng)))
			for range 12 {
				e := w.eval()
				d := scheduler.NewDoubled(t, e.Type, w, w, scheduler.WithSeed([32]byte{byte(seed)}),
					scheduler.WithClock(func() time.Time { return w.now }))
				if err := d.Process(t.Context(), e); err != nil {
					t.Fatal(err)
				}
				searches, read, placed = searches+d.Searches, read+d.Read, placed+d.Placed
				w.happen(rng)
				w.refuse = nil
				if live := w.live(); rng.IntN(2) == 0 && len(live) > 0 { // their nodes are avoided
					w.report(nomad.AllocClientStatusFailed, nil, live[rng.IntN(len(live)):]...)
					w.now = w.now.Add(time.Minute)
				}
			}
		})
	}
	if searches < 5000 || placed < 3000 || read < 5*searches {
		t.Errorf("%d searches read %d ratings and placed %d allocations: the test compares too little", searches, read, placed)
	}
}

// rankedJob adds what compares nodes: spreads with and without targets, affinities, distinct hosts, and volumes with one writer.
func rankedJob(rng *rand.Rand) func(*nomad.Job) {
	return func(j *nomad.Job) {
		tg := j.TaskGroups[0]
		for range rng.IntN(3) {
			s := &nomad.Spread{Attribute: []string{"${meta.rack}", "${node.class}", "${node.unique.id}"}[rng.IntN(3)], Weight: int8(rng.IntN(101))}
			for value := range rng.IntN(4) { // 0 %: a value that is to have none
				s.SpreadTarget = append(s.SpreadTarget, &nomad.SpreadTarget{Value: []string{"0", "1", "a"}[value], Percent: uint8(10 * rng.IntN(4))})
			}
			tg.Spreads = append(tg.Spreads, s)
		}
		for range rng.IntN(3) {
			tg.Affinities = append(tg.Affinities, &nomad.Affinity{LTarget: []string{"${meta.rack}", "${node.class}"}[rng.IntN(2)], Operand: "=",
				RTarget: []string{"0", "1", "a"}[rng.IntN(3)], Weight: int8(rng.IntN(201) - 100)})
		}
		if rng.IntN(4) == 0 {
			tg.Constraints = append(tg.Constraints, &nomad.Constraint{Operand: nomad.ConstraintDistinctHosts})
		}
		if rng.IntN(4) == 0 {
			wants(nomad.VolumeRequest{Source: "data", PerAlloc: rng.IntN(2) == 0, AccessMode: nomad.VolumeSingleNodeSingleWriter})(j)
		}
	}
}
