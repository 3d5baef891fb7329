package scheduler_test

import (
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/nomad"
)

func TestPlace_Names(t *testing.T) {
	for _, typ := range []string{nomad.JobTypeService, nomad.JobTypeBatch} {
		t.Run(typ, func(t *testing.T) {
			w := newWorld(t)
			w.addNode("n1")
			w.register(job(typ, 3))
			e := w.process()
			wantNames(t, w.live(), "j.g[0]", "j.g[1]", "j.g[2]")
			if e.Status != nomad.EvalStatusComplete || e.QueuedAllocations["g"] != 0 || len(e.FailedTGAllocs) != 0 {
				t.Errorf("evaluation = %+v", e)
			}
			a := w.live()[0]
			if a.NodeName != "name-n1" || a.EvalID != e.ID || a.AllocatedResources.Tasks["t"].Cpu.CpuShares != 100 ||
				a.AllocatedResources.Shared.DiskMB != 10 || len(a.Metrics.ScoreMetaData) != 1 ||
				a.TaskResources["t"].CPU != 100 || a.TaskResources["t"].MemoryMB != 100 {
				t.Errorf("allocation = %+v", a)
			}
			w.process()
			if len(w.plans) != 1 {
				t.Errorf("a second evaluation made a plan: %+v", w.plans[1])
			}
		})
	}
}

func TestPlace_Blocked(t *testing.T) {
	w := newWorld(t)
	w.addNode("n1")
	w.register(job(nomad.JobTypeService, 50))
	e := w.process()
	if got := len(w.live()); got != 40 {
		t.Fatalf("placed %d, want the 40 that fit", got)
	}
	m := e.FailedTGAllocs["g"]
	if m == nil || m.CoalescedFailures != 9 || m.NodesExhausted != 1 || m.DimensionExhausted["cpu"] != 1 ||
		m.ResourcesExhausted["t"].CPU != 100 || m.NodesAvailable["dc1"] != 1 {
		t.Fatalf("metric = %+v", m)
	}
	if e.QueuedAllocations["g"] != 10 || len(w.created) != 1 || e.BlockedEval != w.created[0].ID {
		t.Fatalf("evaluation = %+v, created %v", e, w.created)
	}
	b := w.created[0]
	if b.Status != nomad.EvalStatusBlocked || b.EscapedComputedClass || !b.ClassEligibility[w.nodes["n1"].ComputedClass] ||
		b.PreviousEval != e.ID || b.TriggeredBy != nomad.EvalTriggerQueuedAllocs {
		t.Errorf("blocked = %+v", b)
	}

	t.Run("again", func(t *testing.T) {
		w.addNode("n2", func(n *nomad.Node) { n.NodeResources.Cpu.CpuShares = 500 })
		w.process(func(e *nomad.Evaluation) { e.Status = nomad.EvalStatusBlocked })
		if len(w.reblocked) != 1 || w.reblocked[0].QueuedAllocations["g"] != 5 || len(w.created) != 1 {
			t.Errorf("reblocked %+v, created %d", w.reblocked, len(w.created))
		}
	})
	t.Run("on a new node", func(t *testing.T) {
		w.addNode("n3")
		e := w.process(func(e *nomad.Evaluation) { e.Status = nomad.EvalStatusBlocked })
		if e.Status != nomad.EvalStatusComplete || len(w.live()) != 50 {
			t.Errorf("evaluation = %+v, %d live", e, len(w.live()))
		}
	})
}

