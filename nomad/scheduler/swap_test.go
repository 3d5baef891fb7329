package scheduler_test

import (
	"fmt"
	"testing"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/codec"
)

// swapped is a job of two or three groups, before and after a change of what they demand.
type swapped struct {
	name          string
	before, after []demand
	// remain is how many groups keep their old version, for lack of room.
	remain int
	// early is how many allocations of each node are stopped before they have a successor.
	early int
}

// demand is what a group demands of a node.
type demand struct {
	port     int
	cpu, mem int
	volume   string
}

func (s demand) apply(tg *nomad.TaskGroup) {
	tg.Networks, tg.Volumes = nil, nil
	if s.port != 0 {
		tg.Networks = nomad.Networks{{ReservedPorts: []nomad.Port{{Label: "p", Value: s.port}}}}
	}
	if s.volume != "" {
		tg.Volumes = map[string]*nomad.VolumeRequest{"v": {Name: "v", Type: "host", Source: s.volume,
			AccessMode: nomad.VolumeSingleNodeSingleWriter}}
	}
	tg.Tasks[0].Resources = &nomad.Resources{CPU: max(s.cpu, 100), MemoryMB: max(s.mem, 100)}
}

func ports(values ...int) (out []demand) {
	for _, v := range values {
		out = append(out, demand{port: v})
	}
	return out
}

// swaps is the table of changes. A node has 400 MHz and 400 MiB.
var swaps = []swapped{
	{"two ports", ports(80, 81), ports(81, 80), 0, 2},
	{"three ports", ports(80, 81, 82), ports(81, 82, 80), 0, 3},
	{"a chain", ports(80, 81), ports(81, 82), 0, 0},
	{"a chain, the other way", ports(81, 80), ports(82, 81), 0, 0},
	{"to free ports", ports(80, 81), ports(82, 83), 0, 0},
	{"a swap and a free port", ports(80, 81, 82), ports(81, 80, 83), 0, 2},
	{"two volumes", []demand{{volume: "a"}, {volume: "b"}}, []demand{{volume: "b"}, {volume: "a"}}, 0, 2},
	{"two dimensions", []demand{{cpu: 150, mem: 250}, {cpu: 250, mem: 150}}, []demand{{cpu: 250, mem: 150}, {cpu: 150, mem: 250}}, 0, 2},
	{"more than there is", []demand{{cpu: 200}, {cpu: 200}}, []demand{{cpu: 250}, {cpu: 250}}, 2, 0},
	{"a swap with more than there is", []demand{{port: 80, cpu: 200}, {port: 81, cpu: 200}},
		[]demand{{port: 81, cpu: 200}, {port: 80, cpu: 300}}, 2, 0},
	{"one port for two groups", ports(80, 81), ports(82, 82), 1, 0},
}

// job returns the job with its demands.
func (s swapped) job(typ string, count int, demands []demand) *nomad.Job {
	return job(typ, count, func(j *nomad.Job) {
		one := j.TaskGroups[0]
		j.TaskGroups = nil
		for i, d := range demands {
			tg := codec.Copy(one)
			tg.Name = fmt.Sprintf("g%d", i)
			tg.Update = &nomad.UpdateStrategy{MaxParallel: 1, HealthCheck: "checks", MinHealthyTime: 1, HealthyDeadline: 1e9, Stagger: 1e9}
			d.apply(tg)
			j.TaskGroups = append(j.TaskGroups, tg)
		}
	})
}

// users returns an error if two allocations of a node that their clients have not ended demand the same port or volume,
// unless one waits for the end of the other.
func (w *world) users(t *testing.T) {
	t.Helper()
	for _, a := range w.allocs {
		for _, b := range w.allocs {
			if a.ID >= b.ID || a.NodeID != b.NodeID || a.ClientTerminalStatus() || b.ClientTerminalStatus() || a.PreviousAllocation == b.ID ||
				b.PreviousAllocation == a.ID {
				continue
			}
			x, y := a.Job.TaskGroup(a.TaskGroup), b.Job.TaskGroup(b.TaskGroup)
			if len(x.Networks) > 0 && len(y.Networks) > 0 && x.Networks[0].ReservedPorts[0].Value == y.Networks[0].ReservedPorts[0].Value {
				t.Errorf("%s and %s both use port %d of %s", a.Name, b.Name, x.Networks[0].ReservedPorts[0].Value, a.NodeID)
			}
			if len(x.Volumes) > 0 && len(y.Volumes) > 0 && x.Volumes["v"].Source == y.Volumes["v"].Source {
				t.Errorf("%s and %s both write %s of %s", a.Name, b.Name, x.Volumes["v"].Source, a.NodeID)
			}
		}
	}
}

