package rebalance_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/fsm/testlog"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rebalance"
	"github.com/open-nomad/open-nomad/nomad/scheduler"
	"github.com/open-nomad/open-nomad/nomad/scheduler/feasible"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// fleet is a state with nodes of 4000 MHz and 8192 MiB.
type fleet struct {
	*testlog.Log
	t     *testing.T
	nodes map[string]*nomad.Node
	jobs  map[string]*nomad.Job
	next  int
}

func newFleet(t *testing.T, nodes ...string) *fleet {
	f := &fleet{Log: testlog.New(nil), t: t, nodes: map[string]*nomad.Node{}, jobs: map[string]*nomad.Job{}}
	for _, name := range nodes {
		f.node(name)
	}
	return f
}

func (f *fleet) node(name string, edit ...func(*nomad.Node)) {
	f.t.Helper()
	id := fmt.Sprintf("00000000-0000-0000-0000-%012d", len(f.nodes))
	f.nodes[name] = f.Node(f.t, append([]func(*nomad.Node){func(n *nomad.Node) { n.ID, n.Name = id, name }}, edit...)...)
}

// job registers a service job with one group of 400 MHz and 256 MiB.
func (f *fleet) job(id string, count int, edit ...func(*nomad.Job)) *nomad.Job {
	f.t.Helper()
	j := f.Job(f.t, nomad.JobTypeService, count, append([]func(*nomad.Job){func(j *nomad.Job) {
		j.ID = id
		j.TaskGroups[0].Tasks[0].Resources = &nomad.Resources{CPU: 400, MemoryMB: 256}
		j.TaskGroups[0].Migrate = &nomad.MigrateStrategy{MaxParallel: 1}
	}}, edit...)...)
	f.jobs[id] = j
	return j
}

// place adds running, healthy allocations of a job to a node.
func (f *fleet) place(job, node string, count int, edit ...func(*nomad.Allocation)) {
	f.t.Helper()
	j := f.jobs[job]
	ask := j.TaskGroups[0].Tasks[0].Resources
	for range count {
		index := 0
		for a := range f.Snapshot().AllocsByJob(nil, j.Namespace, j.ID) {
			index = max(index, a.Index()+1)
		}
		id := fmt.Sprintf("a0000000-0000-0000-0000-%012d", f.next)
		f.next++
		f.Alloc(f.t, j, f.nodes[node], append([]func(*nomad.Allocation){func(a *nomad.Allocation) {
			yes := true
			a.ID, a.Name, a.Job = id, nomad.AllocName(j.ID, "g", uint(index)), j
			a.ClientStatus, a.DesiredStatus = nomad.AllocClientStatusRunning, nomad.AllocDesiredStatusRun
			a.DeploymentStatus = &nomad.AllocDeploymentStatus{Healthy: &yes}
			a.AllocatedResources = &nomad.AllocatedResources{
				Tasks: map[string]*nomad.AllocatedTaskResources{"t": {
					Cpu: nomad.AllocatedCpuResources{CpuShares: int64(ask.CPU)}, Memory: nomad.AllocatedMemoryResources{MemoryMB: int64(ask.MemoryMB)}}},
				Shared: nomad.AllocatedSharedResources{DiskMB: 10},
			}
		}}, edit...)...)
	}
}

func (f *fleet) plan(o rebalance.Options) *message.Rebalance {
	f.t.Helper()
	r, err := rebalance.Plan(context.Background(), f.Snapshot(), o)
	if err != nil {
		f.t.Fatalf("Plan() = %v", err)
	}
	return r
}

// moves lists the moves as "job a>b".
func moves(r *message.Rebalance) string {
	var out []string
	for _, m := range r.Moves {
		out = append(out, fmt.Sprintf("%s %s>%s", m.JobID, m.FromName, m.ToName))
	}
	return strings.Join(out, ", ")
}