func TestPlace_Reasons(t *testing.T) {
	constrain := func(l, op, r string) func(*nomad.Job) {
		return func(j *nomad.Job) { j.Constraints = []*nomad.Constraint{{LTarget: l, Operand: op, RTarget: r}} }
	}
	network := func(n nomad.NetworkResource) func(*nomad.Job) {
		return func(j *nomad.Job) { j.TaskGroups[0].Networks = nomad.Networks{&n} }
	}
	cases := []struct {
		name      string
		edit      func(*nomad.Job)
		filtered  string
		exhausted string
	}{
		{"constraint", constrain("${attr.kernel.name}", "=", "windows"), "${attr.kernel.name} = windows", ""},
		{"is_set", constrain("${attr.nothing}", "is_set", ""), "${attr.nothing} is_set", ""},
		{"driver", func(j *nomad.Job) { j.TaskGroups[0].Tasks[0].Driver = "x" }, "missing drivers", ""},
		{"volume", func(j *nomad.Job) {
			j.TaskGroups[0].Volumes = map[string]*nomad.VolumeRequest{"v": {Name: "v", Type: "host", Source: "data"}}
		}, `missing compatible host volume "data"`, ""},
		{"bridge", network(nomad.NetworkResource{Mode: "bridge"}), `missing network "bridge"`, ""},
		{"CNI network", network(nomad.NetworkResource{Mode: "cni/storage"}), `missing network "cni/storage"`, ""},
		{"host network", network(nomad.NetworkResource{DynamicPorts: []nomad.Port{{Label: "p", HostNetwork: "public"}}}),
			`missing host network "public" for port "p"`, ""},
		{"distinct property", constrain("${meta.rack}", "distinct_property", ""), `missing property "${meta.rack}"`, ""},
		{"memory", func(j *nomad.Job) { j.TaskGroups[0].Tasks[0].Resources.MemoryMB = 9000 }, "", "memory"},
		{"disk", func(j *nomad.Job) { j.TaskGroups[0].EphemeralDisk.SizeMB = 1_000_000 }, "", "disk"},
		{"cores", func(j *nomad.Job) { j.TaskGroups[0].Tasks[0].Resources.Cores = 5 }, "", "cores"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			w.addNode("n1", func(n *nomad.Node) { n.NodeClass = "big" })
			w.register(job(nomad.JobTypeService, 1, c.edit))
			m := w.process().FailedTGAllocs["g"]
			if m == nil || m.NodesEvaluated != 1 {
				t.Fatalf("metric = %+v", m)
			}
			if c.filtered != "" && (m.ConstraintFiltered[c.filtered] != 1 || m.NodesFiltered != 1 || m.ClassFiltered["big"] != 1) {
				t.Errorf("filtered = %+v, want %q", m, c.filtered)
			}
			if c.exhausted != "" && (m.DimensionExhausted[c.exhausted] != 1 || m.ClassExhausted["big"] != 1) {
				t.Errorf("exhausted = %+v, want %q", m, c.exhausted)
			}
		})
	}
}

func TestPorts(t *testing.T) {
	w := newWorld(t)
	w.addNode("n1", func(n *nomad.Node) {
		n.NodeResources.MinDynamicPort, n.NodeResources.MaxDynamicPort = 20000, 20002
		n.ReservedResources = &nomad.NodeReservedResources{}
		n.ReservedResources.Networks.ReservedHostPorts = "22,20001"
	})
	w.register(job(nomad.JobTypeService, 1, func(j *nomad.Job) {
		j.TaskGroups[0].Networks = nomad.Networks{{
			ReservedPorts: []nomad.Port{{Label: "http", Value: 8080}},
			DynamicPorts:  []nomad.Port{{Label: "a", To: -1}, {Label: "b", To: 80}},
		}}
	}))
	w.process()
	if len(w.live()) != 1 {
		t.Fatalf("placed %d, want 1", len(w.live()))
	}
	got := map[string]nomad.AllocatedPortMapping{}
	for _, m := range w.live()[0].AllocatedResources.Shared.Ports {
		got[m.Label] = m
	}
	if got["http"].Value != 8080 || got["http"].HostIP != "10.0.0.1" {
		t.Errorf("http = %+v", got["http"])
	}
	if a, b := got["a"], got["b"]; a.Value+b.Value != 40002 || a.To != a.Value || b.To != 80 {
		t.Errorf("dynamic ports = %+v %+v, want 20000 and 20002 (20001 is reserved)", a, b)
	}

	w.change(func(j *nomad.Job) { j.TaskGroups[0].Count = 2 })
	e := w.process()
	if m := e.FailedTGAllocs["g"]; m == nil || m.DimensionExhausted["network: reserved port collision http=8080"] != 1 {
		t.Errorf("metric = %+v", m)
	}
}

