package testlog

import (
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/nodeclass"
)

// Node registers a ready node with 4000 MHz, 8192 MiB and one address.
func (l *Log) Node(t testing.TB, edit ...func(*nomad.Node)) *nomad.Node {
	t.Helper()
	n := &nomad.Node{
		ID: nomad.NewID(), SecretID: nomad.NewID(), Name: "node", Datacenter: "dc1", NodePool: nomad.NodePoolDefault,
		Status: nomad.NodeStatusReady, SchedulingEligibility: nomad.NodeSchedulingEligible,
		Attributes: map[string]string{"kernel.name": "linux"},
		Drivers:    map[string]*nomad.DriverInfo{"mock_driver": {Detected: true, Healthy: true}},
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
	snap := l.must(t, message.NodeRegisterRequestType, &message.NodeRegisterRequest{Node: n})
	if n.Status != nomad.NodeStatusInit {
		snap = l.must(t, message.NodeUpdateStatusRequestType, &message.NodeUpdateStatusRequest{
			NodeID: n.ID, Status: n.Status, UpdatedAt: n.StatusUpdatedAt,
		})
	}
	return snap.Node(nil, n.ID)
}

// Job registers a job with one group "g" of count allocations and one task "t" with 100 MHz and
// 100 MiB.
func (l *Log) Job(t testing.TB, typ string, count int, edit ...func(*nomad.Job)) *nomad.Job {
	t.Helper()
	j := &nomad.Job{
		ID: "job-" + nomad.NewID(), Namespace: nomad.DefaultNamespace, Type: typ, Priority: 50, Region: "global",
		Datacenters: []string{"*"}, NodePool: nomad.NodePoolDefault, SubmitTime: time.Now().UnixNano(),
		TaskGroups: []*nomad.TaskGroup{{
			Name: "g", Count: count,
			EphemeralDisk: &nomad.EphemeralDisk{SizeMB: 10},
			Tasks: []*nomad.Task{{
				Name: "t", Driver: "mock_driver", Config: map[string]any{"run_for": "10s"},
				Resources: &nomad.Resources{CPU: 100, MemoryMB: 100},
				LogConfig: &nomad.LogConfig{MaxFiles: 1, MaxFileSizeMB: 1},
			}},
		}},
	}
	j.Name = j.ID
	for _, f := range edit {
		f(j)
	}
	snap := l.must(t, message.JobRegisterRequestType, &message.JobRegisterRequest{
		Job: j, WriteRequest: message.WriteRequest{Namespace: j.Namespace},
	})
	return snap.Job(nil, j.Namespace, j.ID)
}

// Eval writes a pending evaluation of the job.
func (l *Log) Eval(t testing.TB, j *nomad.Job, edit ...func(*nomad.Evaluation)) *nomad.Evaluation {
	t.Helper()
	e := nomad.NewEval(j, nomad.EvalTriggerJobRegister, time.Now())
	for _, f := range edit {
		f(e)
	}
	snap := l.must(t, message.EvalUpdateRequestType, &message.EvalUpdateRequest{Evals: []*nomad.Evaluation{e}})
	return snap.Eval(nil, e.ID)
}

// NewAlloc returns an allocation of the job's group "g" on the node with the resources of its
// tasks. It writes nothing.
func NewAlloc(j *nomad.Job, node *nomad.Node, edit ...func(*nomad.Allocation)) *nomad.Allocation {
	a := &nomad.Allocation{
		ID: nomad.NewID(), Namespace: j.Namespace, JobID: j.ID, Job: j, TaskGroup: "g", Name: nomad.AllocName(j.ID, "g", 0),
		NodeID: node.ID, NodeName: node.Name,
		DesiredStatus: nomad.AllocDesiredStatusRun, ClientStatus: nomad.AllocClientStatusPending,
		AllocatedResources: &nomad.AllocatedResources{
			Tasks:  map[string]*nomad.AllocatedTaskResources{},
			Shared: nomad.AllocatedSharedResources{DiskMB: 10},
		},
	}
	for _, task := range j.TaskGroup("g").Tasks {
		a.AllocatedResources.Tasks[task.Name] = &nomad.AllocatedTaskResources{
			Cpu:    nomad.AllocatedCpuResources{CpuShares: int64(task.Resources.CPU)},
			Memory: nomad.AllocatedMemoryResources{MemoryMB: int64(task.Resources.MemoryMB)},
		}
	}
	for _, f := range edit {
		f(a)
	}
	return a
}

// Alloc writes an allocation of the job on the node.
func (l *Log) Alloc(t testing.TB, j *nomad.Job, node *nomad.Node, edit ...func(*nomad.Allocation)) *nomad.Allocation {
	t.Helper()
	a := NewAlloc(j, node, edit...)
	snap := l.must(t, message.ApplyPlanResultsRequestType, &message.ApplyPlanResultsRequest{
		AllocsUpdated: []*nomad.Allocation{a}, UpdatedAt: time.Now().UnixNano(),
	})
	return snap.Alloc(nil, a.ID)
}
