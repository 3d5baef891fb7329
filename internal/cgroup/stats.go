package cgroup

import (
	"slices"
	"strconv"
	"strings"
)

// Stats is the resource usage of a group.
type Stats struct {
	MemoryUsage uint64 // bytes, page cache included
	MemoryRSS   uint64
	MemoryCache uint64
	MemorySwap  uint64
	MemoryPeak  uint64

	CPUTotal  uint64 // nanoseconds since the group was created
	CPUUser   uint64
	CPUSystem uint64

	ThrottledPeriods uint64
	ThrottledTime    uint64 // nanoseconds
	OOMKills         uint64 // processes killed by the OOM killer
}

// Stats reads the usage. Fields that the host does not measure stay 0.
func (g *Group) Stats() Stats {
	s := Stats{OOMKills: g.OOMKills()}
	if dir, v := g.controller("memory"); v == 1 {
		s.memory1(dir)
	} else if v == 2 {
		s.memory2(dir)
	}
	if dir, v := g.controller("cpu"); v == 1 {
		stat := readKeys(dir, "cpu.stat", "nr_throttled", "throttled_time")
		s.ThrottledPeriods, s.ThrottledTime = stat[0], stat[1]
	}
	if d := g.Dir(); d != "" { // cpu.stat exists in version 2 even without the controller
		stat := readKeys(d, "cpu.stat", "usage_usec", "user_usec", "system_usec", "nr_throttled", "throttled_usec")
		s.CPUTotal, s.CPUUser, s.CPUSystem = 1000*stat[0], 1000*stat[1], 1000*stat[2]
		if _, v := g.controller("cpu"); v == 2 {
			s.ThrottledPeriods, s.ThrottledTime = stat[3], 1000*stat[4]
		}
	} else if dir, v := g.controller("cpuacct"); v == 1 {
		s.CPUTotal = readNumber(dir, "cpuacct.usage")
		s.CPUUser = readNumber(dir, "cpuacct.usage_user")
		s.CPUSystem = readNumber(dir, "cpuacct.usage_sys")
	}
	return s
}

// OOMKills returns the number of processes killed by the OOM killer. It reads one small file,
// unlike Stats.
func (g *Group) OOMKills() uint64 {
	dir, version := g.controller("memory")
	switch version {
	case 1:
		return readKeys(dir, "memory.oom_control", "oom_kill")[0]
	case 2:
		return readKeys(dir, "memory.events", "oom_kill")[0]
	}
	return 0
}

// ForksDenied returns how often the process limit of the group denied a fork.
func (g *Group) ForksDenied() uint64 {
	dir, version := g.controller("pids")
	if version == 0 {
		return 0
	}
	return readKeys(dir, "pids.events", "max")[0]
}

func (s *Stats) memory1(dir string) {
	stat := readKeys(dir, "memory.stat", "rss", "cache", "swap")
	s.MemoryUsage = readNumber(dir, "memory.usage_in_bytes")
	s.MemoryPeak = readNumber(dir, "memory.max_usage_in_bytes")
	s.MemoryRSS, s.MemoryCache, s.MemorySwap = stat[0], stat[1], stat[2]
}

func (s *Stats) memory2(dir string) {
	stat := readKeys(dir, "memory.stat", "anon", "file")
	s.MemoryUsage = readNumber(dir, "memory.current")
	s.MemoryPeak = readNumber(dir, "memory.peak")
	s.MemorySwap = readNumber(dir, "memory.swap.current")
	s.MemoryRSS, s.MemoryCache = stat[0], stat[1]
}

// readKeys returns the values of keys in a file of "key value" lines, 0 for an absent key or file. Every running task is
// measured each second, so that the other lines cost nothing.
func readKeys(dir, file string, keys ...string) []uint64 {
	out := make([]uint64, len(keys))
	text, err := read(dir, file)
	if err != nil {
		return out
	}
	for line := range strings.Lines(text) {
		k, v, _ := strings.Cut(strings.TrimSpace(line), " ")
		i := slices.Index(keys, k)
		if i < 0 {
			continue
		}
		if n, err := strconv.ParseUint(v, 10, 64); err == nil {
			out[i] = n
		}
	}
	return out
}

func readNumber(dir, file string) uint64 {
	s, err := read(dir, file)
	if err != nil {
		return 0
	}
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil {
		return 0
	}
	return n
}