func TestCores(t *testing.T) {
	w := newWorld(t)
	w.addNode("n1")
	w.register(job(nomad.JobTypeBatch, 3, func(j *nomad.Job) { j.TaskGroups[0].Tasks[0].Resources.Cores = 2 }))
	e := w.process()
	seen := map[uint16]bool{}
	for _, a := range w.live() {
		cpu := a.AllocatedResources.Tasks["t"].Cpu
		if cpu.CpuShares != 2000 {
			t.Errorf("two of four cores are worth %d MHz, want 2000", cpu.CpuShares)
		}
		for _, id := range cpu.ReservedCores {
			if seen[id] {
				t.Errorf("core %d given twice", id)
			}
			seen[id] = true
		}
	}
	if len(seen) != 4 || e.QueuedAllocations["g"] != 1 {
		t.Errorf("cores given: %v, queued %v", seen, e.QueuedAllocations)
	}
}

func TestPlace_FeasibleNodes(t *testing.T) {
	cases := []struct {
		name string
		edit func(*nomad.Job)
		want string // nodes, in order of names
	}{
		{"datacenter glob", func(j *nomad.Job) { j.Datacenters = []string{"eu-*"} }, "b"},
		{"pool", func(j *nomad.Job) { j.NodePool = "gpu" }, "c"},
		{"unique constraint", func(j *nomad.Job) {
			j.Constraints = []*nomad.Constraint{{LTarget: "${node.unique.name}", Operand: "=", RTarget: "name-d"}}
		}, "d"},
		{"affinity", func(j *nomad.Job) {
			j.Affinities = []*nomad.Affinity{{LTarget: "${meta.ssd}", Operand: "=", RTarget: "yes", Weight: 100}}
		}, "d"},
		{"anti-affinity", func(j *nomad.Job) {
			j.Affinities = []*nomad.Affinity{
				{LTarget: "${meta.ssd}", Operand: "=", RTarget: "yes", Weight: -100},
				{LTarget: "${node.datacenter}", Operand: "=", RTarget: "eu-1", Weight: -50},
			}
		}, "a"},
		{"distinct hosts", func(j *nomad.Job) {
			j.TaskGroups[0].Count = 3
			j.Constraints = []*nomad.Constraint{{Operand: nomad.ConstraintDistinctHosts}}
		}, "abd"},
		{"distinct property", func(j *nomad.Job) {
			j.TaskGroups[0].Count = 5
			j.Constraints = []*nomad.Constraint{{LTarget: "${node.datacenter}", Operand: nomad.ConstraintDistinctProperty, RTarget: "2"}}
		}, "abd?"},
		{"spread", func(j *nomad.Job) {
			j.TaskGroups[0].Count = 2
			j.Spreads = []*nomad.Spread{{Attribute: "${node.datacenter}", Weight: 100}}
		}, "b?"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			w.addNode("a")
			w.addNode("b", func(n *nomad.Node) { n.Datacenter = "eu-1" })
			w.addNode("c", func(n *nomad.Node) { n.NodePool = "gpu" })
			w.addNode("d", func(n *nomad.Node) { n.Meta["ssd"] = "yes" })
			w.addNode("down", func(n *nomad.Node) { n.Status = nomad.NodeStatusDown })
			w.addNode("closed", func(n *nomad.Node) { n.SchedulingEligibility = nomad.NodeSchedulingIneligible })
			w.register(job(nomad.JobTypeService, 1, c.edit))
			w.process()
			perDC, used := map[string]int{}, map[string]int{}
			for _, a := range w.live() {
				used[a.NodeID]++
				perDC[w.nodes[a.NodeID].Datacenter]++
			}
			switch c.name {
			case "distinct property":
				if perDC["dc1"] != 2 || perDC["eu-1"] != 2 {
					t.Errorf("by datacenter = %v, want two each", perDC)
				}
			case "spread":
				if perDC["dc1"] != 1 || perDC["eu-1"] != 1 {
					t.Errorf("by datacenter = %v, want one each", perDC)
				}
			default:
				for _, id := range strings.Split(c.want, "") {
					if used[id] != 1 {
						t.Errorf("nodes used = %v, want %s", used, c.want)
					}
				}
			}
		})
	}
}

