package simulate

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"github.com/open-nomad/open-nomad/drivers"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/fsm"
	"github.com/open-nomad/open-nomad/nomad/fsm/testlog"
	"github.com/open-nomad/open-nomad/nomad/kinds"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/snapshot"
)

var table = kinds.Table(drivers.Table())

// service returns a service job with one group of count allocations.
func service(id string, count, cpu, memory int, edit ...func(*nomad.Job)) *nomad.Job {
	j := &nomad.Job{
		ID: id, Name: id, Type: nomad.JobTypeService, Datacenters: []string{"*"}, NodePool: nomad.NodePoolDefault,
		TaskGroups: []*nomad.TaskGroup{{Name: "g", Count: count, Tasks: []*nomad.Task{{
			Name: "t", Driver: "exec2", Config: map[string]any{"command": "/bin/sleep"}, Resources: &nomad.Resources{CPU: cpu, MemoryMB: memory},
		}}}},
	}
	for _, f := range edit {
		f(j)
	}
	return j
}

func fleet(t *testing.T, sets ...NodeSet) *Cluster {
	t.Helper()
	c, err := New(sets, table)
	if err != nil {
		t.Fatalf("New() = %v", err)
	}
	return c
}

func (c *Cluster) mustRun(t *testing.T, j *nomad.Job) *Job {
	t.Helper()
	out, err := c.Run(context.Background(), j)
	if err != nil {
		t.Fatalf("Run() = %v", err)
	}
	return out
}

// placed lists the placements as "group datacenter/class=count".
func placed(j *Job) string {
	var out []string
	for _, p := range j.Placed {
		out = append(out, fmt.Sprintf("%s %s/%s=%d", p.JobID, p.Datacenter, p.NodeClass, p.Count))
	}
	return strings.Join(out, ", ")
}

func TestPlacesInFleet(t *testing.T) {
	c := fleet(t, NodeSet{Count: 2, Class: "small", Datacenters: []string{"dc1", "dc2"}, CPU: 1000, MemoryMB: 1000},
		NodeSet{Count: 1, Class: "big", CPU: 8000, MemoryMB: 16000, Attributes: map[string]string{"gpu": "yes"}})
	before := c.Usage()
	want := []Usage{
		{Datacenter: "dc1", Nodes: 2, CPU: Amount{9000, 0, 8000}, MemoryMB: Amount{17000, 0, 16000}, DiskMB: Amount{200_000, 0, 100_000}},
		{Datacenter: "dc2", Nodes: 1, CPU: Amount{1000, 0, 1000}, MemoryMB: Amount{1000, 0, 1000}, DiskMB: Amount{100_000, 0, 100_000}},
	}
	if !reflect.DeepEqual(before, want) {
		t.Fatalf("Usage() = %+v, want %+v", before, want)
	}
	j := c.mustRun(t, service("gpu", 3, 1000, 1000, func(j *nomad.Job) {
		j.Constraints = []*nomad.Constraint{{LTarget: "${attr.gpu}", Operand: "=", RTarget: "yes"}}
	}))
	if got := placed(j); got != "gpu dc1/big=3" || j.Change != ChangeNew || !j.Launched || j.Failed() != 0 {
		t.Errorf("placed %q (%s), %d failed", got, j.Change, j.Failed())
	}
	if u := j.Desired["g"]; u == nil || u.Place != 3 {
		t.Errorf("desired updates are %+v", j.Desired["g"])
	}
	after := c.Usage()[0]
	if after.CPU != (Amount{9000, 3000, 5000}) || after.MemoryMB != (Amount{17000, 3000, 13000}) || after.DiskMB.Used != 900 {
		t.Errorf("usage after is %+v", after)
	}

	// The next job sees the first one.
	j = c.mustRun(t, service("wide", 8, 1000, 1000))
	if got, n := placed(j), j.Failed(); got != "wide dc1/big=5, wide dc1/small=1, wide dc2/small=1" || n != 1 {
		t.Errorf("placed %q, %d failed", got, n)
	}
	if m := j.FailedTGAllocs["g"]; m == nil || m.DimensionExhausted["cpu"] == 0 {
		t.Errorf("failed placements are %+v", j.FailedTGAllocs)
	}
}

