//go:build linux && faults

package faults_test

import (
	"context"
	"log/slog"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/e2e/faults"
)

// moreFaults is the additional duration of the faults, at most twice, if no drain or update lasted through two
// changes of leaders.
const moreFaults = 30 * time.Second

// Leaders change while nodes are drained, canaries run and periodic jobs are launched. The next leader continues
// each of them, and nothing happens twice.
func TestSchedulesOutliveLeaders(t *testing.T) {
	lasting, err := duration()
	if err != nil {
		t.Fatal(err)
	}
	seed := seed(t)
	c := startWith(t, faults.Options{Servers: 3, Clients: 3, Config: quick})
	n := faults.NewNemesis(c, seed, slog.New(slog.NewTextHandler(t.Output(), nil)))
	n.Only = faults.LeaderFaults()
	if only := os.Getenv("FAULTS_ONLY"); only != "" {
		n.Only = strings.Split(only, ",")
	}
	s := faults.NewSchedules(c, n.Struck)
	record, stopRecord := context.WithCancel(t.Context())
	var recording sync.WaitGroup
	recording.Go(func() {
		if err := s.Recorder.Run(record); err != nil {
			t.Error(err)
		}
	})
	defer recording.Wait()
	defer stopRecord()
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	outlive(t, n, s, lasting*shareOfSchedules/100)
	if err := c.Agreed(t.Context()); err != nil {
		t.Error(err)
	}
	if err := s.Recorder.Complete(t.Context()); err != nil {
		t.Error(err)
	}
	summary, err := s.Check()
	drains, updates := s.Spanned()
	t.Logf("seed %d: faults %v; %s; %d drains and %d updates outlived two leaders", seed, n.Done(), summary, drains, updates)
	if err != nil {
		t.Errorf("seed %d: %v", seed, err)
	}
	if drains == 0 || updates == 0 {
		t.Errorf("%d drains and %d updates outlived two leaders, want at least one of each", drains, updates)
	}
	if t.Failed() {
		keepLogs(t, c)
	}
}

// outlive causes faults while the schedules run, and ends them.
func outlive(t *testing.T, n *faults.Nemesis, s *faults.Schedules, lasting time.Duration) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var runs sync.WaitGroup
	for name, run := range map[string]func(ctx, all context.Context) error{"drain": s.Drain, "update": s.Update} {
		runs.Go(func() {
			if err := run(ctx, t.Context()); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		})
	}
	err := n.Run(t.Context(), lasting)
	for range 2 {
		if drains, updates := s.Spanned(); err == nil && (drains == 0 || updates == 0) {
			err = n.Run(t.Context(), moreFaults)
		}
	}
	if err != nil {
		t.Error(err)
	}
	stop()
	runs.Wait()
	if err := s.Finish(t.Context()); err != nil {
		t.Error(err)
	}
}
