package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/zclconf/go-cty/cty"

	"github.com/open-nomad/open-nomad/internal/supervise/server"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

const (
	pumpBlock  = 64 << 10
	pumpBlocks = 4096
	pumpRounds = 11
	pumpTarget = 80    // percent of cat
	pumpShares = 10000 // so that other load does not slow the task more than cat
)

// pumpRate runs a task that writes 256 MiB to its log, and the same program with its output through cat to a file of the
// same file system, in turn. The times include the start of the task and that of cat.
func pumpRate(ctx context.Context, _ *bench) (string, bool, error) {
	d, end, err := newDrive(ctx)
	if err != nil {
		return "", false, err
	}
	defer end()
	var shares []int
	var pumped, copied []time.Duration
	if _, err := d.start(ctx, d.raw); err != nil { // starts the supervisor
		return "", false, err
	}
	pid, err := d.supervisor()
	if err != nil {
		return "", false, err
	}
	before, cpuOfCat := cpuTime(pid), time.Duration(0)
	for range pumpRounds {
		p, err := d.pumpOnce(ctx)
		if err != nil {
			return "", false, err
		}
		c, cpu, err := catOnce(ctx, d.dir)
		if err != nil {
			return "", false, err
		}
		cpuOfCat += cpu
		pumped, copied, shares = append(pumped, p), append(copied, c), append(shares, int(100*c/p))
	}
	cpu := 100 * (cpuTime(pid) - before) / cpuOfCat
	slices.Sort(shares)
	share := shares[len(shares)/2]
	rate := func(d time.Duration) float64 { return pumpBlock * pumpBlocks / d.Seconds() / 1e6 }
	return fmt.Sprintf("%d %% (%.0f MB/s, cat %.0f MB/s; medians of %d rounds in turn); CPU time %d %% of that of cat", share,
			rate(median(pumped)), rate(median(copied)), len(shares), cpu),
		share >= pumpTarget, nil
}

// pumpOnce returns the time from the start of the task until its log is complete.
func (d *drive) pumpOnce(ctx context.Context) (time.Duration, error) {
	cfg, err := d.task("/bin/dd")
	if err != nil {
		return 0, err
	}
	var args []cty.Value
	for _, a := range writerArgs {
		args = append(args, cty.StringVal(a))
	}
	cfg.Config = cty.ObjectVal(map[string]cty.Value{"command": cty.StringVal("/bin/dd"), "args": cty.ListVal(args)})
	cfg.Log = drivers.LogConfig{MaxFiles: 10, MaxFileSizeMB: 10}
	cfg.Limits.CPUShares = pumpShares
	began := time.Now()
	if _, err := d.raw.StartTask(ctx, cfg); err != nil {
		return 0, err
	}
	exit, err := d.raw.WaitTask(ctx, cfg.ID)
	if err != nil {
		return 0, err
	}
	took := time.Since(began)
	if exit.ExitCode != 0 {
		return 0, fmt.Errorf("the task that writes ended with %d", exit.ExitCode)
	}
	return took, errors.Join(d.raw.DestroyTask(cfg.ID, true), os.RemoveAll(cfg.AllocDir))
}

// writerArgs are the arguments of dd.
var writerArgs = []string{"if=/dev/zero", "status=none", "bs=" + strconv.Itoa(pumpBlock), "count=" + strconv.Itoa(pumpBlocks)}

// supervisor returns the process ID of the supervisor.
func (d *drive) supervisor() (int, error) {
	found, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		return 0, err
	}
	for _, name := range found {
		line, err := os.ReadFile(name)
		if err == nil && strings.HasPrefix(string(line), server.Entry+"\x00"+d.dir) {
			return strconv.Atoi(filepath.Base(filepath.Dir(name)))
		}
	}
	return 0, errors.New("the supervisor is not found in /proc")
}

// catOnce returns the time of the same program whose output goes through cat, and the CPU time of cat.
func catOnce(ctx context.Context, dir string) (took, cpu time.Duration, err error) {
	name := filepath.Join(dir, "cat.out")
	out, err := os.Create(name)
	if err != nil {
		return 0, 0, err
	}
	defer os.Remove(name)
	defer out.Close()
	in, pipe, err := os.Pipe()
	if err != nil {
		return 0, 0, err
	}
	writer, cat := exec.CommandContext(ctx, "/bin/dd", writerArgs...), exec.CommandContext(ctx, "cat")
	writer.Stdout, cat.Stdin, cat.Stdout = pipe, in, out
	// The kernel shares time between sessions. The task and the supervisor have one each.
	writer.SysProcAttr, cat.SysProcAttr = &syscall.SysProcAttr{Setsid: true}, &syscall.SysProcAttr{Setsid: true}
	began := time.Now()
	err = errors.Join(writer.Start(), cat.Start())
	pipe.Close()
	in.Close()
	if err != nil {
		return 0, 0, err
	}
	if err := errors.Join(writer.Wait(), cat.Wait()); err != nil {
		return 0, 0, err
	}
	return time.Since(began), cat.ProcessState.UserTime() + cat.ProcessState.SystemTime(), nil
}
