package agent

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"
)

// The heap is backed by huge pages, also what it grows by.
func TestHeapIsBacked(t *testing.T) {
	if _, err := os.Stat("/sys/kernel/mm/transparent_hugepage/enabled"); err != nil {
		t.Skipf("needs a kernel with transparent huge pages: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- backHeap(ctx, slog.New(slog.DiscardHandler)) }()
	var held [][]byte
	for range 4 {
		held = append(held, make([]byte, 80<<20)) // more than the runtime takes at a time
		heap, err := heapSpan()
		if err != nil {
			t.Fatal(err)
		}
		for end := time.Now().Add(2 * time.Minute); !backed(t, heap); runtime.GC() {
			if time.Now().After(end) {
				t.Fatalf("with %d blocks the heap, %x, is not backed by huge pages", len(held), heap)
			}
		}
	}
	runtime.KeepAlive(held)
	cancel()
	<-done
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
		inside := all.start <= at.start && at.start < all.end
		if flags, ok := strings.CutPrefix(line, "VmFlags:"); ok && inside && !strings.Contains(flags, " hg") {
			return false
		}
	}
	return true
}