// TestSameInputSamePlan simulates twice and compares everything but the times.
func TestSameInputSamePlan(t *testing.T) {
	run := func() []*Job {
		c := fleet(t, NodeSet{Count: 20, Class: "a", Datacenters: []string{"dc1", "dc2"}}, NodeSet{Count: 10, Class: "b"})
		out := []*Job{c.mustRun(t, service("one", 15, 500, 700)), c.mustRun(t, service("two", 40, 300, 900, func(j *nomad.Job) {
			j.Spreads = []*nomad.Spread{{Attribute: "${node.datacenter}", Weight: 50}}
		}))}
		for _, j := range out {
			j.SchedulingTime, j.placed = 0, nil
			for _, m := range j.FailedTGAllocs {
				m.AllocationTime = 0
			}
		}
		return out
	}
	if a, b := run(), run(); !reflect.DeepEqual(a, b) {
		t.Errorf("two runs differ: %+v, %+v", a, b)
	}
}

func TestUnlaunched(t *testing.T) {
	c := fleet(t, NodeSet{Count: 1})
	j := c.mustRun(t, service("cron", 1, 10, 10, func(j *nomad.Job) {
		j.Type = nomad.JobTypeBatch
		j.Periodic = &nomad.PeriodicConfig{Enabled: true, SpecType: "cron", Specs: []string{"0 0 * * *"}}
	}))
	if j.Launched || len(j.Placed) != 0 {
		t.Errorf("launched %v, placed %v", j.Launched, j.Placed)
	}
}

// TestRefusals checks errors of the registration: they are those of servers.
func TestRefusals(t *testing.T) {
	c := fleet(t, NodeSet{Count: 1})
	for want, j := range map[string]*nomad.Job{
		"nonexistent node pool \"gpu\"": service("j", 1, 10, 10, func(j *nomad.Job) { j.NodePool = "gpu" }),
		"priority":                      service("j", 1, 10, 10, func(j *nomad.Job) { j.Priority = 101 }),
		"malformed": service("j", 1, 10, 10, func(j *nomad.Job) {
			j.Constraints = []*nomad.Constraint{{LTarget: "${attr.x}", Operand: "regexp", RTarget: "("}}
		}),
		"region \"eu\"": service("j", 1, 10, 10, func(j *nomad.Job) { j.Region = "eu" }),
	} {
		if _, err := c.Run(context.Background(), j); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Run() = %v, want %q", err, want)
		}
	}
	// The caller of a simulation has every right: servers add the privilege.
	if _, err := c.Run(context.Background(), service("raw", 1, 10, 10, func(j *nomad.Job) {
		j.TaskGroups[0].Tasks[0].Driver, j.TaskGroups[0].Tasks[0].Config = "raw_exec", map[string]any{"command": "/bin/true"}
	})); err != nil {
		t.Errorf("a job that needs privilege: %v", err)
	}
	if err := c.apply(message.NamespaceUpsertRequestType, &message.NamespaceUpsertRequest{Namespaces: []*nomad.Namespace{
		{Name: "strict", Privileged: nomad.PrivilegedExplicit}}}); err != nil {
		t.Fatal(err)
	}
	for privileged, want := range map[bool]string{false: `privileged = "explicit" from namespace "strict"`, true: ""} {
		_, err := c.Run(context.Background(), service("raw", 1, 10, 10, func(j *nomad.Job) {
			task := j.TaskGroups[0].Tasks[0]
			j.Namespace, task.Privileged = "strict", privileged
			task.Driver, task.Config = "raw_exec", map[string]any{"command": "/bin/true"}
		}))
		if (err == nil) != privileged || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("in a namespace with explicit privilege, with the line %t: %v", privileged, err)
		}
	}
	if j := c.mustRun(t, service("j", 1, 10, 10, func(j *nomad.Job) { j.Namespace = "team" })); len(j.Placed) != 1 || j.Namespace != "team" {
		t.Errorf("a namespace of a synthetic fleet: %+v", j)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := c.Run(ctx, service("late", 1, 10, 10)); !errors.Is(err, context.Canceled) {
		t.Errorf("Run() with a canceled context = %v", err)
	}
}

