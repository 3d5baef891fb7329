package scheduler_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/nomad"
)

// richNode adds devices, host networks, cores of several memory nodes and reservations to a node.
func richNode(rng *rand.Rand) func(*nomad.Node) {
	return func(n *nomad.Node) {
		r := n.NodeResources
		for _, model := range []string{"t4", "a100"}[:rng.IntN(3)] {
			d := &nomad.NodeDeviceResource{Vendor: "nvidia", Type: "gpu", Name: model}
			for i := range 1 + rng.IntN(3) {
				d.Instances = append(d.Instances, &nomad.NodeDevice{ID: fmt.Sprint(model, i), Healthy: rng.IntN(5) > 0})
			}
			r.Devices = append(r.Devices, d)
		}
		net := r.NodeNetworks[0]
		if rng.IntN(2) == 0 { // another address, and a second name for the first one
			net.Addresses = append(net.Addresses, nomad.NodeNetworkAddress{Alias: "lan", Address: "10.0.0.1", ReservedPorts: "8081"},
				nomad.NodeNetworkAddress{Alias: "lan", Address: "10.0.0.2"})
		}
		if rng.IntN(2) == 0 {
			top := &nomad.Topology{}
			for i := range 4 {
				top.Cores = append(top.Cores, nomad.Core{ID: nomad.CoreID(i), NodeID: nomad.NUMANodeID(i / 2), BaseSpeed: nomad.MHz(50 + rng.IntN(400)),
					Disable: rng.IntN(4) == 0})
			}
			r.Processors.Topology = top
		}
		n.ReservedResources = &nomad.NodeReservedResources{Cpu: nomad.NodeReservedCpuResources{CpuShares: rng.Int64N(100)},
			Memory: nomad.NodeReservedMemoryResources{MemoryMB: rng.Int64N(100)}}
		n.ReservedResources.Networks.ReservedHostPorts = "20003"
	}
}

// richJob adds what a rich node can give.
func richJob(rng *rand.Rand) func(*nomad.Job) {
	return func(j *nomad.Job) {
		tg := j.TaskGroups[0]
		res := tg.Tasks[0].Resources
		if rng.IntN(3) == 0 {
			res.Devices = nomad.ResourceDevices{{Name: []string{"gpu", "nvidia/gpu", "nvidia/gpu/t4"}[rng.IntN(3)], Count: 1 + rng.Uint64N(2)}}
			if rng.IntN(2) == 0 {
				res.Devices[0].Affinities = nomad.Affinities{{LTarget: "${device.model}", Operand: "=", RTarget: "a100",
					Weight: int8(1 + rng.IntN(100))}}
			}
		}
		if res.Cores > 0 {
			res.Cores = 1 + rng.IntN(2)
			res.NUMA = &nomad.NUMA{Affinity: []string{"none", "prefer", "require"}[rng.IntN(3)]}
		}
		if rng.IntN(4) == 0 {
			tg.Networks = nomad.Networks{{DynamicPorts: []nomad.Port{{Label: "p", HostNetwork: "lan"}, {Label: "d", To: -1}},
				ReservedPorts: []nomad.Port{{Label: "q", Value: 8081}}}}
		}
		if rng.IntN(4) == 0 {
			j.Constraints = []*nomad.Constraint{{Operand: nomad.ConstraintDistinctHosts}}
		}
		if rng.IntN(3) == 0 {
			j.Affinities = []*nomad.Affinity{{LTarget: "${meta.rack}", Operand: "=", RTarget: "1", Weight: int8(rng.IntN(100) - 100)}}
		}
	}
}

