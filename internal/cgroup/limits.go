package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Limits are the limits of a group; a zero field sets nothing.
type Limits struct {
	MemoryMax int64    // bytes, hard
	MemoryLow int64    // bytes kept from reclaim
	CPUQuota  int64    // microseconds of CPU in each period of CPUPeriod
	CPUShares int64    // relative weight, in the scale of version 1 (2 … 262144)
	Cores     []uint16 // the only allowed cores
	Processes int64    // maximum number of tasks
}

// CPUPeriod is the period of CPUQuota, in microseconds.
const CPUPeriod = 100_000

// minQuota is the smallest quota that the kernel accepts.
const minQuota = 1_000

func (g *Group) limit(l Limits) error {
	if g.old {
		if err := g.unlimit(l); err != nil {
			return err
		}
	}
	for _, set := range []func(Limits) error{g.limitMemory, g.limitCPU, g.limitCores, g.limitProcesses} {
		if err := set(l); err != nil {
			return err
		}
	}
	return nil
}

// unlimited are the values of files without a limit, by controller, in version 1 and 2.
type unlimited struct{ controller, file1, value1, file2, value2 string }

// unlimit resets the limits of an existing group that l does not set. The limit of version 1 on
// memory and swap is always reset, since that on memory must not exceed it.
func (g *Group) unlimit(l Limits) error {
	files := []unlimited{{"memory", "memory.memsw.limit_in_bytes", "-1", "", ""}}
	for _, f := range []struct {
		limit int64
		unlimited
	}{
		{l.MemoryMax, unlimited{"memory", "memory.limit_in_bytes", "-1", "memory.max", "max"}},
		{l.MemoryMax, unlimited{"memory", "", "", "memory.swap.max", "max"}},
		{l.MemoryLow, unlimited{"memory", "memory.soft_limit_in_bytes", "-1", "memory.low", "0"}},
		{l.CPUQuota, unlimited{"cpu", "cpu.cfs_quota_us", "-1", "cpu.max", "max"}},
		{l.CPUShares, unlimited{"cpu", "cpu.shares", "1024", "cpu.weight", "100"}},
		{l.Processes, unlimited{"pids", "pids.max", "max", "pids.max", "max"}},
	} {
		if f.limit == 0 {
			files = append(files, f.unlimited)
		}
	}
	for _, f := range files {
		dir, version := g.controller(f.controller)
		file, value := f.file1, f.value1
		if version == 2 {
			file, value = f.file2, f.value2
		}
		if version == 0 || file == "" {
			continue
		}
		if err := write(dir, file, value); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// set writes value to the file of controller c: file1 in version 1, file2 in version 2.
func (g *Group) set(c, file1, file2, value string) error {
	dir, version := g.controller(c)
	switch {
	case version == 0:
		return fmt.Errorf("%w: the host has no %s controller", ErrUnavailable, c)
	case version == 1 && file1 != "":
		return write(dir, file1, value)
	case version == 2 && file2 != "":
		return write(dir, file2, value)
	}
	return nil
}

func (g *Group) limitMemory(l Limits) error {
	if l.MemoryMax > 0 {
		if err := g.limitRAM(l.MemoryMax); err != nil {
			return err
		}
		// Otherwise a task could exceed the limit by swapping.
		if err := g.limitSwap(l.MemoryMax); err != nil {
			return err
		}
	}
	if l.MemoryLow > 0 {
		return g.set("memory", "memory.soft_limit_in_bytes", "memory.low", itoa(l.MemoryLow))
	}
	return nil
}

// limitRAM sets the limit on memory. In version 1 the kernel refuses a limit below the usage after
// it has reclaimed what it can. In version 2 it kills processes instead.
func (g *Group) limitRAM(limit int64) error {
	set := func() error { return g.set("memory", "memory.limit_in_bytes", "memory.max", itoa(limit)) }
	err := set()
	if !errors.Is(err, unix.EBUSY) {
		return err
	}
	dir, _ := g.controller("memory")
	write(dir, "memory.force_empty", "0") //nolint:errcheck // reclaims more, if possible
	if err = set(); errors.Is(err, unix.EBUSY) {
		return fmt.Errorf("the processes in the group use %d bytes: %w", readNumber(dir, "memory.usage_in_bytes"), err)
	}
	return err
}

// limitSwap forbids swap. A kernel without swap accounting has no such file.
func (g *Group) limitSwap(memory int64) error {
	dir, version := g.controller("memory")
	file, value := "memory.memsw.limit_in_bytes", itoa(memory)
	if version == 2 {
		file, value = "memory.swap.max", "0"
	}
	if err := write(dir, file, value); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

func (g *Group) limitCPU(l Limits) error {
	if l.CPUShares > 0 {
		shares := min(max(l.CPUShares, 2), 262144)
		dir, version := g.controller("cpu")
		value := itoa(shares)
		if version == 2 { // the scale of version 2 is 1 … 10000
			value = itoa(1 + (shares-2)*9999/262142)
		}
		if version == 0 {
			return fmt.Errorf("%w: the host has no cpu controller", ErrUnavailable)
		}
		if err := write(dir, map[int]string{1: "cpu.shares", 2: "cpu.weight"}[version], value); err != nil {
			return err
		}
	}
	if l.CPUQuota == 0 {
		return nil
	}
	quota := itoa(max(l.CPUQuota, minQuota))
	if err := g.set("cpu", "cpu.cfs_period_us", "", itoa(CPUPeriod)); err != nil {
		return err
	}
	if _, version := g.controller("cpu"); version == 2 {
		quota += " " + itoa(CPUPeriod)
	}
	return g.set("cpu", "cpu.cfs_quota_us", "cpu.max", quota)
}

func (g *Group) limitCores(l Limits) error {
	if len(l.Cores) == 0 {
		return nil
	}
	list := make([]string, len(l.Cores))
	for i, c := range l.Cores {
		list[i] = strconv.Itoa(int(c))
	}
	return g.set("cpuset", "cpuset.cpus", "cpuset.cpus", strings.Join(list, ","))
}

func (g *Group) limitProcesses(l Limits) error {
	if l.Processes == 0 {
		return nil
	}
	return g.set("pids", "pids.max", "pids.max", itoa(l.Processes))
}

// LimitCPU sets the CPU limits alone.
func (g *Group) LimitCPU(l Limits) error { return g.limitCPU(l) }

func itoa(n int64) string { return strconv.FormatInt(n, 10) }
