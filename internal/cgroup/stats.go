package cgroup

import (
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
		stat := readKeys(dir, "cpu.stat")
		s.ThrottledPeriods, s.ThrottledTime = stat["nr_throttled"], stat["throttled_time"]
	}
	if d := g.Dir(); d != "" { // cpu.stat exists in version 2 even without the controller
		stat := readKeys(d, "cpu.stat")
		s.CPUTotal, s.CPUUser, s.CPUSystem = 1000*stat["usage_usec"], 1000*stat["user_usec"], 1000*stat["system_usec"]
		if _, v := g.controller("cpu"); v == 2 {
			s.ThrottledPeriods, s.ThrottledTime = stat["nr_throttled"], 1000*stat["throttled_usec"]
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
		return readKeys(dir, "memory.oom_control")["oom_kill"]
	case 2:
		return readKeys(dir, "memory.events")["oom_kill"]
	}
	return 0
}

// ForksDenied returns how often the process limit of the group denied a fork.
func (g *Group) ForksDenied() uint64 {
	dir, version := g.controller("pids")
	if version == 0 {
		return 0
	}
	return readKeys(dir, "pids.events")["max"]
}

func (s *Stats) memory1(dir string) {
	stat := readKeys(dir, "memory.stat")
	s.MemoryUsage = readNumber(dir, "memory.usage_in_bytes")
	s.MemoryPeak = readNumber(dir, "memory.max_usage_in_bytes")
	s.MemoryRSS, s.MemoryCache, s.MemorySwap = stat["rss"], stat["cache"], stat["swap"]
}

func (s *Stats) memory2(dir string) {
	stat := readKeys(dir, "memory.stat")
	s.MemoryUsage = readNumber(dir, "memory.current")
	s.MemoryPeak = readNumber(dir, "memory.peak")
	s.MemorySwap = readNumber(dir, "memory.swap.current")
	s.MemoryRSS, s.MemoryCache = stat["anon"], stat["file"]
}

// readKeys parses a file of "key value" lines; an absent file has none.
func readKeys(dir, file string) map[string]uint64 {
	text, err := read(dir, file)
	if err != nil {
		return nil
	}
	out := map[string]uint64{}
	for line := range strings.Lines(text) {
		k, v, _ := strings.Cut(strings.TrimSpace(line), " ")
		if n, err := strconv.ParseUint(v, 10, 64); err == nil {
			out[k] = n
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
