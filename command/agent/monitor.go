package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

// monitorSlack is by how much the Go runtime's monitor thread may sleep longer than it asks
// for. While system calls take more than some 20 µs, it wakes that often to give their
// processors to other goroutines. A server makes such calls all the time, for its log and its
// connections: the monitor of one under load woke 4,000 times a second, each time at the price
// of a switch of threads, and that was a fifth of its CPU time. In exchange a goroutine whose
// processor is held by a system call may wait so long for another one.
const monitorSlack = 2 * time.Millisecond

// calmMonitor lets the monitor sleep longer, until ctx ends. The kernel lets a process change
// another one of its threads only with CAP_SYS_NICE; without, the monitor stays as it is
// (proc_pid_timerslack_ns(5)).
func calmMonitor(ctx context.Context, log *slog.Logger) error {
	file, err := monitorFile()
	if err != nil {
		log.Debug("the monitor thread of the Go runtime keeps its pace", "reason", err)
		return nil
	}
	if err := os.WriteFile(file, strconv.AppendInt(nil, monitorSlack.Nanoseconds(), 10), 0); err != nil {
		log.Debug("the monitor thread of the Go runtime keeps its pace: that takes CAP_SYS_NICE", "reason", err)
		return nil
	}
	<-ctx.Done()
	if err := os.WriteFile(file, []byte("0"), 0); err != nil { // 0: what the thread began with
		log.Debug("the monitor thread of the Go runtime stays slowed", "reason", err)
	}
	return ctx.Err()
}

// monitorFile is where the kernel keeps the monitor's slack. The monitor is the first thread
// that a Go program starts (main, in the runtime's proc.go), and threads are listed in the
// order of their start.
func monitorFile() (string, error) {
	dir, err := os.Open("/proc/self/task")
	if err != nil {
		return "", err
	}
	defer dir.Close()
	threads, err := dir.Readdirnames(2)
	if err != nil && !errors.Is(err, io.EOF) {
		return "", err
	}
	if len(threads) < 2 {
		return "", fmt.Errorf("no second thread is listed in %s", dir.Name())
	}
	return filepath.Join("/proc", threads[1], "timerslack_ns"), nil
}
