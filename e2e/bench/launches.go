package main

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rpc"
)

const (
	launchJobs    = 1000
	launchTarget  = 5 * time.Second
	launchWithin  = 30 * time.Second
	launchWriters = 32
	// launchAhead is the time for the registrations.
	launchAhead = 15 * time.Second
	// launchQuiet is the time in which no second launch may follow.
	launchQuiet = 2 * time.Second
	launchCron  = "5 4 15 2 1 * 2006" // the layout of a cron expression that is due once
	launchID    = "cron-"
)

// launches measures the time from the second in which many periodic jobs are due until each has one child.
// Three servers are used by RPC only.
func launches(ctx context.Context, b *bench) (string, bool, error) {
	s, err := b.servers(ctx, b.serverConfig())
	if err != nil {
		return "", false, err
	}
	defer s.stop()
	pool := rpc.NewPool(rpc.PoolConfig{MaxIdleStreams: launchWriters})
	defer pool.Close()
	server := rpcServer{pool, net.JoinHostPort("127.0.0.1", strconv.Itoa(s.all[0].RPC))}
	due := time.Now().UTC().Truncate(time.Second).Add(launchAhead)
	all, registering := errgroup.WithContext(ctx)
	all.SetLimit(launchWriters)
	for i := range launchJobs {
		all.Go(func() error {
			job, err := storedJob(smallJob(fmt.Sprintf("%s%d", launchID, i)))
			if err != nil {
				return err
			}
			job.Periodic = &nomad.PeriodicConfig{Enabled: true, SpecType: "cron", TimeZone: "UTC", Spec: due.Format(launchCron)}
			req := &message.JobRegisterRequest{Job: job, WriteRequest: message.WriteRequest{Region: "global"}}
			return server.call(registering, "Job.Register", req, &message.JobRegisterResponse{})
		})
	}
	if err := all.Wait(); err != nil {
		return "", false, err
	}
	if late := time.Since(due); late > 0 {
		return "", false, fmt.Errorf("the jobs were registered %v too late", late)
	}
	within, cancel := context.WithDeadline(ctx, due.Add(launchWithin))
	defer cancel()
	index, err := launched(within, server, 0, launchJobs)
	took := time.Since(due)
	if err != nil {
		return "", false, err
	}
	quiet, cancel := context.WithTimeout(ctx, launchQuiet)
	defer cancel()
	if _, err := launched(quiet, server, index, launchJobs+1); quiet.Err() == nil {
		return "", false, fmt.Errorf("more than %d launches: %w", launchJobs, err)
	}
	return fmt.Sprintf("%.1f s for %d jobs, none launched twice (3 servers)", took.Seconds(), launchJobs), took <= launchTarget, nil
}

// rpcServer is a server that is called by RPC.
type rpcServer struct {
	pool *rpc.Pool
	addr string
}

func (s rpcServer) call(ctx context.Context, method string, req, resp any) error {
	return s.pool.Call(ctx, s.addr, method, req, resp)
}

// launched waits until the jobs have a number of children. It fails if a job has more than one.
func launched(ctx context.Context, s rpcServer, index uint64, want int) (uint64, error) {
	for {
		req := &message.JobListRequest{QueryOptions: message.QueryOptions{Region: "global", Namespace: nomad.DefaultNamespace, Prefix: launchID,
			MinQueryIndex: index, MaxQueryTime: launchWithin}}
		var out message.JobListResponse
		if err := s.call(ctx, "Job.List", req, &out); err != nil {
			return 0, err
		}
		children, parents := 0, map[string]bool{}
		for _, j := range out.Jobs {
			if j.ParentID == "" {
				continue
			}
			if parents[j.ParentID] {
				return 0, fmt.Errorf("job %s was launched twice", j.ParentID)
			}
			parents[j.ParentID] = true
			children++
		}
		if children >= want {
			return out.Index, nil
		}
		index = out.Index
	}
}