func TestSpreadTargets(t *testing.T) {
	w := newWorld(t)
	for _, id := range []string{"a1", "a2", "b1", "b2", "b3"} {
		w.addNode(id, func(n *nomad.Node) { n.Meta["rack"] = id[:1] })
	}
	w.register(job(nomad.JobTypeService, 10, func(j *nomad.Job) {
		j.TaskGroups[0].Spreads = []*nomad.Spread{{Attribute: "${meta.rack}", Weight: 100, SpreadTarget: []*nomad.SpreadTarget{
			{Value: "a", Percent: 70}, {Value: "b", Percent: 30},
		}}}
	}))
	w.process()
	racks := map[string]int{}
	for _, a := range w.live() {
		racks[w.nodes[a.NodeID].Meta["rack"]]++
	}
	if racks["a"] != 7 || racks["b"] != 3 {
		t.Errorf("by rack = %v, want 7 and 3", racks)
	}
}

func TestPlace_PartialCommit(t *testing.T) {
	t.Run("retried", func(t *testing.T) {
		w := newWorld(t)
		w.addNode("n1")
		w.register(job(nomad.JobTypeService, 2))
		w.refuse = func(string) bool { return len(w.plans) < 3 }
		e := w.process()
		if e.Status != nomad.EvalStatusComplete || len(w.live()) != 2 || len(w.plans) != 3 {
			t.Errorf("evaluation = %+v, %d live, %d plans", e, len(w.live()), len(w.plans))
		}
	})
	for typ, attempts := range map[string]int{nomad.JobTypeService: 5, nomad.JobTypeBatch: 2} {
		t.Run("maximum attempts of "+typ, func(t *testing.T) {
			w := newWorld(t)
			w.addNode("n1")
			w.register(job(typ, 1))
			w.refuse = func(string) bool { return true }
			e := w.process()
			if e.Status != nomad.EvalStatusFailed || len(w.plans) != attempts {
				t.Errorf("evaluation = %+v after %d plans, want failed after %d", e, len(w.plans), attempts)
			}
			if len(w.created) != 1 || w.created[0].TriggeredBy != nomad.EvalTriggerMaxPlans || e.BlockedEval != w.created[0].ID {
				t.Errorf("created = %+v", w.created)
			}
		})
	}
}

func TestPlace_StickyDisk(t *testing.T) {
	for _, sticky := range []bool{true, false} {
		w := newWorld(t)
		w.addNode("n1")
		w.register(job(nomad.JobTypeService, 3, func(j *nomad.Job) { j.TaskGroups[0].EphemeralDisk.Sticky = sticky }))
		w.process()
		// A fuller node attracts every placement that is free to choose.
		w.addNode("n2", func(n *nomad.Node) { n.NodeResources.Cpu.CpuShares, n.NodeResources.Memory.MemoryMB = 310, 310 })
		w.change(newCommand)
		w.process()
		if got := byNode(w.live()); sticky != (got["n1"] == 3) {
			t.Errorf("sticky %v: by node = %v", sticky, got)
		}
	}
}

func TestPlace_PoolAlgorithm(t *testing.T) {
	used := func(pool *nomad.NodePoolSchedulerConfiguration) int {
		w := newWorld(t)
		w.pool = pool
		for _, id := range []string{"n1", "n2"} {
			w.addNode(id, func(n *nomad.Node) { n.NodeResources.Cpu.CpuShares = 100_000 })
		}
		for _, name := range []string{"a", "b"} { // two groups: no anti-affinity between them
			w.register(job(nomad.JobTypeService, 1, func(j *nomad.Job) { j.TaskGroups[0].Name = name; j.ID = name }))
			w.process(func(e *nomad.Evaluation) { e.JobID, e.Type = name, nomad.JobTypeService })
		}
		return len(byNode(w.live()))
	}
	if got := used(nil); got != 1 {
		t.Errorf("bin packing uses %d nodes, want 1", got)
	}
	if got := used(&nomad.NodePoolSchedulerConfiguration{SchedulerAlgorithm: nomad.SchedulerAlgorithmSpread}); got != 2 {
		t.Errorf("spreading uses %d nodes, want 2", got)
	}
}

