package scheduler_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/codec"
	"github.com/open-nomad/open-nomad/nomad/hostvolume"
)

// heldBy are the kinds of resources that a client frees when it has ended an allocation. Each makes a group ask for all
// that the node of the test has.
var usedBy = map[string]func(*nomad.TaskGroup){
	"port": func(tg *nomad.TaskGroup) {
		tg.Networks = nomad.Networks{{ReservedPorts: []nomad.Port{{Label: "q", Value: 8080}}}}
	},
	"cores":  func(tg *nomad.TaskGroup) { tg.Tasks[0].Resources.CPU, tg.Tasks[0].Resources.Cores = 0, 4 },
	"memory": func(tg *nomad.TaskGroup) { tg.Tasks[0].Resources.MemoryMB = 8000 },
	"device": func(tg *nomad.TaskGroup) {
		tg.Tasks[0].Resources.Devices = nomad.ResourceDevices{{Name: "gpu", Count: 1}}
	},
	"volume": func(tg *nomad.TaskGroup) {
		tg.Volumes = map[string]*nomad.VolumeRequest{"v": {Name: "v", Type: nomad.VolumeTypeHost, Source: "data",
			AccessMode: nomad.VolumeSingleNodeSingleWriter, AttachmentMode: nomad.VolumeAttachFilesystem}}
	},
}

// oneOfEach adds a node with one of each thing that is held.
func oneOfEach(w *world) {
	w.addNode("n1", func(n *nomad.Node) {
		n.NodeResources.Devices = []*nomad.NodeDeviceResource{{Vendor: "v", Type: "gpu", Name: "m",
			Instances: []*nomad.NodeDevice{{ID: "d1", Healthy: true}}}}
		n.HostVolumes = map[string]*nomad.ClientHostVolumeConfig{"data": {Name: "data", ID: "vol"}}
	})
	w.volumes = []*hostvolume.Volume{{ID: "vol", Name: "data", Namespace: "default", NodeID: "n1", State: hostvolume.Ready,
		RequestedCapabilities: []*nomad.VolumeCapability{{AccessMode: nomad.VolumeSingleNodeSingleWriter,
			AttachmentMode: nomad.VolumeAttachFilesystem}}}}
}

// What a stopping allocation holds is free when its client has ended it: for another group of the plan, and for another
// plan. Its successor gets it at once, because it starts after the end.
func TestStopping_NotReused(t *testing.T) {
	for kind, ask := range usedBy {
		t.Run(kind, func(t *testing.T) {
			w := newWorld(t)
			w.slow = true
			oneOfEach(w)
			w.register(job(nomad.JobTypeService, 1, func(j *nomad.Job) { ask(j.TaskGroups[0]) }))
			w.process()
			old := w.live()
			wantNames(t, old, "j.g[0]")

			w.change(newCommand)
			w.process()
			wantNames(t, w.live(), "j.g[0]")
			if got := w.live(); len(got) != 1 || got[0].PreviousAllocation != old[0].ID {
				t.Fatalf("live %v, want the successor", names(got))
			}
			w.report(nomad.AllocClientStatusComplete, nil, w.allocs[old[0].ID])

			w.change(func(j *nomad.Job) { j.TaskGroups[0].Name = "h" })
			if e := w.process(); len(w.live()) != 0 || e.FailedTGAllocs["h"] == nil {
				t.Fatalf("%v run while the client stops the other group", names(w.live()))
			}
			if e := w.process(); len(w.live()) != 0 || e.FailedTGAllocs["h"] == nil {
				t.Fatalf("%v run in a later plan while the client stops the other group", names(w.live()))
			}
			for _, a := range w.allocs {
				w.report(nomad.AllocClientStatusComplete, nil, a)
			}
			w.process()
			wantNames(t, w.live(), "j.h[0]")
		})
	}
}

// TestStopping_RandomHistory runs random changes of a job of three groups on nodes whose clients are slow. No allocation of a
// plan gets what another one holds that has not ended, unless it starts after that one: it is its successor, or preempts it.
func TestStopping_RandomHistory(t *testing.T) {
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 4))
		w := newWorld(t)
		w.slow = true
		oneOfEach(w)
		w.addNode("n2")
		j := job(nomad.JobTypeService, 1)
		for _, name := range []string{"h", "i"} {
			tg := codec.Copy(j.TaskGroups[0])
			tg.Name = name
			j.TaskGroups = append(j.TaskGroups, tg)
		}
		w.register(j)
		for step := range 12 {
			w.process()
			w.checkInUse(t, fmt.Sprintf("seed %d, step %d", seed, step))
			for _, id := range slices.Sorted(maps.Keys(w.allocs)) {
				if a := w.allocs[id]; a.ServerTerminalStatus() && !a.ClientTerminalStatus() && rng.IntN(2) == 0 {
					w.report(nomad.AllocClientStatusComplete, nil, a)
				}
			}
			kinds := slices.Sorted(maps.Keys(usedBy))
			w.change(func(j *nomad.Job) {
				tg := j.TaskGroups[rng.IntN(3)]
				tg.Networks, tg.Volumes, tg.Tasks[0].Resources = nil, nil, &nomad.Resources{CPU: 100, MemoryMB: 100 + rng.IntN(4000)}
				usedBy[kinds[rng.IntN(len(kinds))]](tg)
				tg.Count = rng.IntN(3)
			})
		}
	}
}

// checkInUse compares the ports, cores, devices and single writers of all allocations that have not ended.
func (w *world) checkInUse(t *testing.T, when string) {
	t.Helper()
	holders := map[string]*nomad.Allocation{}
	for _, id := range slices.Sorted(maps.Keys(w.allocs)) {
		a := w.allocs[id]
		if a.ClientTerminalStatus() {
			continue
		}
		for _, what := range inUse(a) {
			if b := holders[what]; b != nil && !waits(a, b) && !waits(b, a) {
				t.Fatalf("%s: %s and %s both hold %s", when, a.Name, b.Name, what)
			}
			if b := holders[what]; b == nil || b.ServerTerminalStatus() {
				holders[what] = a
			}
		}
	}
}

func waits(a, b *nomad.Allocation) bool {
	return a.PreviousAllocation == b.ID || slices.Contains(a.PreemptedAllocations, b.ID)
}

func inUse(a *nomad.Allocation) (out []string) {
	for _, p := range a.AllocatedResources.Shared.Ports {
		out = append(out, fmt.Sprint(a.NodeID, " port ", p.HostIP, p.Value))
	}
	for _, t := range a.AllocatedResources.Tasks {
		for _, c := range t.Cpu.ReservedCores {
			out = append(out, fmt.Sprint(a.NodeID, " core ", c))
		}
		for _, d := range t.Devices {
			out = append(out, fmt.Sprint(a.NodeID, " device ", d.DeviceIDs))
		}
	}
	for _, v := range a.SingleWriterVolumes(a.Job) {
		out = append(out, a.NodeID+" volume "+v)
	}
	return out
}