func TestPlan(t *testing.T) {
	meta := func(k, v string) func(*nomad.Node) {
		return func(n *nomad.Node) { n.Meta = map[string]string{k: v} }
	}
	constraint := func(c nomad.Constraint) func(*nomad.Job) {
		return func(j *nomad.Job) { j.TaskGroups[0].Constraints = []*nomad.Constraint{&c} }
	}
	for name, c := range map[string]struct {
		build func(*fleet)
		opts  rebalance.Options
		want  string
	}{
		"even fleet": {func(f *fleet) { f.job("web", 4); f.place("web", "a", 2); f.place("web", "b", 2) }, rebalance.Options{}, ""},
		"to the empty node": {func(f *fleet) { f.job("web", 4); f.place("web", "a", 4) }, rebalance.Options{},
			"web a>b, web a>b"},
		"budget": {func(f *fleet) { f.job("web", 4); f.place("web", "a", 4) }, rebalance.Options{MaxMoves: 1}, "web a>b"},
		"constraint": {func(f *fleet) {
			f.node("c", meta("rack", "1"))
			f.job("web", 4, constraint(nomad.Constraint{LTarget: "${meta.rack}", Operand: "=", RTarget: "1"}))
			f.place("web", "a", 4)
		}, rebalance.Options{}, "web a>c, web a>c"},
		"no suitable node": {func(f *fleet) {
			f.job("web", 4, constraint(nomad.Constraint{LTarget: "${meta.rack}", Operand: "=", RTarget: "1"}))
			f.place("web", "a", 4)
		}, rebalance.Options{}, ""},
		"distinct_hosts": {func(f *fleet) {
			f.job("web", 2, constraint(nomad.Constraint{Operand: nomad.ConstraintDistinctHosts}))
			f.job("fill", 3)
			f.place("web", "a", 1)
			f.place("web", "b", 1)
			f.place("fill", "a", 4, func(a *nomad.Allocation) { a.DeploymentStatus = nil })
		}, rebalance.Options{}, ""},
		"one allocation of distinct_hosts at the target": {func(f *fleet) {
			f.node("c")
			f.job("web", 2, constraint(nomad.Constraint{Operand: nomad.ConstraintDistinctHosts}))
			f.job("fill", 8)
			for _, node := range []string{"a", "b"} {
				f.place("web", node, 1)
				f.place("fill", node, 4, func(a *nomad.Allocation) { a.DeploymentStatus = nil })
			}
		}, rebalance.Options{}, "web a>c"},
		"one allocation with a static port at the target": {func(f *fleet) {
			f.node("c")
			f.job("fill", 8)
			for job, node := range map[string]string{"web-a": "a", "web-b": "b"} {
				f.job(job, 1, func(j *nomad.Job) {
					j.TaskGroups[0].Networks = nomad.Networks{{ReservedPorts: []nomad.Port{{Label: "http", Value: 8080}}}}
				})
				f.place(job, node, 1)
				f.place("fill", node, 4, func(a *nomad.Allocation) { a.DeploymentStatus = nil })
			}
		}, rebalance.Options{}, "web-a a>c"},
		"within one value of distinct_property": {func(f *fleet) {
			f.node("c", meta("rack", "1"))
			f.node("d", meta("rack", "1"))
			f.job("web", 1, constraint(nomad.Constraint{LTarget: "${meta.rack}", Operand: nomad.ConstraintDistinctProperty}))
			f.job("fill", 3)
			f.place("web", "c", 1)
			f.place("fill", "c", 4, func(a *nomad.Allocation) { a.DeploymentStatus = nil })
		}, rebalance.Options{}, "web c>d"},
		"not against an affinity": {func(f *fleet) {
			f.node("c", meta("fast", "yes"))
			f.job("web", 2, func(j *nomad.Job) {
				j.Affinities = []*nomad.Affinity{{LTarget: "${meta.fast}", Operand: "=", RTarget: "yes", Weight: 50}}
			})
			f.place("web", "c", 2)
		}, rebalance.Options{}, ""},
		"not to a node with an allocation of the group": {func(f *fleet) {
			f.job("web", 2)
			f.job("fill", 3)
			f.place("web", "a", 1)
			f.place("web", "b", 1)
			f.place("fill", "a", 4, func(a *nomad.Allocation) { a.DeploymentStatus = nil })
		}, rebalance.Options{}, ""},
		"ineligible nodes do not count": {func(f *fleet) {
			f.node("c", func(n *nomad.Node) { n.SchedulingEligibility = nomad.NodeSchedulingIneligible })
			f.job("web", 3)
			f.place("web", "a", 1)
			f.place("web", "b", 1)
		}, rebalance.Options{}, ""},
		"datacenter": {func(f *fleet) {
			f.node("c", func(n *nomad.Node) { n.Datacenter = "dc2" })
			f.job("web", 4)
			f.place("web", "c", 4)
		}, rebalance.Options{Datacenter: "dc1"}, ""},
		"all node pools": {func(f *fleet) { f.job("web", 4); f.place("web", "a", 4) },
			rebalance.Options{NodePool: nomad.NodePoolAll, MaxMoves: 1}, "web a>b"},
		"another node pool": {func(f *fleet) { f.job("web", 4); f.place("web", "a", 4) }, rebalance.Options{NodePool: "gpu"}, ""},
		"one job": {func(f *fleet) {
			f.job("web", 2)
			f.job("api", 2)
			f.place("web", "a", 2)
			f.place("api", "a", 2)
		}, rebalance.Options{Namespace: "default", JobID: "api"}, "api a>b"},
		"hidden namespace": {func(f *fleet) { f.job("web", 4); f.place("web", "a", 4) },
			rebalance.Options{MayMove: func(string) bool { return false }}, ""},
		"by memory": {func(f *fleet) {
			f.job("db", 2, func(j *nomad.Job) {
				j.TaskGroups[0].Tasks[0].Resources = &nomad.Resources{CPU: 10, MemoryMB: 3000}
			})
			f.place("db", "a", 2)
		}, rebalance.Options{}, "db a>b"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFleet(t, "a", "b")
			c.build(f)
			if c.opts.MaxMoves == 0 {
				c.opts.MaxMoves = 10
			}
			if got := moves(f.plan(c.opts)); got != c.want {
				t.Errorf("moves are %q, want %q", got, c.want)
			}
		})
	}
}