// checkNode checks what the live allocations of a node hold, without the code of package feasible.
func (w *world) checkNode(n *nomad.Node) error {
	var cpu, memory, disk int64
	taken := map[string]string{}
	take := func(what, by string) error {
		if other := taken[what]; other != "" {
			return fmt.Errorf("%s and %s both hold %s", other, by, what)
		}
		taken[what] = by
		return nil
	}
	hosts := 0
	for _, a := range w.byNode[n.ID] {
		if a.TerminalStatus() {
			continue
		}
		if a.JobID == "j" {
			hosts++
		}
		disk += a.AllocatedResources.Shared.DiskMB
		for _, p := range a.AllocatedResources.Shared.Ports {
			if err := take(fmt.Sprintf("port %s:%d", p.HostIP, p.Value), a.Name); err != nil {
				return err
			}
		}
		for _, t := range a.AllocatedResources.Tasks {
			cpu, memory = cpu+t.Cpu.CpuShares, memory+t.Memory.MemoryMB
			for _, id := range t.Cpu.ReservedCores {
				if err := take(fmt.Sprintf("core %d", id), a.Name); err != nil {
					return err
				}
			}
			for _, d := range t.Devices {
				for _, id := range d.DeviceIDs {
					if err := take(fmt.Sprintf("device %s/%s", d.Name, id), a.Name); err != nil {
						return err
					}
				}
			}
		}
	}
	r, kept := n.NodeResources, n.ReservedResources
	if kept == nil {
		kept = &nomad.NodeReservedResources{}
	}
	total := r.Cpu.CpuShares - kept.Cpu.CpuShares
	if top := r.Processors.Topology; top != nil {
		total = 0
		for _, c := range top.Cores {
			total += int64(c.BaseSpeed)
		}
	}
	if cpu > total || memory > r.Memory.MemoryMB-kept.Memory.MemoryMB || disk > r.Disk.DiskMB {
		return fmt.Errorf("%d MHz of %d, %d MB of %d less %d, disk %d MB of %d", cpu, total, memory, r.Memory.MemoryMB, kept.Memory.MemoryMB,
			disk, r.Disk.DiskMB)
	}
	perNode := w.jobs["j"].Type == nomad.JobTypeSystem || w.jobs["j"].Type == nomad.JobTypeSysBatch
	for _, c := range w.jobs["j"].Constraints {
		if c.Operand == nomad.ConstraintDistinctHosts && hosts > 1 && !perNode {
			return fmt.Errorf("%d allocations in spite of distinct_hosts", hosts)
		}
	}
	return nil
}

// checkPlans checks that new allocations are on eligible nodes only.
func (w *world) checkPlans(from int) error {
	for _, p := range w.plans[from:] {
		for node, list := range p.NodeAllocation {
			for _, a := range list {
				if a.CreateIndex == 0 && !w.nodes[node].Ready() {
					return fmt.Errorf("%s is placed on node %s, which is not ready", a.Name, node)
				}
			}
		}
	}
	return nil
}

// TestSecondEvaluation places a random job on a random fleet, twice. The second evaluation changes nothing, also after
// a node is lost and replaced.
func TestSecondEvaluation(t *testing.T) {
	for seed := range uint64(200) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 3))
			w := newWorld(t)
			types := []string{nomad.JobTypeService, nomad.JobTypeBatch, nomad.JobTypeSystem, nomad.JobTypeSysBatch}
			for i := range 1 + rng.IntN(8) {
				w.addNode(fmt.Sprint("n", i), randomNode(rng), richNode(rng))
			}
			w.register(job(types[rng.IntN(len(types))], 1+rng.IntN(8), randomJob(rng), richJob(rng)))
			for range 2 {
				if e := w.process(); len(e.FailedTGAllocs) > 0 {
					return // what failed may succeed once the stops of the plan are committed
				}
				w.report(nomad.AllocClientStatusRunning, &yes, w.live()...)
				w.now = w.now.Add(time.Minute)
				plans := len(w.plans)
				w.process()
				for _, p := range w.plans[plans:] {
					if len(p.NodeAllocation)+len(p.NodeUpdate)+len(p.NodePreemptions) > 0 {
						t.Fatalf("the second evaluation changes %v, stops %v", p.NodeAllocation, p.NodeUpdate)
					}
				}
				w.nodes["n0"].Status = nomad.NodeStatusDown
				for id, a := range w.byNode["n0"] {
					lost := *a
					lost.ClientStatus, lost.DesiredStatus = nomad.AllocClientStatusLost, nomad.AllocDesiredStatusStop
					w.byNode["n0"][id], w.allocs[id] = &lost, &lost
				}
			}
		})
	}
}