// settle ends stopped allocations one after the other, reports new ones as healthy, and processes an evaluation after
// each change, until nothing changes. While allocations are missing, an evaluation waits. At most max_parallel
// (one) of each group of a service job are missing. Other jobs do not wait for the health of their allocations.
func (w *world) settle(t *testing.T, count int) {
	t.Helper()
	for range 200 {
		e := w.process()
		w.users(t)
		missing := map[string]int{}
		for _, tg := range w.jobs["j"].TaskGroups {
			missing[tg.Name] = count
		}
		for _, a := range w.live() {
			missing[a.TaskGroup]--
		}
		for group, n := range missing {
			if n > 1 && e.Type == nomad.JobTypeService || n > 0 && e.BlockedEval == "" {
				t.Errorf("%d allocations of %s are missing, and %q waits", n, group, e.BlockedEval)
			}
		}
		if !w.advance() {
			return
		}
	}
	t.Fatal("the job does not come to rest")
}

// advance lets a client end one stopped allocation or, if there is none, report new ones as healthy.
func (w *world) advance() (changed bool) {
	for a := range sorted(w.allocs) {
		if a.ServerTerminalStatus() && !a.ClientTerminalStatus() {
			w.report(nomad.AllocClientStatusComplete, nil, a)
			return true
		}
	}
	healthy := true
	for _, a := range w.live() {
		if a.ClientStatus != nomad.AllocClientStatusRunning {
			w.report(nomad.AllocClientStatusRunning, &healthy, a)
			changed = true
		}
	}
	return changed
}

// early returns how many allocations were stopped by a plan without a successor.
func early(plans []*nomad.Plan) (n int) {
	replaced := map[string]bool{}
	for _, p := range plans {
		for _, list := range p.NodeAllocation {
			for _, a := range list {
				replaced[a.PreviousAllocation] = true
			}
		}
		for _, list := range p.NodeUpdate {
			for _, a := range list {
				if !replaced[a.ID] {
					n++
				}
			}
		}
	}
	return n
}

// A new version exchanges what its groups hold on their nodes. Each allocation is replaced in the end, and no two use
// the same port or volume at a time. See settle.
func TestSwap(t *testing.T) {
	for _, typ := range []string{nomad.JobTypeService, nomad.JobTypeBatch, nomad.JobTypeSystem} {
		for _, nodes := range []int{1, 3} {
			for _, s := range swaps {
				t.Run(fmt.Sprintf("%s of a %s job on %d nodes", s.name, typ, nodes), func(t *testing.T) {
					w := newWorld(t)
					w.slow = true
					for i := range nodes {
						w.addNode(fmt.Sprintf("n%d", i), func(n *nomad.Node) {
							n.NodeResources.Cpu.CpuShares, n.NodeResources.Memory.MemoryMB = 400, 400
							n.HostVolumes = map[string]*nomad.ClientHostVolumeConfig{"a": {Name: "a"}, "b": {Name: "b"}}
						})
					}
					w.register(s.job(typ, nodes, s.before))
					w.settle(t, nodes)
					if got := versions(w.live()); got[0] != nodes*len(s.before) {
						t.Fatalf("%d run", got[0])
					}
					first := len(w.plans)
					w.register(s.job(typ, nodes, s.after))
					w.settle(t, nodes)
					all := nodes * len(s.before)
					if got := versions(w.live()); s.remain == 0 && got[1] != all || s.remain > 0 && got[0]+got[1] != all {
						t.Errorf("live by version: %v, want %d in all and %d groups of the old one", got, all, s.remain)
					}
					if got, want := early(w.plans[first:]), nodes*s.early; got != want {
						t.Errorf("%d allocations were stopped before they had a successor, want %d", got, want)
					}
				})
			}
		}
	}
}