// TestSkipped checks each reason for which an allocation stays.
func TestSkipped(t *testing.T) {
	group := func(edit func(*nomad.TaskGroup)) func(*nomad.Job) {
		return func(j *nomad.Job) { edit(j.TaskGroups[0]) }
	}
	no, yes := false, true
	for want, c := range map[string]struct {
		job   func(*nomad.Job)
		alloc func(*nomad.Allocation)
	}{
		"of a batch job": {job: func(j *nomad.Job) { j.Type = nomad.JobTypeBatch }},
		"of a group with migrate.max_parallel = 0": {job: group(func(tg *nomad.TaskGroup) { tg.Migrate.MaxParallel = 0 })},
		"with a sticky disk":                       {job: group(func(tg *nomad.TaskGroup) { tg.EphemeralDisk.Sticky = true })},
		"with a sticky volume": {job: group(func(tg *nomad.TaskGroup) {
			tg.Volumes = map[string]*nomad.VolumeRequest{"v": {Name: "v", Type: "host", Source: "v", Sticky: true}}
		})},
		"not running":                    {alloc: func(a *nomad.Allocation) { a.ClientStatus = nomad.AllocClientStatusPending }},
		"not healthy":                    {alloc: func(a *nomad.Allocation) { a.DeploymentStatus.Healthy = &no }},
		"canary":                         {alloc: func(a *nomad.Allocation) { a.DeploymentStatus.Canary = true }},
		"already migrating":              {alloc: func(a *nomad.Allocation) { a.DesiredTransition.Migrate = &yes }},
		"of an older version of its job": {alloc: func(a *nomad.Allocation) { j := *a.Job; j.Version++; a.Job = &j }},
	} {
		t.Run(want, func(t *testing.T) {
			f := newFleet(t, "a", "b")
			edit, change := []func(*nomad.Job){}, []func(*nomad.Allocation){}
			if c.job != nil {
				edit = append(edit, c.job)
			}
			if c.alloc != nil {
				change = append(change, c.alloc)
			}
			f.job("web", 4, edit...)
			f.place("web", "a", 4, change...)
			r := f.plan(rebalance.Options{MaxMoves: 10})
			if got := moves(r); got != "" || !maps.Equal(r.Skipped, map[string]int{want: 4}) {
				t.Errorf("moves are %q, skipped are %v, want none and 4 %s", got, r.Skipped, want)
			}
		})
	}
}