func TestOversubscription(t *testing.T) {
	for _, on := range []bool{false, true} {
		w := newWorld(t)
		w.config.MemoryOversubscriptionEnabled = on
		w.addNode("n1")
		w.register(job(nomad.JobTypeService, 2, func(j *nomad.Job) { j.TaskGroups[0].Tasks[0].Resources.MemoryMaxMB = 8000 }))
		w.process()
		want := int64(0)
		if on {
			want = 8000
		}
		if len(w.live()) != 2 || w.live()[0].AllocatedResources.Tasks["t"].Memory.MemoryMaxMB != want {
			t.Errorf("oversubscription %v: %d live, limit %+v", on, len(w.live()), w.live()[0].AllocatedResources.Tasks["t"].Memory)
		}
	}
}

// When a job is stopped, the nodes of its allocations may not exist, may be down, or may lack the
// spread's property (CVE-2022-24684).
func TestSpread_Stop(t *testing.T) {
	w := newWorld(t)
	w.addNode("n1", func(n *nomad.Node) { n.Meta["rack"] = "a" })
	w.addNode("n2")
	w.register(job(nomad.JobTypeService, 6, func(j *nomad.Job) {
		j.Spreads = []*nomad.Spread{{Attribute: "${meta.rack}", Weight: 100, SpreadTarget: []*nomad.SpreadTarget{{Value: "b", Percent: 100}}}}
		j.TaskGroups[0].Spreads = []*nomad.Spread{{Attribute: "${meta.none}", Weight: 50}, {Attribute: "${node.datacenter}", Weight: 0}}
	}))
	w.process()
	if len(w.live()) != 6 {
		t.Fatalf("%d live, want 6: a spread is a preference", len(w.live()))
	}
	delete(w.nodes, "n1")
	w.change(func(j *nomad.Job) { j.TaskGroups[0].Count = 0 })
	w.process()
	w.change(func(j *nomad.Job) { j.TaskGroups[0].Count = 2 })
	w.process()
	w.change(func(j *nomad.Job) { j.Stop = true })
	w.process()
	if len(w.live()) != 0 {
		t.Errorf("%d live after stop", len(w.live()))
	}
}

// TestInstances places a job on the node that has the instance of its driver, and that meets the
// constraint on the attributes of the instance.
func TestInstances(t *testing.T) {
	w := newWorld(t)
	for id, abi := range map[string]string{"low": "4", "none": "", "right": "7", "sick": "7"} {
		w.addNode(id, func(n *nomad.Node) {
			n.Drivers["exec2"] = &nomad.DriverInfo{Detected: true, Healthy: true}
			n.Attributes["driver.exec2.landlock.abi"] = "7"
			if abi != "" {
				n.Drivers["exec2-open"] = &nomad.DriverInfo{Detected: true, Healthy: id != "sick"}
				n.Attributes["driver.exec2-open.landlock.abi"] = abi
			}
		})
	}
	w.register(job(nomad.JobTypeService, 2, func(j *nomad.Job) {
		j.TaskGroups[0].Tasks[0].Driver = "exec2-open"
		j.TaskGroups[0].Constraints = []*nomad.Constraint{{LTarget: "${attr.driver.exec2-open.landlock.abi}", Operand: ">=", RTarget: "5"},
			{Operand: nomad.ConstraintDistinctHosts, RTarget: "true"}}
	}))
	m := w.process().FailedTGAllocs["g"]
	if len(w.live()) != 1 || w.live()[0].NodeID != "right" {
		t.Fatalf("placed on %+v, want the node right", w.live())
	}
	if m == nil || m.ConstraintFiltered["missing drivers"] != 2 || m.ConstraintFiltered["${attr.driver.exec2-open.landlock.abi} >= 5"] != 1 {
		t.Errorf("metric = %+v, want two nodes without a healthy driver and one with a low attribute", m)
	}
}
