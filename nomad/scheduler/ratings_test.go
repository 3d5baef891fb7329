package scheduler_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/codec"
	"github.com/open-nomad/open-nomad/nomad/hostvolume"
	"github.com/open-nomad/open-nomad/nomad/nodeclass"
	"github.com/open-nomad/open-nomad/nomad/scheduler"
)

// TestRatings runs random events on one job in a random cluster, like TestRandomHistories. Each search must have the result of a
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
				if seed%2 == 0 {
					w.dynamic(id)
				}
				if rng.IntN(3) == 0 {
					w.fill(id, 100, 10+rng.IntN(30))
				}
			}
			typ := []string{nomad.JobTypeService, nomad.JobTypeBatch}[rng.IntN(2)]
			w.register(job(typ, 1+rng.IntN(30), randomJob(rng), richJob(rng), rankedJob(rng)))
			for range 12 {
				d := w.processTwice(seed)
				searches, read, placed = searches+d.Searches, read+d.Read, placed+d.Placed
				w.happen(rng)
				w.refuse = nil
				if groups := w.jobs["j"].TaskGroups; len(groups) == 2 && rng.IntN(3) == 0 {
					w.change(exchange)
				}
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

// processTwice processes an evaluation and compares its searches.
func (w *world) processTwice(seed uint64) *scheduler.Doubled {
	w.t.Helper()
	e := w.eval()
	d := scheduler.NewDoubled(w.t, e.Type, w, w,
		scheduler.Options{Seed: &[32]byte{byte(seed)}, Now: func() time.Time { return w.now }})
	if err := d.Process(w.t.Context(), e); err != nil {
		w.t.Fatal(err)
	}
	return d
}

// Two groups use the volumes of all nodes and exchange them: no successor has a node until both predecessors have ended.
func TestRatings_Exchange(t *testing.T) {
	for nodes := range 5 {
		w := newWorld(t)
		for i := range nodes + 1 {
			w.addNode(fmt.Sprint("n", i), has("a", "b"), func(n *nomad.Node) { n.Meta["rack"] = fmt.Sprint(i % 2) })
		}
		writes := func(source string) nomad.VolumeRequest {
			return nomad.VolumeRequest{Source: source, AccessMode: nomad.VolumeSingleNodeSingleWriter}
		}
		w.register(job(nomad.JobTypeService, nodes+1, wants(writes("a")), func(j *nomad.Job) {
			j.TaskGroups = append(j.TaskGroups, codec.Copy(j.TaskGroups[0]))
			j.TaskGroups[1].Name, j.TaskGroups[1].Volumes["v"].Source = "other", "b"
			j.Spreads = []*nomad.Spread{{Attribute: "${meta.rack}", Weight: 50}}
		}))
		for seed := range uint64(4) {
			w.processTwice(seed)
			if got := len(w.live()); got != 2*(nodes+1) {
				t.Fatalf("%d nodes: %d allocations after %d exchanges, want %d", nodes+1, got, seed, 2*(nodes+1))
			}
			w.change(exchange)
			w.processTwice(seed) // stops them
		}
	}
}

// exchange makes two groups exchange their resources, ports and volumes.
func exchange(j *nomad.Job) {
	a, b := j.TaskGroups[0], j.TaskGroups[1]
	a.Volumes, b.Volumes = b.Volumes, a.Volumes
	a.Networks, b.Networks = b.Networks, a.Networks
	a.Tasks[0].Resources, b.Tasks[0].Resources = b.Tasks[0].Resources, a.Tasks[0].Resources
}

// dynamic adds a dynamic volume "data" to a node.
func (w *world) dynamic(node string) {
	n := w.nodes[node]
	n.HostVolumes["data"] = &nomad.ClientHostVolumeConfig{Name: "data", ID: "vol-" + node}
	n.ComputedClass = nodeclass.Of(n)
	w.volumes = append(w.volumes, &hostvolume.Volume{ID: "vol-" + node, Name: "data", Namespace: "default", NodeID: node,
		State: hostvolume.Ready,
		RequestedCapabilities: []*nomad.VolumeCapability{
			{AccessMode: nomad.VolumeSingleNodeSingleWriter, AttachmentMode: nomad.VolumeAttachFilesystem},
			{AccessMode: nomad.VolumeSingleNodeMultiWriter, AttachmentMode: nomad.VolumeAttachFilesystem},
		}})
}

// rankedJob adds what compares nodes: spreads with and without targets, affinities, distinct hosts,
// volumes that are sticky or have one writer, and a second group.
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
		if rng.IntN(3) == 0 {
			wants(nomad.VolumeRequest{Source: "data", Sticky: rng.IntN(2) == 0, PerAlloc: rng.IntN(3) == 0,
				AttachmentMode: nomad.VolumeAttachFilesystem,
				AccessMode:     []nomad.VolumeAccessMode{nomad.VolumeSingleNodeSingleWriter, nomad.VolumeSingleNodeMultiWriter}[rng.IntN(2)]})(j)
		}
		if rng.IntN(3) == 0 {
			other := codec.Copy(tg)
			other.Name, other.Spreads = "other", nil
			other.Networks = nomad.Networks{{ReservedPorts: []nomad.Port{{Label: "q", Value: 8080 + rng.IntN(2)}}}}
			other.Tasks[0].Resources.CPU += rng.IntN(500)
			if v := other.Volumes["v"]; v != nil {
				v.Source = "data[2]"
			}
			j.TaskGroups = append(j.TaskGroups, other)
		}
	}
}