func TestActiveDeployment(t *testing.T) {
	f := newFleet(t, "a", "b")
	j := f.job("web", 4)
	f.place("web", "a", 4)
	f.Must(t, message.ApplyPlanResultsRequestType, &message.ApplyPlanResultsRequest{Deployment: &nomad.Deployment{
		ID: nomad.NewID(), Namespace: j.Namespace, JobID: j.ID, JobVersion: j.Version, JobCreateIndex: j.CreateIndex,
		Status:     nomad.DeploymentStatusRunning,
		TaskGroups: map[string]*nomad.DeploymentState{"g": {DesiredTotal: 4}}}})
	if r := f.plan(rebalance.Options{MaxMoves: 10}); moves(r) != "" || r.Skipped["of a job with an active deployment"] != 4 {
		t.Errorf("moves are %q, skipped are %v", moves(r), r.Skipped)
	}
}

func TestRefusal(t *testing.T) {
	f := newFleet(t, "a", "b")
	f.node("full")
	f.job("web", 2)
	f.place("web", "a", 2)
	f.job("fill", 1, func(j *nomad.Job) {
		j.TaskGroups[0].Tasks[0].Resources = &nomad.Resources{CPU: 4000, MemoryMB: 100}
	})
	f.place("fill", "full", 1)
	f.node("closed", func(n *nomad.Node) { n.SchedulingEligibility = nomad.NodeSchedulingIneligible })
	snap := f.Snapshot()
	alloc := onNode(snap, f.nodes["a"].ID)[0]
	for node, want := range map[string]string{f.nodes["closed"].ID: "cannot run on node", f.nodes["b"].ID: "",
		f.nodes["a"].ID: "already on node", f.nodes["full"].ID: "cannot run on node", "x": "does not exist"} {
		err := rebalance.Refusal(snap, alloc, node, scheduler.Options{})
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("Refusal() = %v, want %q", err, want)
		}
	}
	yes := true // one allocation of the group moves: its max_parallel is reached
	f.Must(t, message.AllocUpdateDesiredTransitionRequestType, &message.AllocUpdateDesiredTransitionRequest{
		Allocs: map[string]*nomad.DesiredTransition{alloc.ID: {Migrate: &yes, TargetNode: f.nodes["b"].ID}}})
	snap = f.Snapshot()
	if got := snap.Alloc(nil, alloc.ID).DesiredTransition.TargetNode; got != f.nodes["b"].ID {
		t.Errorf("the target of the move is %q", got)
	}
	if err := rebalance.Refusal(snap, snap.Alloc(nil, alloc.ID), f.nodes["b"].ID, scheduler.Options{}); err == nil ||
		!strings.Contains(err.Error(), "already migrating") {
		t.Errorf("Refusal() of a moving allocation = %v", err)
	}
	if err := rebalance.Refusal(snap, onNode(snap, f.nodes["a"].ID)[1], f.nodes["b"].ID, scheduler.Options{}); err == nil ||
		!strings.Contains(err.Error(), "too few other allocations") {
		t.Errorf("Refusal() beyond max_parallel = %v", err)
	}
}

func onNode(snap *state.Snapshot, node string) []*nomad.Allocation {
	return slices.SortedFunc(snap.LiveAllocsByNode(node), func(a, b *nomad.Allocation) int { return strings.Compare(a.ID, b.ID) })
}

func TestPlanEndsWithContext(t *testing.T) {
	f := newFleet(t, "a", "b")
	f.job("web", 4)
	f.place("web", "a", 4)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := rebalance.Plan(ctx, f.Snapshot(), rebalance.Options{MaxMoves: 1}); !errors.Is(err, context.Canceled) {
		t.Errorf("Plan() = %v, want %v", err, context.Canceled)
	}
}

