package main

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rpc"
)

const (
	signNodes    = 50
	signAllocs   = 1000
	signNames    = 4 // identities of each allocation
	signAtOnce   = 64
	signCounted  = 5 * time.Second
	signWarm     = time.Second
	signWithin   = 2 * time.Minute
	signEnough   = 5000
	signJob      = "signed"
	signIdentity = "id%d"
)

// signingRate measures the rate at which three servers sign identities for nodes. A request has all
// identities of an allocation, as clients send it, or a single identity.
func signingRate(ctx context.Context, b *bench) (string, bool, error) {
	ctx, cancel := context.WithTimeout(ctx, signWithin)
	defer cancel()
	s, err := b.servers(ctx, "")
	if err != nil {
		return "", false, err
	}
	defer s.stop()
	var rpc []string
	var pids []int
	for _, a := range s.all {
		rpc, pids = append(rpc, fmt.Sprintf("127.0.0.1:%d", a.RPC)), append(pids, a.Pid())
	}
	c, err := startChild(ctx, "signers", "signers", strings.Join(rpc, ","))
	if err != nil {
		return "", false, err
	}
	defer c.stop()
	said := bufio.NewReader(c.out)
	if err := expectWord(said, "registered"); err != nil {
		return "", false, err
	}
	job := batch(signJob, signAllocs, "mock_driver", map[string]any{"run_for": "1h"})
	for i := range signNames {
		task := job.TaskGroups[0].Tasks[0]
		task.Identities = append(task.Identities, &api.WorkloadIdentity{
			Name:     fmt.Sprintf(signIdentity, i),
			Audience: []string{"aud.example"},
			TTL:      time.Hour,
		})
	}
	if _, _, err := s.all[0].Client.Jobs().Register(job, nil); err != nil {
		return "", false, err
	}
	rates := map[string]rated{}
	for _, what := range []string{"allocations", "single"} {
		used := cpuTime(pids...)
		if err := c.send(what); err != nil {
			return "", false, err
		}
		var count int
		var seconds float64
		if _, err := fmt.Fscanln(said, &count, &seconds); err != nil {
			return "", false, fmt.Errorf("read the number of signed identities: %w", err)
		}
		rates[what] = rated{float64(count) / seconds, (cpuTime(pids...) - used) / time.Duration(max(count, 1))}
	}
	if err := c.send("end"); err != nil {
		return "", false, err
	}
	got := fmt.Sprintf("%v for whole allocations (%d each), %v one at a time", rates["allocations"], signNames, rates["single"])
	return got, rates["allocations"].perSecond >= signEnough && rates["single"].perSecond >= signEnough, nil
}

// identities is an allocation and the node that requests its identities.
type identities struct {
	node *simNode
	asks []*message.WorkloadIdentityRequest
	made uint64
}

// signers is the load process. Its arguments are the addresses of servers. Its commands are
// "allocations", "single" and "end".
func signers(args []string) error {
	in := bufio.NewReader(os.Stdin)
	if err := expectWord(in, "go"); err != nil {
		return err
	}
	l := &load{servers: strings.Split(args[0], ","), slots: make(chan struct{}, signAtOnce), silent: make(chan struct{}), runs: true,
		pool: rpc.NewPool(rpc.PoolConfig{MaxIdleStreams: signAtOnce})}
	defer l.pool.Close()
	nodes, err := l.register(0, signNodes, 0)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	var all sync.WaitGroup
	defer all.Wait()
	defer cancel()
	for _, n := range nodes {
		all.Go(func() { l.live(ctx, n) })
	}
	fmt.Println("registered")
	var allocs []identities
	for {
		var what string
		if _, err := fmt.Fscanln(in, &what); err != nil {
			return err
		}
		if what == "end" {
			return nil
		}
		if allocs == nil {
			if allocs, err = l.placed(ctx, nodes); err != nil {
				return err
			}
		}
		count, took, err := l.sign(ctx, allocs, what == "single")
		if err != nil {
			return err
		}
		fmt.Println(count, took.Seconds())
	}
}

// placed waits until the nodes have received all allocations.
func (l *load) placed(ctx context.Context, nodes []*simNode) ([]identities, error) {
	var mu sync.Mutex
	var out []identities
	err := eventually(ctx, "all allocations are placed", func() error {
		out = nil
		all, ctx := errgroup.WithContext(ctx)
		for _, n := range nodes {
			all.Go(func() error {
				var list message.NodeClientAllocsResponse
				req := &message.NodeSpecificRequest{
					NodeID:       n.id,
					SecretID:     n.secret,
					QueryOptions: message.QueryOptions{Region: "global", AuthToken: n.token},
				}
				if err := l.call(ctx, "Node.GetClientAllocs", req, &list); err != nil {
					return err
				}
				mu.Lock()
				defer mu.Unlock()
				for id, made := range list.Allocs {
					h := identities{node: n, made: made}
					for i := range signNames {
						h.asks = append(h.asks, &message.WorkloadIdentityRequest{AllocID: id,
							WIHandle: message.WIHandle{IdentityName: fmt.Sprintf(signIdentity, i), WorkloadIdentifier: "task"}})
					}
					out = append(out, h)
				}
				return nil
			})
		}
		if err := all.Wait(); err != nil {
			return err
		}
		if len(out) != signAllocs {
			return fmt.Errorf("%d of %d", len(out), signAllocs)
		}
		return nil
	})
	return out, err
}

// sign requests identities with many concurrent callers. It counts the identities that were signed
// after the warm-up.
func (l *load) sign(ctx context.Context, allocs []identities, single bool) (int64, time.Duration, error) {
	var signed atomic.Int64
	end := time.Now().Add(signWarm + signCounted)
	all, ctx := errgroup.WithContext(ctx)
	for range signAtOnce {
		all.Go(func() error {
			for time.Now().Before(end) {
				h := allocs[rand.N(len(allocs))]
				asks := h.asks
				if single {
					asks = asks[:1]
				}
				req := &message.AllocIdentitiesRequest{Identities: asks, QueryOptions: message.QueryOptions{
					Region: "global", AuthToken: h.node.token, AllowStale: true, MinQueryIndex: h.made - 1}}
				var out message.AllocIdentitiesResponse
				if err := l.call(ctx, "Alloc.SignIdentities", req, &out); err != nil {
					return err
				}
				if len(out.SignedIdentities) != len(asks) {
					return fmt.Errorf("%d of %d were signed", len(out.SignedIdentities), len(asks))
				}
				signed.Add(int64(len(asks)))
			}
			return nil
		})
	}
	var before int64
	began := time.Now()
	select {
	case <-ctx.Done():
	case <-time.After(signWarm):
		before, began = signed.Load(), time.Now()
	}
	err := all.Wait()
	return signed.Load() - before, time.Since(began), err
}

// equip enables tasks of the mock driver on a node.
func equip(n *nomad.Node) {
	n.Attributes["nomad.version"], n.Attributes["driver.mock_driver"] = "2.0.6", "1"
	n.Drivers = map[string]*nomad.DriverInfo{"mock_driver": {Detected: true, Healthy: true}}
	n.NodeResources = &nomad.NodeResources{
		Cpu:            nomad.LegacyNodeCpuResources{CpuShares: 4000, TotalCpuCores: 4},
		Memory:         nomad.NodeMemoryResources{MemoryMB: 8192},
		Disk:           nomad.NodeDiskResources{DiskMB: 100 << 10},
		MinDynamicPort: 20000,
		MaxDynamicPort: 32000,
	}
}
