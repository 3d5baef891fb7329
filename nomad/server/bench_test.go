package server_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/internal/testnet"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/server"
	"github.com/open-nomad/open-nomad/nomad/server/servertest"
)

// BenchmarkPlacement registers jobs with 2,000 allocations and waits for their placement:
// endpoint, log, broker, scheduler, plan, signatures.
func BenchmarkPlacement(b *testing.B) {
	s, err := server.New(server.Config{Region: "global", Datacenter: "dc1", Name: "bench", RPCAddr: testnet.Any}, servertest.Logger())
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.Run(ctx)
	}()
	defer func() {
		cancel()
		<-done
	}()
	for i := range 20 {
		node := servertest.MockNode()
		node.Name, node.Status = fmt.Sprintf("n%d", i), nomad.NodeStatusReady
		node.NodeResources.Cpu.CpuShares, node.NodeResources.Memory.MemoryMB = 1e9, 1e9
		node.NodeResources.Disk.DiskMB = 1e9
		if err := s.Call(ctx, "Node.Register", &message.NodeRegisterRequest{Node: node}, nil); err != nil {
			b.Fatal(err)
		}
	}
	const count = 2000
	begun := time.Now()
	for i := 0; b.Loop(); i++ {
		id := fmt.Sprintf("bench-%d", i)
		job := servertest.BatchJob(id, count)
		job.TaskGroups[0].Tasks[0].Resources = &nomad.Resources{CPU: 10, MemoryMB: 10}
		if err := s.Call(ctx, "Job.Register", &message.JobRegisterRequest{Job: job}, nil); err != nil {
			b.Fatal(err)
		}
		var out message.JobAllocationsResponse
		for len(out.Allocations) < count {
			req := servertest.JobRequest(id)
			req.MinQueryIndex = out.Index
			if err := s.Call(ctx, "Job.Allocations", req, &out); err != nil {
				b.Fatal(err)
			}
		}
	}
	b.ReportMetric(float64(count*b.N)/time.Since(begun).Seconds(), "allocs/s")
}

// BenchmarkStart starts a server until it is ready for clients. The target is 200 ms.
func BenchmarkStart(b *testing.B) {
	for b.Loop() {
		s, stop := servertest.Start(b, nil)
		if err := s.Ready(servertest.Context(b)); err != nil {
			b.Fatal(err)
		}
		stop()
	}
}

// BenchmarkLaunches measures the time from the second in which 1,000 periodic jobs are due until
// each has one child. The log is on disk. The target is 5 s.
func BenchmarkLaunches(b *testing.B) {
	const count = 1000
	s, _ := servertest.Start(b, func(c *server.Config) { c.DataDir = b.TempDir() })
	var total time.Duration
	for i := 0; b.Loop(); i++ {
		due := time.Now().UTC().Truncate(time.Second).Add(15 * time.Second)
		var all sync.WaitGroup
		for n := range count {
			all.Go(func() {
				job := servertest.BatchJob(fmt.Sprintf("cron-%d-%d", i, n), 1)
				job.Periodic = &nomad.PeriodicConfig{Enabled: true, Spec: due.Format("5 4 15 2 1 * 2006")}
				if err := s.Call(context.Background(), "Job.Register", &message.JobRegisterRequest{Job: job}, nil); err != nil {
					b.Error(err)
				}
			})
		}
		all.Wait()
		if late := time.Since(due); late > 0 {
			b.Fatalf("the jobs were registered %v too late", late)
		}
		var out message.JobListResponse
		for launched := 0; launched < count; {
			req := &message.JobListRequest{QueryOptions: message.QueryOptions{MinQueryIndex: out.Index, Prefix: fmt.Sprintf("cron-%d-", i)}}
			if err := s.Call(context.Background(), "Job.List", req, &out); err != nil {
				b.Fatal(err)
			}
			launched = len(out.Jobs) - count
		}
		total += time.Since(due)
		if got := len(out.Jobs) - count; got != count {
			b.Errorf("%d launches of %d jobs", got, count)
		}
	}
	b.ReportMetric(total.Seconds()/float64(b.N), "s/1000-launches")
}
