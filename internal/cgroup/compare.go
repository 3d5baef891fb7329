package cgroup

import (
	"math"
	"strconv"
	"strings"
)

// Setting is one file of a group, with the wanted and the actual value.
type Setting struct {
	File       string
	Want, Have string // Have is empty if the file cannot be read
	Enforced   bool   // the actual value is at least as strict as the wanted one
	Stricter   bool   // the actual value is stricter than the wanted one
}

// Compare lists the group's files for the limits that are set in l.
func (g *Group) Compare(l Limits) []Setting {
	var out []Setting
	number := func(controller, file1, file2 string, want int64) {
		if want <= 0 {
			return
		}
		file, have := g.get(controller, file1, file2)
		// The first word of cpu.max is the quota, the second the fixed period.
		n, ok := amount(strings.SplitN(have, " ", 2)[0])
		out = append(out, Setting{File: file, Want: itoa(want), Have: have, Enforced: ok && n <= want, Stricter: ok && n < want})
	}
	number("memory", "memory.limit_in_bytes", "memory.max", l.MemoryMax)
	if l.CPUQuota > 0 {
		number("cpu", "cpu.cfs_quota_us", "cpu.max", max(l.CPUQuota, minQuota))
	}
	number("pids", "pids.max", "pids.max", l.Processes)
	if len(l.Cores) > 0 {
		file, have := g.get("cpuset", "cpuset.cpus", "cpuset.cpus")
		want := map[int]bool{}
		list := make([]string, len(l.Cores))
		for i, c := range l.Cores {
			want[int(c)], list[i] = true, strconv.Itoa(int(c))
		}
		n, ok := within(have, want)
		out = append(out, Setting{File: file, Want: strings.Join(list, ","), Have: have, Enforced: ok, Stricter: ok && n < len(want)})
	}
	return out
}

// get reads the file of a controller, in the version that has it.
func (g *Group) get(controller, file1, file2 string) (file, value string) {
	dir, version := g.controller(controller)
	file = file2
	if version == 1 {
		file = file1
	}
	if version == 0 {
		return file, ""
	}
	value, err := read(dir, file)
	if err != nil {
		return file, ""
	}
	return file, value
}

// amount parses a limit; no limit is "max" in version 2 and -1 in version 1.
func amount(s string) (int64, bool) {
	if s == "max" {
		return math.MaxInt64, true
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if n < 0 {
		n = math.MaxInt64
	}
	return n, err == nil
}

// within returns the number of elements in a list such as "0-2,5", and reports whether all of them
// are allowed.
func within(list string, allowed map[int]bool) (int, bool) {
	if list == "" {
		return 0, false
	}
	named := 0
	for part := range strings.SplitSeq(list, ",") {
		first, last, ranged := strings.Cut(part, "-")
		if !ranged {
			last = first
		}
		from, err1 := strconv.Atoi(first)
		to, err2 := strconv.Atoi(last)
		if err1 != nil || err2 != nil || to-from > 1<<16 {
			return 0, false
		}
		for c := from; c <= to; c++ {
			if !allowed[c] {
				return 0, false
			}
			named++
		}
	}
	return named, true
}
