package scheduler_test

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"
	"testing"
	"time"

	memdb "github.com/hashicorp/go-memdb"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/codec"
	"github.com/open-nomad/open-nomad/nomad/csi"
	"github.com/open-nomad/open-nomad/nomad/hostvolume"
	"github.com/open-nomad/open-nomad/nomad/nodeclass"
	"github.com/open-nomad/open-nomad/nomad/quota"
	"github.com/open-nomad/open-nomad/nomad/scheduler"
	"github.com/open-nomad/open-nomad/nomad/scheduler/feasible"
	"github.com/open-nomad/open-nomad/plugins/schema"
)

// world is a small server: the state that the scheduler reads and a planner that commits what fits,
// like the leader.
type world struct {
	t         testing.TB
	namespace *nomad.Namespace
	index     uint64
	now       time.Time
	nodes     map[string]*nomad.Node
	jobs      map[string]*nomad.Job
	allocs    map[string]*nomad.Allocation
	byNode    map[string]map[string]*nomad.Allocation
	deps      []*nomad.Deployment
	config    nomad.SchedulerConfiguration
	pool      *nomad.NodePoolSchedulerConfiguration
	quota     *quota.Spec
	// schemas are those of drivers, by digest. They are checked if parsed is set.
	schemas map[string]*nomad.DriverSchema
	volumes []*hostvolume.Volume // dynamic
	claims  []*hostvolume.Claim
	csi     map[string]*csi.Volume // by ID, with Schedulable
	parsed  *schema.Set
	// elsewhere is the usage of other namespaces of the quota.
	elsewhere quota.Amount

	evals     int // so far
	plans     []*nomad.Plan
	created   []*nomad.Evaluation
	finished  []*nomad.Evaluation
	reblocked []*nomad.Evaluation
	// refuse, if set, reports whether plans on the node are rejected.
	refuse func(node string) bool
	// slow means that clients do not end stopped allocations before they report it.
	slow bool
}

// commitDelay is how long after the decision the leader commits a plan.
const commitDelay = 50 * time.Millisecond

func newWorld(t testing.TB) *world {
	return &world{
		t: t, index: 10, now: time.Unix(1_800_000_000, 0).UTC(),
		nodes: map[string]*nomad.Node{}, jobs: map[string]*nomad.Job{},
		allocs: map[string]*nomad.Allocation{}, byNode: map[string]map[string]*nomad.Allocation{},
	}
}

func (w *world) Index() uint64                                { return w.index }
func (w *world) Node(_ memdb.WatchSet, id string) *nomad.Node { return w.nodes[id] }

func (w *world) Namespace(memdb.WatchSet, string) *nomad.Namespace { return w.namespace }

func (w *world) Job(_ memdb.WatchSet, _, id string) *nomad.Job { return w.jobs[id] }
func (w *world) Nodes(memdb.WatchSet) iter.Seq[*nomad.Node]    { return sorted(w.nodes) }
func (w *world) SchedulerConfig(memdb.WatchSet) (uint64, *nomad.SchedulerConfiguration) {
	return 1, &w.config
}

func (w *world) DriverSchema(_ memdb.WatchSet, digest string) *nomad.DriverSchema {
	return w.schemas[digest]
}

func (w *world) HostVolumeOn(_ memdb.WatchSet, node, name string) *hostvolume.Volume {
	for _, v := range w.volumes {
		if v.NodeID == node && v.Name == name {
			return v
		}
	}
	return nil
}

func (w *world) VolumeClaimsOf(_, job, group string) iter.Seq[*hostvolume.Claim] {
	return filterSeq(slices.Values(w.claims),
		func(c *hostvolume.Claim) bool { return c.JobID == job && c.TaskGroupName == group })
}

// claim records the claims of a placed allocation, like the state of the servers.
func (w *world) claim(a *nomad.Allocation) {
	for _, r := range a.Job.TaskGroup(a.TaskGroup).Volumes {
		v := w.HostVolumeOn(nil, a.NodeID, r.SourceFor(a.Name))
		if !r.Sticky || v == nil {
			continue
		}
		i := slices.IndexFunc(w.claims, func(c *hostvolume.Claim) bool {
			return c.JobID == a.JobID && c.TaskGroupName == a.TaskGroup && c.VolumeID == v.ID
		})
		if i < 0 {
			w.claims = append(w.claims, &hostvolume.Claim{Namespace: a.Namespace, JobID: a.JobID, TaskGroupName: a.TaskGroup,
				VolumeID: v.ID, VolumeName: v.Name, AllocID: a.ID})
		} else if holder := w.allocs[w.claims[i].AllocID]; holder == nil || holder.TerminalStatus() {
			w.claims[i].AllocID = a.ID
		}
	}
}

