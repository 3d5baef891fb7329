package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/open-nomad/open-nomad/e2e/cluster"
)

// leaderKills is the number of killed leaders.
const leaderKills = 50

// failover repeatedly kills the leader and measures the time until another server acknowledges a
// write. The killed server is restarted with its data before the next one is killed.
func failover(ctx context.Context, b *bench) (string, bool, error) {
	s, err := b.servers(ctx, "")
	if err != nil {
		return "", false, err
	}
	defer s.stop()
	began := time.Now()
	var took []time.Duration
	for i := range leaderKills {
		d, err := s.killLeader(ctx, fmt.Sprintf("kill-%d", i))
		if err != nil {
			return "", false, fmt.Errorf("kill %d: %w", i, err)
		}
		took = append(took, d)
	}
	fmt.Fprintf(os.Stderr, "leader killed → next write: %v\n", rounded(took))
	p50, p99 := percentile(took, 50), percentile(took, 99)
	return fmt.Sprintf("p50 %.2f s, p99 %.2f s (%d kills in %.0f s)", p50.Seconds(), p99.Seconds(), leaderKills, time.Since(began).Seconds()),
		p50 <= 2*time.Second && p99 <= 4*time.Second, nil
}

// killLeader kills the leader, measures the next write and restarts the killed server. It returns
// the duration of the write.
func (s *servers) killLeader(ctx context.Context, job string) (time.Duration, error) {
	lead := s.leader(s.all[0])
	if lead < 0 {
		return 0, fmt.Errorf("no leader")
	}
	through := s.all[(lead+1)%len(s.all)]
	began := time.Now()
	if err := s.all[lead].Kill(); err != nil {
		return 0, err
	}
	index, err := acknowledged(ctx, through, job)
	took := time.Since(began)
	if err != nil {
		return 0, err
	}
	if err := s.restart(ctx, lead); err != nil {
		return 0, fmt.Errorf("start the killed server: %w", err)
	}
	return took, s.settled(ctx, index)
}

// acknowledged registers a job, and retries until it is acknowledged.
func acknowledged(ctx context.Context, through *cluster.Agent, id string) (index uint64, err error) {
	job := batch(id, 0, "mock_driver", nil)
	err = eventually(ctx, "a write is acknowledged", func() error {
		resp, _, err := through.Client.Jobs().Register(job, nil)
		if err == nil {
			index = resp.JobModifyIndex
		}
		return err
	})
	return index, err
}

// percentile returns the nearest-rank percentile of measured times.
func percentile(d []time.Duration, p int) time.Duration {
	sorted := slices.Sorted(slices.Values(d))
	return sorted[max((len(sorted)*p+99)/100, 1)-1]
}

// rounded rounds times for printing.
func rounded(d []time.Duration) []time.Duration {
	var out []time.Duration
	for _, v := range d {
		out = append(out, v.Round(10*time.Millisecond))
	}
	return out
}
