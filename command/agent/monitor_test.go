package agent

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// The thread that is slowed wakes all the time while others are in system calls, and runs no
// goroutine: it is the runtime's monitor.
func TestMonitorIsFound(t *testing.T) {
	file, err := monitorFile()
	if err != nil {
		t.Fatal(err)
	}
	thread := filepath.Base(filepath.Dir(file))
	if thread == strconv.Itoa(os.Getpid()) {
		t.Fatal("the main thread was taken for the monitor")
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var others sync.Map // threads that run goroutines: the monitor never does
	for range 4 {
		go func() {
			for ctx.Err() == nil {
				others.Store(strconv.Itoa(unix.Gettid()), true)
				unix.Nanosleep(&unix.Timespec{Nsec: 500_000}, nil) //nolint:errcheck // interrupted is as good
			}
		}()
	}
	end := time.Now().Add(2 * time.Minute)
	for before := switches(t, thread); switches(t, thread) < before+1000; {
		if time.Now().After(end) {
			t.Fatalf("thread %s has not woken 1,000 times", thread)
		}
	}
	if _, runs := others.Load(thread); runs {
		t.Errorf("thread %s runs goroutines", thread)
	}
}

// switches is how often a thread of this process gave up its processor by itself.
func switches(t *testing.T, thread string) int {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/self/task/%s/status", thread))
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.Atoi(regexp.MustCompile(`\nvoluntary_ctxt_switches:\s*(\d+)`).FindStringSubmatch(string(status))[1])
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// The monitor's slack is what it was when the server has ended.
func TestMonitorIsCalmed(t *testing.T) {
	file, err := monitorFile()
	if err != nil {
		t.Fatal(err)
	}
	before, err := os.ReadFile(file)
	if err != nil {
		t.Skipf("run as root, or with CAP_SYS_NICE: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- calmMonitor(ctx, slog.New(slog.DiscardHandler)) }()
	for end := time.Now().Add(2 * time.Minute); slack(t, file) != monitorSlack; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("the slack is %v, want %v", slack(t, file), monitorSlack)
		}
	}
	cancel()
	<-done
	if after, err := os.ReadFile(file); string(after) != string(before) || err != nil {
		t.Errorf("the slack is %q (%v) in the end, was %q", after, err, before)
	}
}

// slack reads a thread's slack.
func slack(t *testing.T, file string) time.Duration {
	t.Helper()
	said, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	ns, err := strconv.Atoi(strings.TrimSpace(string(said)))
	if err != nil {
		t.Fatal(err)
	}
	return time.Duration(ns)
}
