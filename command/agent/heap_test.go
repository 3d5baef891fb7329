package agent

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
	"time"
)

// alone says that a test runs in a process of its own.
const alone = "OPEN_NOMAD_TEST_ALONE"

// The heap is backed by huge pages, also what it grows by before it is collected again, and
// what it grows by beyond that. What is set aside takes no memory.
func TestHeapIsBacked(t *testing.T) {
	if _, err := os.Stat("/sys/kernel/mm/transparent_hugepage/enabled"); err != nil {
		t.Skipf("needs a kernel with transparent huge pages: %v", err)
	}
	if os.Getenv(alone) == "" { // in a process of its own, with the heap of a program that has just started
		again := exec.Command(os.Args[0], "-test.run=^TestHeapIsBacked$")
		again.Env = append(os.Environ(), alone+"=1", "GOMEMLIMIT=")
		if out, err := again.CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
		return
	}
	ctx, cancel := context.WithCancel(t.Context())
	before := resident(t)
	done := make(chan error, 1)
	go func() { done <- backHeap(ctx, slog.New(slog.DiscardHandler)) }()
	isBacked := func(what string) {
		t.Helper()
		end := time.Now().Add(2 * time.Minute)
		for heap := (span{}); heap.end-heap.start < heapAhead || !backed(t, heap); time.Sleep(time.Millisecond) {
			var err error
			if heap, err = heapSpan(); err != nil {
				t.Fatal(err)
			}
			if time.Now().After(end) {
				t.Fatalf("%s: the heap, %x, is not backed by huge pages", what, heap)
			}
		}
	}
	isBacked("in the beginning")
	if grew := resident(t) - before; grew > heapAhead*3/4 { // the race detector notes half as much
		t.Errorf("%d MiB of memory are taken for what is only set aside", grew>>20)
	}
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	held := [][]byte{make([]byte, heapAhead/2)}
	isBacked("what it grew by")
	held = append(held, make([]byte, heapAhead))
	runtime.GC()
	isBacked("beyond what was set aside")
	runtime.KeepAlive(held)
	cancel()
	<-done
}

// With a limit of its memory the heap is left as it is.
func TestLimitedHeapIsLeft(t *testing.T) {
	t.Setenv("GOMEMLIMIT", "1GiB")
	if err := backHeap(t.Context(), slog.New(slog.DiscardHandler)); err != nil {
		t.Errorf("backHeap = %v, want that it leaves at once", err)
	}
}

// resident is how much memory this process has, in bytes.
func resident(t *testing.T) int {
	t.Helper()
	statm, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		t.Fatal(err)
	}
	var size, pages int
	if _, err := fmt.Sscan(string(statm), &size, &pages); err != nil {
		t.Fatal(err)
	}
	return pages * os.Getpagesize()
}

// backed says whether the kernel may give huge pages to all of a span (hg, proc_pid_smaps(5)).
func backed(t *testing.T, all span) bool {
	t.Helper()
	smaps, err := os.ReadFile("/proc/self/smaps")
	if err != nil {
		t.Fatal(err)
	}
	var at span
	for line := range strings.Lines(string(smaps)) {
		var s span
		if n, _ := fmt.Sscanf(line, "%x-%x ", &s.start, &s.end); n == 2 {
			at = s
		}
		if flags, ok := strings.CutPrefix(line, "VmFlags:"); ok && all.holds(at.start) && !strings.Contains(flags, " hg") {
			return false
		}
	}
	return true
}
