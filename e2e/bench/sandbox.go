package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/zclconf/go-cty/cty"

	"github.com/open-nomad/open-nomad/drivers/exec2"
	"github.com/open-nomad/open-nomad/drivers/rawexec"
	"github.com/open-nomad/open-nomad/internal/companion"
	"github.com/open-nomad/open-nomad/internal/supervise"
	"github.com/open-nomad/open-nomad/internal/supervise/server"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// drive is a separate supervisor with drivers, without an agent.
type drive struct {
	super *supervise.Client
	dir   string
	exec2 drivers.Driver
	raw   drivers.Driver
	n     atomic.Int64
}

const driveParent = "nomad-bench-tasks"

func newDrive(ctx context.Context) (*drive, func(), error) {
	if !companion.Embedded() {
		return nil, nil, errors.New("built without -tags companion: the starts of another program would be measured")
	}
	// In memory, because some disks need milliseconds for each directory after a large removal.
	dir, err := os.MkdirTemp("/dev/shm", "nomad-bench-")
	if err != nil {
		return nil, nil, err
	}
	if err := os.Chmod(dir, 0o711); err != nil {
		return nil, nil, err
	}
	log := slog.New(slog.NewTextHandler(io.Discard, nil))
	super := supervise.NewClient(filepath.Join(dir, "supervise"), log)
	e, r := exec2.New(exec2.Config{Name: exec2.Name, Log: log, Supervisor: super}), rawexec.New(rawexec.Name, super)
	if err := r.SetConfig(cty.ObjectVal(map[string]cty.Value{"enabled": cty.True})); err != nil {
		return nil, nil, err
	}
	end := func() {
		super.Shutdown(context.WithoutCancel(ctx)) //nolint:errcheck // the measurement is complete
		super.Close()
		os.RemoveAll(dir) //nolint:errcheck // temporary files in memory
	}
	return &drive{super: super, dir: dir, exec2: e, raw: r}, end, nil
}

// task creates the directories of a task, like a client.
func (d *drive) task(command string, args ...string) (*drivers.TaskConfig, error) {
	n := d.n.Add(1)
	alloc := filepath.Join(d.dir, fmt.Sprintf("alloc%d", n))
	cfg := &drivers.TaskConfig{
		ID:           fmt.Sprintf("bench-%d-%d/t/0", os.Getpid(), n),
		AllocID:      fmt.Sprintf("bench-%d-%d", os.Getpid(), n),
		Name:         "t",
		User:         fmt.Sprintf("nomad-%d", 88000+n%2000),
		AllocDir:     alloc,
		TaskDir:      filepath.Join(alloc, "t"),
		SharedDir:    filepath.Join(alloc, "alloc"),
		LocalDir:     filepath.Join(alloc, "t/local"),
		SecretsDir:   filepath.Join(alloc, "t/secrets"),
		LogDir:       filepath.Join(alloc, "alloc/logs"),
		Log:          drivers.LogConfig{MaxFiles: 1, MaxFileSizeMB: 1},
		CgroupParent: driveParent,
		Limits:       drivers.LinuxResources{MemoryBytes: 64 << 20, CPUShares: 100, MHzPerCore: 2000},
	}
	for _, dir := range []string{alloc, cfg.TaskDir, cfg.SharedDir, cfg.LogDir, cfg.LocalDir, cfg.SecretsDir} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			return nil, err
		}
	}
	list := cty.ListValEmpty(cty.String)
	if len(args) > 0 {
		list = cty.ListVal([]cty.Value{cty.StringVal(args[0])})
	}
	cfg.Config = cty.ObjectVal(map[string]cty.Value{"command": cty.StringVal(command), "args": list})
	return cfg, nil
}

// start returns the duration of StartTask, which returns after the exec.
func (d *drive) start(ctx context.Context, driver drivers.Driver) (time.Duration, error) {
	cfg, err := d.task("/bin/true")
	if err != nil {
		return 0, err
	}
	began := time.Now()
	if _, err := driver.StartTask(ctx, cfg); err != nil {
		return 0, err
	}
	took := time.Since(began)
	if _, err := driver.WaitTask(ctx, cfg.ID); err != nil {
		return 0, err
	}
	return took, errors.Join(driver.DestroyTask(cfg.ID, true), os.RemoveAll(cfg.AllocDir))
}

// sandboxCost starts /bin/true alternately with and without the sandbox.
func sandboxCost(ctx context.Context, _ *bench) (string, bool, error) {
	d, end, err := newDrive(ctx)
	if err != nil {
		return "", false, err
	}
	defer end()
	var with, without []time.Duration
	for i := range 220 {
		for driver, took := range map[drivers.Driver]*[]time.Duration{d.exec2: &with, d.raw: &without} {
			t, err := d.start(ctx, driver)
			if err != nil {
				return "", false, err
			}
			if i >= 20 { // the first ones are a warm-up
				*took = append(*took, t)
			}
		}
	}
	base := median(without)
	slices.Sort(with)
	p50, p99 := with[len(with)/2]-base, with[len(with)*99/100]-base
	text := fmt.Sprintf("p50 %.1f ms, p99 %.1f ms over raw_exec's p50 of %.1f ms (n=%d)", ms(p50), ms(p99), ms(base), len(with))
	return text, p50 <= 5*time.Millisecond, nil
}