// TestRichFleets places several versions of random jobs on random fleets with devices, host networks, cores and other
// jobs, which may be preempted. No node is over its resources, and nothing is assigned twice.
func TestRichFleets(t *testing.T) {
	placed, devices, evicted := 0, 0, 0
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 5))
		w := newWorld(t)
		w.config.PreemptionConfig = nomad.PreemptionConfig{ServiceSchedulerEnabled: true, BatchSchedulerEnabled: true,
			SystemSchedulerEnabled: true}
		types := []string{nomad.JobTypeService, nomad.JobTypeBatch, nomad.JobTypeSystem}
		for i := range 1 + rng.IntN(6) {
			w.addNode(fmt.Sprint("n", i), randomNode(rng), richNode(rng))
			w.crowd(fmt.Sprint("n", i), rng)
		}
		w.register(job(types[rng.IntN(len(types))], 1+rng.IntN(8), randomJob(rng), richJob(rng)))
		for range 3 {
			plans := len(w.plans)
			w.process()
			w.checkFleet(t, seed, plans)
			w.change(func(j *nomad.Job) { // a new distinct_hosts does not move running allocations
				kept := j.Constraints
				richJob(rng)(j)
				j.Constraints = kept
			})
			w.nodes["n0"].SchedulingEligibility = []string{nomad.NodeSchedulingEligible, nomad.NodeSchedulingIneligible}[rng.IntN(2)]
		}
		for _, a := range w.live() {
			if a.JobID == "j" {
				placed++
				devices += len(a.AllocatedResources.Tasks["t"].Devices)
			}
		}
		evicted += len(w.evicted())
	}
	if placed < 300 || devices < 30 || evicted < 30 {
		t.Errorf("only %d allocations, %d devices and %d preemptions were tried", placed, devices, evicted)
	}
}

func (w *world) checkFleet(t *testing.T, seed uint64, plans int) {
	t.Helper()
	for _, id := range slices.Sorted(maps.Keys(w.nodes)) {
		if err := w.checkNode(w.nodes[id]); err != nil {
			t.Fatalf("seed %d: node %s: %v", seed, id, err)
		}
	}
	if err := w.checkPlans(plans); err != nil {
		t.Fatalf("seed %d: %v", seed, err)
	}
}

// crowd puts allocations of another job on a node: they hold a part of its resources, a port and a device.
func (w *world) crowd(node string, rng *rand.Rand) {
	n := w.nodes[node]
	for i := range rng.IntN(4) {
		a := &nomad.Allocation{
			ID: fmt.Sprint(node, "-", i), Name: "other.g[0]", JobID: "other", NodeID: node, TaskGroup: "g", Namespace: "default",
			Job: &nomad.Job{ID: "other", Priority: 10 + 10*rng.IntN(4),
				TaskGroups: []*nomad.TaskGroup{{Name: "g", Migrate: &nomad.MigrateStrategy{MaxParallel: 1}}}},
			DesiredStatus: nomad.AllocDesiredStatusRun, ClientStatus: nomad.AllocClientStatusRunning,
			AllocatedResources: &nomad.AllocatedResources{Tasks: map[string]*nomad.AllocatedTaskResources{"t": {
				Cpu: nomad.AllocatedCpuResources{CpuShares: 10}, Memory: nomad.AllocatedMemoryResources{MemoryMB: 20}}}},
		}
		if i == 0 {
			a.AllocatedResources.Shared.Ports = nomad.AllocatedPorts{{Label: "q", HostIP: "10.0.0.1", Value: 8081 - rng.IntN(2)}}
		}
		if d := n.NodeResources.Devices; i == 1 && len(d) > 0 {
			a.AllocatedResources.Tasks["t"].Devices = []*nomad.AllocatedDeviceResource{{Vendor: d[0].Vendor, Type: d[0].Type, Name: d[0].Name,
				DeviceIDs: []string{d[0].Instances[0].ID}}}
		}
		if w.fits(node, []*nomad.Allocation{a}) {
			w.set(a)
		}
	}
}