func TestBadFleets(t *testing.T) {
	for want, sets := range map[string][]NodeSet{
		"no node is ready":     {{Count: 0}},
		"must not be negative": {{Count: -1}},
		"unknown driver":       {{Count: 1, Drivers: []string{"floppy"}}},
		"which no node":        {{Count: 1, Pool: "all"}},
		"more than 100000":     {{Count: 60_000}, {Count: 60_000}},
		"at most 65535":        {{Count: 1, Cores: 70_000}},
	} {
		if want == "more than 100000" {
			sets[0].Count, sets[1].Count = MaxNodes+1, 1
		}
		if _, err := New(sets, table); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("New() = %v, want %q", err, want)
		}
	}
}

// archive writes the state of a log as 'operator snapshot save' does, and reads it.
func archive(t *testing.T, l *testlog.Log) (*Cluster, error) {
	t.Helper()
	var records, buf bytes.Buffer
	if err := fsm.WriteSnapshot(&records, l.Snapshot()); err != nil {
		t.Fatal(err)
	}
	meta := &raft.SnapshotMeta{Version: 1, ID: "1-7-0", Index: 7, Term: 1, Size: int64(records.Len())}
	if _, err := snapshot.Write(&buf, meta, &records); err != nil {
		t.Fatal(err)
	}
	return Read(&buf, table)
}

// TestUpdateFromSnapshot changes a job of a snapshot, and registers it unchanged.
func TestUpdateFromSnapshot(t *testing.T) {
	l := testlog.New(nil)
	node := l.Node(t, func(n *nomad.Node) {
		n.NodeClass = "old"
		n.Name = "n1"
		n.Drivers["exec2"] = &nomad.DriverInfo{Detected: true, Healthy: true}
	})
	c, err := archive(t, l)
	if err != nil {
		t.Fatal(err)
	}
	first := c.mustRun(t, service("web", 3, 100, 100))
	if got := placed(first); got != "web dc1/old=3" {
		t.Fatalf("placed %q on node %s", got, node.ID)
	}
	if j := c.mustRun(t, service("web", 3, 100, 100)); j.Change != ChangeUnchanged || len(j.Placed)+len(j.Stopped) != 0 ||
		j.Desired["g"].Ignore != 3 {
		t.Errorf("unchanged job: %+v, desired %+v", j, j.Desired["g"])
	}
	if j := c.mustRun(t, service("web", 3, 100, 100, func(j *nomad.Job) { j.Priority = 60 })); j.Change != ChangeUpdate || len(j.Placed)+
		len(j.Stopped) != 0 || j.Desired["g"].InPlaceUpdate != 3 {
		t.Errorf("update in place: %+v, desired %+v", j, j.Desired["g"])
	}
	j := c.mustRun(t, service("web", 1, 100, 100))
	if j.Change != ChangeUpdate || len(j.Stopped) != 2 || j.Stopped[0].NodeName != "n1" ||
		j.Stopped[0].Reason != "alloc not needed due to job update" {
		t.Errorf("smaller count: %s, stopped %+v", j.Change, j.Stopped)
	}
	if _, err := c.Run(context.Background(), service("web", 1, 100, 100, func(j *nomad.Job) { j.Type = nomad.JobTypeBatch })); err == nil ||
		!strings.Contains(err.Error(), "cannot update job from type") {
		t.Errorf("Run() of another type = %v", err)
	}
	if _, err := c.Run(context.Background(), service("web", 1, 100, 100, func(j *nomad.Job) { j.Namespace = "team" })); err == nil ||
		!strings.Contains(err.Error(), "nonexistent namespace") {
		t.Errorf("Run() in another namespace = %v", err)
	}
	if n := len(collect(l)); n != 0 {
		t.Errorf("the simulation changed the original state: %d jobs", n)
	}
}

