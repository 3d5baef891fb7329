package catalogue_test

import (
	"context"
	"fmt"
	"log/slog"
	"runtime"
	"sync"
	"testing"

	"github.com/open-nomad/open-nomad/client/catalogue"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/catalog"
	"github.com/open-nomad/open-nomad/nomad/codec"
	"github.com/open-nomad/open-nomad/nomad/message"
)

// large is a server with 50,000 instances of MaxNames services. Its answers are decoded, as those of a connection.
type large struct{}

const largeInstances = 50_000

func (large) Call(ctx context.Context, _ string, request, response any) error {
	req := request.(*message.ServiceWatchRequest)
	answer := &message.ServiceWatchResponse{}
	answer.KnownLeader = true
	for _, v := range req.Services {
		var n int
		if _, err := fmt.Sscanf(v.Name, "s%d", &n); err != nil {
			return err
		}
		if v.Version != "" {
			continue
		}
		state := &message.ServiceState{Namespace: v.Namespace, Name: v.Name, Version: "0123456789abcdef"}
		for i := n; i < largeInstances; i += catalogue.MaxNames {
			alloc := nomad.NewID()
			state.Instances = append(state.Instances, &catalog.Instance{NodeName: fmt.Sprint("node", i%1000), NodeAddress: "10.0.0.1",
				NodeStatus: "ready", Registration: catalog.Registration{ID: catalog.ID(alloc, "t", v.Name, "http"), ServiceName: v.Name,
					Namespace: "default", NodeID: nomad.NewID(), Datacenter: "dc1", JobID: "job", AllocID: alloc,
					Tags: []string{"v1", "blue"}, Address: "10.0.0.1", Port: 20000 + i%1000}})
		}
		answer.Services = append(answer.Services, state)
	}
	if len(answer.Services) == 0 {
		<-ctx.Done() // nothing changes
		return ctx.Err()
	}
	raw, err := codec.Encode(answer)
	if err != nil {
		return err
	}
	return codec.Decode(raw, response)
}

// BenchmarkInstances asks for services of a full cache with 50,000 instances, and measures its memory.
func BenchmarkInstances(b *testing.B) {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	c := catalogue.New(catalogue.Config{Servers: large{}, Log: slog.New(slog.DiscardHandler)})
	ctx, cancel := context.WithCancel(b.Context())
	var run, first sync.WaitGroup
	run.Go(func() { c.Run(ctx) }) //nolint:errcheck // ends with ctx
	b.Cleanup(func() { cancel(); run.Wait() })
	names := make([]string, catalogue.MaxNames)
	for i := range names {
		names[i] = fmt.Sprint("s", i)
		first.Go(func() { c.Instances(ctx, "default", names[i]) }) //nolint:errcheck // asked again below
	}
	first.Wait()
	total := 0
	for _, name := range names {
		all, err := c.Instances(ctx, "default", name)
		if err != nil {
			b.Fatal(err)
		}
		total += len(all)
	}
	if total != largeInstances {
		b.Fatalf("the cache has %d instances, want %d", total, largeInstances)
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	b.ResetTimer()
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for i := 0; pb.Next(); i++ {
			if _, err := c.Instances(ctx, "default", names[i%len(names)]); err != nil {
				b.Error(err)
				return
			}
		}
	})
	b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/1e6, "heap-MB")
}