func (w *world) QuotaOf(memdb.WatchSet, string) *quota.Spec { return w.quota }

func (w *world) QuotaUsed(memdb.WatchSet, string) quota.Amount {
	out := w.elsewhere
	for _, a := range w.allocs {
		out.Add(quota.Of(a), 1)
	}
	return out
}

func (w *world) NodePool(_ memdb.WatchSet, n string) *nomad.NodePool {
	return &nomad.NodePool{Name: n, SchedulerConfiguration: w.pool}
}

func (w *world) NodesByPool(_ memdb.WatchSet, pool string) iter.Seq[*nomad.Node] {
	return filterSeq(sorted(w.nodes), func(n *nomad.Node) bool { return n.NodePool == pool })
}

func (w *world) AllocsByJob(_ memdb.WatchSet, _, job string) iter.Seq[*nomad.Allocation] {
	return filterSeq(sorted(w.allocs), func(a *nomad.Allocation) bool { return a.JobID == job })
}

func (w *world) EvalsByJob(_ memdb.WatchSet, _, job string) iter.Seq[*nomad.Evaluation] {
	return filterSeq(slices.Values(w.created), func(e *nomad.Evaluation) bool { return e.JobID == job })
}

func (w *world) LiveAllocsByNode(node string) iter.Seq[*nomad.Allocation] {
	return filterSeq(sorted(w.byNode[node]), w.uses)
}

// uses reports whether an allocation uses the resources of its node. The clients of a world end a stopped allocation at
// once, unless they are slow.
func (w *world) uses(a *nomad.Allocation) bool {
	return !a.TerminalStatus() || w.slow && !a.ClientTerminalStatus()
}

func (w *world) LatestDeployment(_ memdb.WatchSet, _, job string) *nomad.Deployment {
	for _, d := range slices.Backward(w.deps) {
		if d.JobID == job {
			return d
		}
	}
	return nil
}

func sorted[T any](m map[string]T) iter.Seq[T] {
	return func(yield func(T) bool) {
		for _, k := range slices.Sorted(maps.Keys(m)) {
			if !yield(m[k]) {
				return
			}
		}
	}
}

func filterSeq[T any](in iter.Seq[T], keep func(T) bool) iter.Seq[T] {
	return func(yield func(T) bool) {
		for v := range in {
			if keep(v) && !yield(v) {
				return
			}
		}
	}
}

// SubmitPlan commits, for each node, what fits on it.
func (w *world) SubmitPlan(_ context.Context, p *nomad.Plan) (*nomad.PlanResult, scheduler.State, error) {
	w.plans = append(w.plans, p)
	w.index++
	res := &nomad.PlanResult{NodeUpdate: p.NodeUpdate, NodeAllocation: map[string][]*nomad.Allocation{}, AllocIndex: w.index}
	for _, stops := range p.NodeUpdate {
		for _, s := range stops {
			w.stop(s)
		}
	}
	for _, evicted := range p.NodePreemptions {
		for _, v := range evicted {
			w.stop(v)
		}
	}
	res.NodePreemptions = p.NodePreemptions
	var newer scheduler.State
	for node, list := range p.NodeAllocation {
		if w.refuse != nil && w.refuse(node) || !w.fits(node, list) {
			newer = w
			continue
		}
		res.NodeAllocation[node] = list
		for _, a := range list {
			w.put(p, a)
		}
	}
	if p.Deployment != nil {
		w.deployment(p.Deployment)
	}
	for _, u := range p.DeploymentUpdates {
		w.deploymentStatus(u)
	}
	return res, newer, nil
}

// deployment stores a new deployment, or the totals of an existing one.
func (w *world) deployment(d *nomad.Deployment) {
	for _, known := range w.deps {
		if known.ID == d.ID {
			for name, g := range d.TaskGroups {
				known.TaskGroups[name].DesiredTotal = g.DesiredTotal
			}
			return
		}
	}
	added := codec.Copy(d)
	added.CreateIndex, added.ModifyIndex = w.index, w.index
	w.deps = append(w.deps, added)
}

