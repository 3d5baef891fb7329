//go:build linux && faults

package faults_test

import (
	"context"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/e2e/faults"
)

// Shares of the fault duration, in percent. The rest is for checks.
const (
	shareOfThree     = 36
	shareOfFive      = 24
	shareOfSchedules = 15
	shareOfHistories = 20
)

const (
	checkWithin = 2 * time.Minute
	writesLeast = 100 // otherwise nothing was tested
)

// quick makes servers leave on SIGINT, and vote soon after they rejoin. No server is removed because gossip declares it
// as failed some seconds after a cut: the next fault would then leave no majority.
const quick = "leave_on_interrupt = true\nautopilot {\n  server_stabilization_time = \"2s\"\n  cleanup_dead_servers = false\n}"

func TestThreeServersAreLinearizable(t *testing.T) { linearizable(t, 3, shareOfThree) }

func TestFiveServersAreLinearizable(t *testing.T) { linearizable(t, 5, shareOfFive) }

// linearizable runs clients that read and write through all servers of a cluster under faults, and
// checks their results.
func linearizable(t *testing.T, servers, share int) {
	lasting, err := duration()
	if err != nil {
		t.Fatal(err)
	}
	seed := seed(t)
	c := start(t, servers, quick)
	w := faults.NewWorkload(c, seed)
	n := faults.NewNemesis(c, seed, slog.New(slog.NewTextHandler(t.Output(), nil)))
	if only := os.Getenv("FAULTS_ONLY"); only != "" {
		n.Only = strings.Split(only, ",")
	}
	ctx, stop := context.WithCancel(t.Context())
	var load sync.WaitGroup
	load.Go(func() { w.Run(ctx) })
	failed := n.Run(t.Context(), lasting*time.Duration(share)/100)
	stop()
	load.Wait()
	if failed != nil {
		t.Errorf("seed %d: %v", seed, failed)
	} else {
		settled(t, c, w)
	}
	writes, reads, open := w.Acknowledged()
	t.Logf("seed %d: faults %v; %d writes and %d reads answered, %d writes of unknown outcome", seed, n.Done(), writes, reads, open)
	if writes < writesLeast {
		t.Errorf("only %d writes were acknowledged", writes)
	}
	if err := faults.Check(w.History.Ops(), checkWithin, kept(t)); err != nil {
		t.Errorf("seed %d: %v", seed, err)
	}
	if t.Failed() {
		keepLogs(t, c)
	}
}

// settled checks that every server is complete after all faults.
func settled(t *testing.T, c *faults.Cluster, w *faults.Workload) {
	t.Helper()
	leader, err := c.Agree(t.Context())
	if err != nil {
		t.Error(err)
		return
	}
	for _, s := range c.Servers {
		if err := w.ReadAll(t.Context(), s); err != nil {
			t.Error(err)
		}
		if err := w.Compare(t.Context(), s, leader); err != nil {
			t.Error(err)
		}
	}
	if err := c.Agreed(t.Context()); err != nil {
		t.Error(err)
	}
}

// seed returns FAULTS_SEED, or a new seed.
func seed(t *testing.T) uint64 {
	t.Helper()
	text := os.Getenv("FAULTS_SEED")
	if text == "" {
		now := uint64(time.Now().UnixNano())
		t.Logf("FAULTS_SEED=%d chooses the same faults again", now)
		return now
	}
	s, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("FAULTS_SEED is no number: %v", err)
	}
	return s
}

// kept returns the directory for histories and logs of failures.
func kept(t *testing.T) string {
	t.Helper()
	dir := os.Getenv("FAULTS_KEEP")
	if dir == "" {
		return os.TempDir()
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	return dir
}

// keepLogs copies the logs of the servers.
func keepLogs(t *testing.T, c *faults.Cluster) {
	t.Helper()
	dir, err := os.MkdirTemp(kept(t), "faults-logs-")
	if err != nil {
		t.Error(err)
		return
	}
	for _, s := range c.Servers {
		text, err := os.ReadFile(s.Dir + "/log")
		if err == nil {
			err = os.WriteFile(dir+"/"+s.Name+".log", text, 0o600)
		}
		if err != nil {
			t.Error(err)
		}
	}
	t.Logf("the servers' logs are in %s", dir)
}