func collect(l *testlog.Log) (out []*nomad.Job) {
	for j := range l.Snapshot().Jobs(nil) {
		out = append(out, j)
	}
	return out
}

func TestBadSnapshots(t *testing.T) {
	if _, err := Read(strings.NewReader("no archive"), table); err == nil || !strings.Contains(err.Error(), "gzip") {
		t.Errorf("Read() of a text = %v", err)
	}
	l := testlog.New(nil)
	if _, err := archive(t, l); !errors.Is(err, ErrNoNodes) {
		t.Errorf("Read() without nodes = %v", err)
	}
	l.Node(t, func(n *nomad.Node) { n.SchedulingEligibility = nomad.NodeSchedulingIneligible })
	if _, err := archive(t, l); !errors.Is(err, ErrNoNodes) {
		t.Errorf("Read() with an ineligible node = %v", err)
	}
}

// TestPreemption places a job by preempting another one, whose allocation is placed again elsewhere.
func TestPreemption(t *testing.T) {
	c := fleet(t, NodeSet{Count: 1, Class: "a", Attributes: map[string]string{"fast": "yes"}}, NodeSet{Count: 1, Class: "b"})
	fast := func(j *nomad.Job) {
		j.Constraints = []*nomad.Constraint{{LTarget: "${attr.fast}", Operand: "=", RTarget: "yes"}}
	}
	if err := c.apply(message.SchedulerConfigRequestType, &message.SchedulerSetConfigRequest{Config: nomad.SchedulerConfiguration{
		SchedulerAlgorithm: nomad.SchedulerAlgorithmBinpack,
		PreemptionConfig:   nomad.PreemptionConfig{ServiceSchedulerEnabled: true}}}); err != nil {
		t.Fatal(err)
	}
	c.mustRun(t, service("fill", 1, 3000, 100, func(j *nomad.Job) {
		j.Priority = 20
		j.Affinities = []*nomad.Affinity{{LTarget: "${attr.fast}", Operand: "=", RTarget: "yes", Weight: 100}}
	}))
	j := c.mustRun(t, service("vip", 1, 3000, 100, fast, func(j *nomad.Job) { j.Priority = 90 }))
	if len(j.Preempted) != 1 || j.Preempted[0].JobID != "fill" {
		t.Fatalf("preempted %+v", j.Preempted)
	}
	if got := placed(j); got != "fill dc1/b=1, vip dc1/a=1" {
		t.Errorf("placed %q", got)
	}
	if j.Failed() != 0 {
		t.Errorf("%d failed, displaced %+v", j.Failed(), j.Displaced)
	}

	// No node has room for the next victim.
	j = c.mustRun(t, service("second", 1, 3000, 100, func(j *nomad.Job) { j.Priority = 80 }))
	if len(j.Preempted) != 1 || j.Failed() != 1 || !reflect.DeepEqual(j.Displaced, []Displaced{{"default", "fill", "g", 1}}) {
		t.Errorf("preempted %+v, displaced %+v, %d failed", j.Preempted, j.Displaced, j.Failed())
	}
}

// TestThousandNodes bounds the time of a large simulation loosely: it must not be quadratic.
func TestThousandNodes(t *testing.T) {
	c := fleet(t, NodeSet{Count: 1000})
	begun := time.Now()
	if j := c.mustRun(t, service("web", 1000, 100, 100)); j.Failed() != 0 || j.SchedulingTime <= 0 {
		t.Errorf("%d failed, took %s", j.Failed(), j.SchedulingTime)
	}
	if took := time.Since(begun); took > time.Minute {
		t.Errorf("took %s", took)
	}
}