// churnFor is the duration of the test with this number of concurrent churners.
const (
	churnFor = 10 * time.Second
	churners = 4
)

// churn starts and stops tasks, and then checks for leaked resources.
func churn(ctx context.Context, _ *bench) (string, bool, error) {
	d, end, err := newDrive(ctx)
	if err != nil {
		return "", false, err
	}
	defer end()
	if _, err := d.start(ctx, d.exec2); err != nil { // starts the supervisor
		return "", false, err
	}
	before, err := d.census()
	if err != nil {
		return "", false, err
	}
	began, done := time.Now(), atomic.Int64{}
	errs := make([]error, churners)
	var all sync.WaitGroup
	for i := range churners {
		all.Go(func() {
			for errs[i] == nil && time.Since(began) < churnFor && ctx.Err() == nil {
				errs[i] = d.startAndStop(ctx)
				done.Add(1)
			}
		})
	}
	all.Wait()
	rate := float64(done.Load()) / time.Since(began).Seconds()
	if err := errors.Join(errs...); err != nil {
		return "", false, err
	}
	after, err := d.census()
	left := after.beyond(before)
	return fmt.Sprintf("%.0f tasks/s for %s; left behind: %s", rate, churnFor, left), left == "nothing", err
}

func (d *drive) startAndStop(ctx context.Context) error {
	cfg, err := d.task("/bin/sleep", "600")
	if err != nil {
		return err
	}
	if _, err := d.exec2.StartTask(ctx, cfg); err != nil {
		return err
	}
	// The directory remains, as with an agent, whose garbage collection removes it later.
	return errors.Join(d.exec2.StopTask(ctx, cfg.ID, 5*time.Second, "SIGTERM"), d.exec2.DestroyTask(cfg.ID, true))
}

// census counts the resources that tasks can leak. A namespace without a process exists only
// through a mount or a descriptor.
type census struct {
	mounts, groups, processes, files, records int
}

func (d *drive) census() (c census, err error) {
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return c, err
	}
	c.mounts = strings.Count(string(mounts), d.dir)
	for _, pattern := range []string{"/sys/fs/cgroup/%s/*/*.scope", "/sys/fs/cgroup/*/%s/*/*.scope"} {
		found, err := filepath.Glob(fmt.Sprintf(pattern, driveParent))
		if err != nil {
			return c, err
		}
		c.groups += len(found)
	}
	records, err := filepath.Glob(filepath.Join(d.dir, "supervise/tasks/*"))
	c.records = len(records)
	if err != nil {
		return c, err
	}
	return c, d.censusOfProcesses(&c)
}

// censusOfProcesses counts the descriptors and children of the supervisor. It also counts the
// processes whose cgroup or working directory belongs to the test.
func (d *drive) censusOfProcesses(c *census) error {
	entries, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return err
	}
	for _, proc := range entries {
		line, err := os.ReadFile(filepath.Join(proc, "cmdline"))
		if err != nil {
			continue // it has ended
		}
		if strings.HasPrefix(string(line), server.Entry+"\x00"+d.dir) {
			fds, err := os.ReadDir(filepath.Join(proc, "fd"))
			if err != nil {
				return err
			}
			pid, err := strconv.Atoi(filepath.Base(proc))
			if err != nil {
				return err
			}
			children, err := childrenOf(pid)
			if err != nil {
				return err
			}
			c.files, c.processes = len(fds), c.processes+len(children)
			continue
		}
		at, _ := os.Readlink(filepath.Join(proc, "cwd")) // not ours if unreadable
		if strings.Contains(string(line), "/"+driveParent+"/") || strings.HasPrefix(at, d.dir) {
			c.processes++
		}
	}
	return nil
}

// beyond describes the resources added since before. A few additional descriptors of the supervisor
// are allowed.
func (c census) beyond(before census) string {
	const slack = 8
	var out []string
	for _, what := range []struct {
		name        string
		now, before int
	}{
		{"mounts", c.mounts, before.mounts},
		{"control groups", c.groups, before.groups},
		{"descriptors of the supervisor", c.files, before.files + slack},
		{"task records", c.records, before.records},
		{"processes", c.processes, before.processes},
	} {
		if what.now > what.before {
			out = append(out, fmt.Sprintf("%d %s", what.now-what.before, what.name))
		}
	}
	if len(out) == 0 {
		return "nothing"
	}
	return strings.Join(out, ", ")
}
