package agent

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"reflect"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"
)

// heapAhead is how much of the heap is backed before it grows to it. It is address space, and
// no memory until it is used.
const heapAhead = 512 << 20

// heapStep is how much of it is asked for at once. The runtime clears all of a block when a
// part of it was used before.
const heapStep = 4 << 20

// backHeap has the kernel back the heap by huge pages, also what it grows by, until ctx ends. The
// heap of a server grows by ten megabytes for each thousand jobs, and a sixth of what it took to
// register them was to be given memory in small pages. A kernel without huge pages, or that
// gives them to nobody (/sys/kernel/mm/transparent_hugepage/enabled), goes on with small ones,
// and with GOMEMLIMIT nothing is done.
func backHeap(ctx context.Context, log *slog.Logger) error {
	if os.Getenv("GOMEMLIMIT") != "" {
		return nil
	}
	if heap, err := heapSpan(); err == nil && heap.end-heap.start < heapAhead {
		stretchHeap()
	}
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

// stretchHeap has the runtime map what the heap will grow to. It would do so four megabytes at
// a time, and use them before anybody can give advice.
func stretchHeap() {
	probe, err := unix.Mmap(-1, 0, heapAhead, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return // the runtime would end the process
	}
	if err := unix.Munmap(probe); err != nil {
		return
	}
	var ahead [heapAhead / heapStep][]byte
	for i := range ahead {
		ahead[i] = make([]byte, heapStep) // not touched, but for what was used before: new memory is zero
	}
	runtime.KeepAlive(&ahead)
	runtime.GC()
}

// span are addresses, end is behind the last.
type span struct{ start, end uintptr }

// heapSpan is where the heap is: the mappings without a gap between them one of which holds an
// object of it (proc_pid_maps(5)). The runtime takes 64 MiB at a time, one behind the other.
func heapSpan() (span, error) {
	object := reflect.ValueOf(new(span)).Pointer() // before the mappings are read: they have it
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		return span{}, err
	}
	var run span
	for line := range strings.Lines(string(maps)) {
		var s span
		var access string
		if n, err := fmt.Sscanf(line, "%x-%x %s", &s.start, &s.end, &access); n < 3 {
			return span{}, fmt.Errorf("read /proc/self/maps: %w", err)
		}
		switch {
		case access == "rw-p" && s.start == run.end:
			run.end = s.end
		case run.holds(object):
			return run, nil
		case access == "rw-p":
			run = s
		}
	}
	return span{}, fmt.Errorf("the heap is not found in /proc/self/maps")
}

func (s span) holds(at uintptr) bool { return s.start <= at && at < s.end }

// advise gives the kernel advice (madvise(2)).
func (s span) advise(advice int) error {
	if _, _, errno := unix.Syscall(unix.SYS_MADVISE, s.start, s.end-s.start, uintptr(advice)); errno != 0 {
		return fmt.Errorf("madvise: %w", errno)
	}
	return nil
}