func (w *world) deploymentStatus(u *nomad.DeploymentStatusUpdate) {
	for i, d := range w.deps {
		if d.ID == u.DeploymentID {
			out := *d
			out.Status, out.StatusDescription = u.Status, u.StatusDescription
			w.deps[i] = &out
			return
		}
	}
	w.t.Fatalf("status of unknown deployment %s", u.DeploymentID)
}

func (w *world) fits(node string, list []*nomad.Allocation) bool {
	all := map[string]*nomad.Allocation{}
	for id, a := range w.byNode[node] {
		if !a.TerminalStatus() {
			all[id] = a
		}
	}
	for _, a := range list {
		all[a.ID] = a
	}
	fit, _, _, err := feasible.AllocsFit(w.nodes[node], slices.Collect(maps.Values(all)))
	return err == nil && fit
}

func (w *world) put(p *nomad.Plan, a *nomad.Allocation) {
	out := *a
	if out.Job == nil {
		out.Job = p.Job
	}
	if out.CreateIndex == 0 {
		out.CreateIndex = w.index
		if before := w.allocs[out.PreviousAllocation]; before != nil {
			replaced := *before
			replaced.NextAllocation = out.ID
			w.set(&replaced)
		}
	}
	w.set(&out)
	if out.Job != nil {
		w.claim(&out)
	}
}

func (w *world) set(a *nomad.Allocation) {
	w.allocs[a.ID] = a
	if w.byNode[a.NodeID] == nil {
		w.byNode[a.NodeID] = map[string]*nomad.Allocation{}
	}
	w.byNode[a.NodeID][a.ID] = a
}

func (w *world) stop(s *nomad.Allocation) {
	a, ok := w.allocs[s.ID]
	if !ok {
		w.t.Fatalf("plan stops unknown allocation %s", s.ID)
	}
	out := *a
	out.DesiredStatus, out.DesiredDescription, out.ModifyIndex = s.DesiredStatus, s.DesiredDescription, w.index
	out.ModifyTime = w.now.Add(commitDelay).UnixNano()
	if s.ClientStatus != "" {
		out.ClientStatus = s.ClientStatus
	}
	w.set(&out)
}

func (w *world) FinishEval(_ context.Context, e *nomad.Evaluation, follow ...*nomad.Evaluation) error {
	w.finished = append(w.finished, e)
	w.created = append(w.created, follow...)
	return nil
}

func (w *world) CreateEval(_ context.Context, e *nomad.Evaluation) error {
	w.created = append(w.created, e)
	return nil
}

func (w *world) ReblockEval(_ context.Context, e *nomad.Evaluation) error {
	w.reblocked = append(w.reblocked, e)
	return nil
}

// addNode adds a ready node with 4 GHz, 8 GiB and one address.
func (w *world) addNode(id string, edit ...func(*nomad.Node)) *nomad.Node {
	n := &nomad.Node{
		ID: id, Name: "name-" + id, Datacenter: "dc1", NodePool: nomad.NodePoolDefault,
		Status: nomad.NodeStatusReady, SchedulingEligibility: nomad.NodeSchedulingEligible,
		Attributes: map[string]string{"kernel.name": "linux", "cpu.arch": "amd64"},
		Meta:       map[string]string{},
		Drivers:    map[string]*nomad.DriverInfo{"raw_exec": {Detected: true, Healthy: true}},
		NodeResources: &nomad.NodeResources{
			Cpu:    nomad.LegacyNodeCpuResources{CpuShares: 4000, TotalCpuCores: 4, ReservableCpuCores: []uint16{0, 1, 2, 3}},
			Memory: nomad.NodeMemoryResources{MemoryMB: 8192},
			Disk:   nomad.NodeDiskResources{DiskMB: 100_000},
			NodeNetworks: []*nomad.NodeNetworkResource{{Mode: "host", Device: "eth0", Addresses: []nomad.NodeNetworkAddress{
				{Alias: "default", Address: "10.0.0.1", Family: nomad.NodeNetworkAF_IPv4},
			}}},
		},
	}
	for _, f := range edit {
		f(n)
	}
	n.ComputedClass = nodeclass.Of(n)
	w.nodes[id] = n
	return n
}

