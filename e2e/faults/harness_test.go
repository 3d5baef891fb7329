//go:build linux && faults

package faults_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/e2e/faults"
)

// The functions of the harness work: servers reach each other, do not when separated, and nothing
// remains afterwards.
func TestHarness(t *testing.T) {
	c := start(t, 3, "")
	ctx := t.Context()
	old, err := c.Agree(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Cut([]*faults.Server{old}, old.Others()); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	next, err := c.Elected(ctx, old)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%s cut off: %s leads after %v", old.Name, next.Name, time.Since(began).Round(time.Millisecond))
	lost, err := c.Heal()
	if err != nil || lost == 0 {
		t.Fatalf("Heal() = %d lost, %v; the cut lost nothing", lost, err)
	}
	if _, err := c.Agree(ctx); err != nil { // any leader is valid: a busy machine may cause another election
		t.Fatalf("after the cut: %v", err)
	}
}

// The servers are limited, and nothing remains after they end.
func TestNothingRemains(t *testing.T) {
	pids := map[int]bool{}
	t.Run("cluster", func(t *testing.T) {
		for _, s := range start(t, 3, "").Servers {
			pid := s.Pid()
			pids[pid] = true
			text, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
			if err != nil || !strings.Contains(string(text), fmt.Sprintf("/open-nomad-faults/%d-", os.Getpid())) {
				t.Errorf("server %s is not bounded: %s %v", s.Name, text, err)
			}
		}
	})
	for pid := range pids {
		if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
			t.Errorf("process %d is there: %v", pid, err)
		}
	}
	left, err := filepath.Glob(fmt.Sprintf("/sys/fs/cgroup/*/open-nomad-faults/%d-*", os.Getpid()))
	also, err2 := filepath.Glob(fmt.Sprintf("/sys/fs/cgroup/open-nomad-faults/%d-*", os.Getpid()))
	if err != nil || err2 != nil || len(left)+len(also) != 0 {
		t.Errorf("groups stay: %v %v", left, also)
	}
}
