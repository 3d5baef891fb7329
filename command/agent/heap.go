package agent

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"reflect"
	"strings"

	"golang.org/x/sys/unix"
)

// backHeap has the kernel back the heap by huge pages, as it grows, until ctx ends: the heap of
// a server grows by megabytes for each thousand jobs, and a tenth of what it took to register
// them was finding memory for one small page after the other. A kernel without huge pages, or
// that gives them to nobody (/sys/kernel/mm/transparent_hugepage/enabled), goes on with small ones.
func backHeap(ctx context.Context, log *slog.Logger) error {
	var known span
	for collected := afterCollections(ctx); ; {
		heap, err := heapSpan()
		if err == nil && heap != known {
			err = heap.advise(unix.MADV_HUGEPAGE)
			known = heap
		}
		if err != nil {
			log.Debug("the heap keeps its small pages", "reason", err)
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-collected:
		}
	}
}

// span are addresses, end is behind the last.
type span struct{ start, end uintptr }

// heapSpan is where the heap is: the mapping that holds an object of it, and those that follow
// without a gap (proc_pid_maps(5)). The runtime takes 64 MiB at a time, one behind the other.
func heapSpan() (span, error) {
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		return span{}, err
	}
	within := reflect.ValueOf(&maps[0]).Pointer()
	var heap span
	for line := range strings.Lines(string(maps)) {
		var s span
		var access string
		if n, err := fmt.Sscanf(line, "%x-%x %s", &s.start, &s.end, &access); n < 3 {
			return span{}, fmt.Errorf("read /proc/self/maps: %w", err)
		}
		switch {
		case access != "rw-p":
		case s.start <= within && within < s.end:
			heap = s
		case s.start == heap.end:
			heap.end = s.end
		}
	}
	if heap == (span{}) {
		return span{}, fmt.Errorf("the heap is not found in /proc/self/maps")
	}
	return heap, nil
}

// advise gives the kernel advice (madvise(2)).
func (s span) advise(advice int) error {
	if _, _, errno := unix.Syscall(unix.SYS_MADVISE, s.start, s.end-s.start, uintptr(advice)); errno != 0 {
		return fmt.Errorf("madvise: %w", errno)
	}
	return nil
}