// TestPlanProperties plans for random fleets. Every move is one that Refusal allows in the state before it, lowers
// the deviation, and leaves no node over its capacity. There are at most MaxMoves, and the same input gives the same
// plan.
func TestPlanProperties(t *testing.T) {
	total := 0
	for seed := range uint64(60) {
		f := randomFleet(t, rand.New(rand.NewPCG(seed, 3)))
		o := rebalance.Options{MaxMoves: int(seed%12) + 1}
		snap := f.Snapshot()
		r := f.plan(o)
		total += len(r.Moves)
		if again := f.plan(o); !reflect.DeepEqual(r, again) {
			t.Fatalf("seed %d: two plans differ: %s; %s", seed, moves(r), moves(again))
		}
		if len(r.Moves) > o.MaxMoves {
			t.Fatalf("seed %d: %d moves, want at most %d", seed, len(r.Moves), o.MaxMoves)
		}
		last := r.Before.Deviation
		for i, m := range r.Moves {
			if m.Deviation >= last {
				t.Fatalf("seed %d: move %d changes the deviation from %v to %v", seed, i, last, m.Deviation)
			}
			last = m.Deviation
			if err := rebalance.Refusal(snap, snap.Alloc(nil, m.AllocID), m.ToID, scheduler.Options{}); err != nil {
				t.Fatalf("seed %d: move %d is refused: %v", seed, i, err)
			}
			snap = f.made(m)
		}
		if math.Abs(r.After.Deviation-last) > 1e-12 {
			t.Fatalf("seed %d: the deviation at the end is %v, want %v", seed, r.After.Deviation, last)
		}
		for n := range snap.Nodes(nil) {
			if fit, dim, _, err := feasible.AllocsFit(n, onNode(snap, n.ID)); err != nil || !fit {
				t.Fatalf("seed %d: node %s is over its %s (%v)", seed, n.Name, dim, err)
			}
		}
	}
	if total < 60 {
		t.Errorf("%d moves in all fleets: the property is hardly tested", total)
	}
}

// made returns the state after a move.
func (f *fleet) made(m *message.AllocMove) *state.Snapshot {
	a := *f.Snapshot().Alloc(nil, m.AllocID)
	a.NodeID, a.NodeName = m.ToID, m.ToName
	f.Must(f.t, message.ApplyPlanResultsRequestType, &message.ApplyPlanResultsRequest{AllocsUpdated: []*nomad.Allocation{&a}, UpdatedAt: 1})
	return f.Snapshot()
}

func randomFleet(t *testing.T, rng *rand.Rand) *fleet {
	f := newFleet(t)
	for i := range 3 + rng.IntN(8) {
		f.node(fmt.Sprint("n", i), func(n *nomad.Node) {
			n.NodeResources.Cpu.CpuShares = 2000 + rng.Int64N(6000)
			n.NodeResources.Memory.MemoryMB = 2000 + rng.Int64N(6000)
			n.Meta = map[string]string{"rack": fmt.Sprint(rng.IntN(3))}
		})
	}
	for i := range 2 + rng.IntN(5) {
		id := fmt.Sprint("job", i)
		f.job(id, 20, func(j *nomad.Job) {
			tg := j.TaskGroups[0]
			tg.Tasks[0].Resources = &nomad.Resources{CPU: 100 + rng.IntN(600), MemoryMB: 50 + rng.IntN(600)}
			tg.Migrate.MaxParallel = 20
			switch rng.IntN(4) {
			case 0:
				tg.Constraints = []*nomad.Constraint{{Operand: nomad.ConstraintDistinctHosts}}
			case 1:
				tg.Constraints = []*nomad.Constraint{{LTarget: "${meta.rack}", Operand: "!=", RTarget: "1"}}
			case 2:
				j.Spreads = []*nomad.Spread{{Attribute: "${meta.rack}", Weight: 50}}
			}
		})
		f.scatter(id, rng)
	}
	return f
}

// scatter places allocations of a job on random nodes that have room, mostly on the first nodes.
func (f *fleet) scatter(job string, rng *rand.Rand) {
	ask := f.jobs[job].TaskGroups[0].Tasks[0].Resources
	for range 12 {
		name := fmt.Sprint("n", min(rng.IntN(len(f.nodes)), rng.IntN(len(f.nodes))))
		n := f.nodes[name]
		_, _, used, err := feasible.AllocsFit(n, onNode(f.Snapshot(), n.ID))
		if err != nil {
			f.t.Fatal(err)
		}
		if room := feasible.Capacity(n); used.CPU+int64(ask.CPU) <= room.CPU && used.MemoryMB+int64(ask.MemoryMB) <= room.MemoryMB {
			f.place(job, name, 1)
		}
	}
}
