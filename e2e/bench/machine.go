package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"
)

const (
	// machineTime is the duration of one measurement, machineRounds their number: the best counts.
	machineTime   = 100 * time.Millisecond
	machineRounds = 5
	// machineMemory is the amount of memory touched.
	machineMemory = 64 << 20
)

// machine measures the machine itself and has no target. Two virtual cores may share one physical
// core, and the host may have to allocate memory first. Both effects vary by a factor of two or
// more over hours.
func machine(ctx context.Context, _ *bench) (string, bool, error) {
	var one, all float64
	for range machineRounds {
		alone, err := workDone(ctx, 1)
		if err != nil {
			return "", false, err
		}
		together, err := workDone(ctx, runtime.NumCPU())
		if err != nil {
			return "", false, err
		}
		one, all = max(one, alone), max(all, together)
	}
	page, err := pageCost()
	if err != nil {
		return "", false, err
	}
	return fmt.Sprintf("%d cores do the work of %.2f; a page of new memory takes %.1f µs", runtime.NumCPU(), all/one,
		page.Seconds()*1e6), true, nil
}

// workDone returns how many times n goroutines together sort a fixed slice.
func workDone(ctx context.Context, n int) (float64, error) {
	numbers := make([]uint32, 4096)
	for i := range numbers {
		numbers[i] = rand.Uint32()
	}
	var sorted atomic.Int64
	end := time.Now().Add(machineTime)
	all, ctx := errgroup.WithContext(ctx)
	for range n {
		all.Go(func() error {
			own := make([]uint32, len(numbers))
			for time.Now().Before(end) {
				copy(own, numbers)
				slices.Sort(own)
				sorted.Add(1)
			}
			return ctx.Err()
		})
	}
	err := all.Wait()
	return float64(sorted.Load()), err
}

// pageCost returns the cost of the first write to a page.
func pageCost() (time.Duration, error) {
	memory, err := unix.Mmap(-1, 0, machineMemory, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		return 0, fmt.Errorf("map memory: %w", err)
	}
	defer unix.Munmap(memory)
	began := time.Now()
	for at := 0; at < len(memory); at += os.Getpagesize() {
		memory[at] = 1
	}
	return time.Since(began) / time.Duration(len(memory)/os.Getpagesize()), nil
}
