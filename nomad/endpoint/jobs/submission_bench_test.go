package jobs_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/server"
	"github.com/open-nomad/open-nomad/nomad/server/servertest"
)

// BenchmarkSubmission registers a job of one allocation and waits until the node has run it:
// the servers' cost of a start. The node has many ended allocations.
func BenchmarkSubmission(b *testing.B) {
	for _, over := range []int{0, 2000} {
		b.Run(fmt.Sprintf("over=%d", over), func(b *testing.B) {
			s, _ := servertest.Start(b, nil)
			n := benchNode{b: b, s: s, node: servertest.MockNode(), seen: map[string]bool{}}
			n.join()
			if over > 0 {
				n.finish(n.start("over", over))
			}
			b.ReportAllocs()
			var elapsed time.Duration
			spent := cpuTime(b)
			for i := 0; b.Loop(); i++ {
				begun := time.Now()
				started := n.start(fmt.Sprintf("bench-%d", i), 1)
				elapsed += time.Since(begun)
				n.finish(started)
			}
			b.ReportMetric(float64((cpuTime(b)-spent).Microseconds())/float64(b.N), "µs-cpu/op")
			b.ReportMetric(float64(elapsed.Microseconds())/float64(b.N), "µs/start")
		})
	}
}

// cpuTime returns the CPU time of the process, which is meaningful on a busy machine too.
func cpuTime(b *testing.B) time.Duration {
	b.Helper()
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// benchNode is a node in the process of its server.
type benchNode struct {
	b     *testing.B
	s     *server.Server
	node  *nomad.Node
	index uint64
	seen  map[string]bool
}

func (n *benchNode) call(method string, req, resp any) {
	n.b.Helper()
	if err := servertest.Retry(n.b, func(ctx context.Context) error { return n.s.Call(ctx, method, req, resp) }); err != nil {
		n.b.Fatalf("%s: %v", method, err)
	}
}

// join registers the node with sufficient resources.
func (n *benchNode) join() {
	n.node.Status = nomad.NodeStatusReady
	n.node.NodeResources.Cpu.CpuShares, n.node.NodeResources.Memory.MemoryMB, n.node.NodeResources.Disk.DiskMB = 1e9, 1e9, 1e9
	n.call("Node.Register", &message.NodeRegisterRequest{Node: n.node}, nil)
}

// start registers a job and returns its allocations after the node has them.
func (n *benchNode) start(id string, count int) []*nomad.Allocation {
	job := servertest.BatchJob(id, count)
	job.TaskGroups[0].Tasks[0].Resources = &nomad.Resources{CPU: 1, MemoryMB: 10}
	n.call("Job.Register", &message.JobRegisterRequest{Job: job}, nil)
	query := message.QueryOptions{Region: "global", AuthToken: n.node.SecretID}
	var ids []string
	for len(ids) < count {
		query.MinQueryIndex = n.index
		var list message.NodeClientAllocsResponse
		n.call("Node.GetClientAllocs", &message.NodeSpecificRequest{NodeID: n.node.ID, SecretID: n.node.SecretID, QueryOptions: query}, &list)
		n.index = list.Index
		for id := range list.Allocs {
			if !n.seen[id] {
				n.seen[id] = true
				ids = append(ids, id)
			}
		}
	}
	query.MinQueryIndex = 0
	var full message.AllocsGetResponse
	n.call("Alloc.GetAllocs", &message.AllocsGetRequest{AllocIDs: ids, QueryOptions: query}, &full)
	return full.Allocs
}

// finish reports allocations as complete.
func (n *benchNode) finish(allocs []*nomad.Allocation) {
	req := &message.AllocUpdateRequest{WriteRequest: message.WriteRequest{Region: "global", AuthToken: n.node.SecretID}}
	for _, a := range allocs {
		req.Alloc = append(req.Alloc, &nomad.Allocation{ID: a.ID, NodeID: n.node.ID, JobID: a.JobID, Namespace: a.Namespace,
			ClientStatus: nomad.AllocClientStatusComplete})
	}
	n.call("Node.UpdateAlloc", req, &message.GenericResponse{})
}