// job returns a job of one group "g" with one task of 100 MHz and 100 MiB.
func job(typ string, count int, edit ...func(*nomad.Job)) *nomad.Job {
	j := &nomad.Job{
		ID: "j", Name: "j", Namespace: "default", Type: typ, Priority: 50,
		Datacenters: []string{"*"}, NodePool: nomad.NodePoolDefault, CreateIndex: 5, ModifyIndex: 5, JobModifyIndex: 5,
		TaskGroups: []*nomad.TaskGroup{{
			Name: "g", Count: count,
			EphemeralDisk: &nomad.EphemeralDisk{SizeMB: 10},
			Tasks: []*nomad.Task{{
				Name: "t", Driver: "raw_exec", Config: map[string]any{"command": "true"},
				Resources: &nomad.Resources{CPU: 100, MemoryMB: 100},
			}},
		}},
	}
	for _, f := range edit {
		f(j)
	}
	return j
}

// register stores the job as the current one, as a new version if it exists.
func (w *world) register(j *nomad.Job) {
	w.index++
	if old := w.jobs[j.ID]; old != nil {
		j.Version, j.CreateIndex = old.Version+1, old.CreateIndex
		j.ModifyIndex, j.JobModifyIndex = w.index, w.index
	}
	w.jobs[j.ID] = j
}

// change registers a changed copy of the job.
func (w *world) change(edit func(*nomad.Job)) {
	j := codec.Copy(w.jobs["j"])
	edit(j)
	w.register(j)
}

func (w *world) eval(edit ...func(*nomad.Evaluation)) *nomad.Evaluation {
	w.evals++
	e := &nomad.Evaluation{
		ID: fmt.Sprintf("eval-%d", w.evals), Namespace: "default", JobID: "j", Type: nomad.JobTypeService,
		Priority: 50, Status: nomad.EvalStatusPending, TriggeredBy: nomad.EvalTriggerJobRegister,
	}
	if j := w.jobs["j"]; j != nil {
		e.Type = j.Type
	}
	for _, f := range edit {
		f(e)
	}
	return e
}

// process runs one evaluation and returns its final form.
func (w *world) process(edit ...func(*nomad.Evaluation)) *nomad.Evaluation {
	w.t.Helper()
	e := w.eval(edit...)
	s, err := scheduler.New(e.Type, w, w, scheduler.Options{Seed: &[32]byte{byte(len(w.plans))},
		Now: func() time.Time { return w.now }, Schemas: w.parsed})
	if err != nil {
		w.t.Fatal(err)
	}
	if err := s.Process(context.Background(), e); err != nil {
		w.t.Fatalf("Process() = %v", err)
	}
	if len(w.finished) == 0 {
		return nil
	}
	return w.finished[len(w.finished)-1]
}

// live returns the allocations that are not terminal, by name.
func (w *world) live() []*nomad.Allocation {
	var out []*nomad.Allocation
	for _, a := range w.allocs {
		if !a.TerminalStatus() {
			out = append(out, a)
		}
	}
	slices.SortFunc(out, func(a, b *nomad.Allocation) int {
		return cmp.Or(cmp.Compare(a.Index(), b.Index()), cmp.Compare(a.NodeID, b.NodeID), cmp.Compare(a.ID, b.ID))
	})
	return out
}

// report sets the client status of live allocations.
func (w *world) report(status string, healthy *bool, allocs ...*nomad.Allocation) {
	for _, a := range allocs {
		out := *w.allocs[a.ID]
		out.ClientStatus = status
		if healthy != nil {
			out.DeploymentStatus = &nomad.AllocDeploymentStatus{Healthy: healthy, Canary: a.IsCanary()}
		}
		if status == nomad.AllocClientStatusFailed || status == nomad.AllocClientStatusComplete {
			out.TaskStates = map[string]*nomad.TaskState{"t": {
				State: nomad.TaskStateDead, Failed: status == nomad.AllocClientStatusFailed, FinishedAt: w.now,
			}}
		}
		w.set(&out)
	}
}

func names(allocs []*nomad.Allocation) []string {
	var out []string
	for _, a := range allocs {
		out = append(out, a.Name)
	}
	return out
}

func wantNames(t testing.TB, allocs []*nomad.Allocation, want ...string) {
	t.Helper()
	if got := names(allocs); !slices.Equal(got, want) {
		t.Errorf("allocations = %v, want %v", got, want)
	}
}
