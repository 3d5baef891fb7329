package config

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Unlimited is the value for no limit.
const Unlimited = uint64(unix.RLIM_INFINITY)

// resources maps the names of limits to the kernel's numbers.
var resources = map[string]int{
	"as": unix.RLIMIT_AS, "core": unix.RLIMIT_CORE, "cpu": unix.RLIMIT_CPU, "data": unix.RLIMIT_DATA,
	"fsize": unix.RLIMIT_FSIZE, "locks": unix.RLIMIT_LOCKS, "memlock": unix.RLIMIT_MEMLOCK,
	"msgqueue": unix.RLIMIT_MSGQUEUE, "nice": unix.RLIMIT_NICE, "nofile": unix.RLIMIT_NOFILE,
	"nproc": unix.RLIMIT_NPROC, "rss": unix.RLIMIT_RSS, "rtprio": unix.RLIMIT_RTPRIO,
	"rttime": unix.RLIMIT_RTTIME, "sigpending": unix.RLIMIT_SIGPENDING, "stack": unix.RLIMIT_STACK,
}

// UlimitNames lists the limits that a ulimit block can set.
func UlimitNames() []string { return slices.Sorted(maps.Keys(resources)) }

// Ulimit is one resource limit.
type Ulimit struct {
	Name       string
	Resource   int // RLIMIT_ number of the kernel
	Soft, Hard uint64
}

// parseUlimit parses "N" (both limits) or "soft:hard", each a number or "unlimited".
func parseUlimit(name, value string) (Ulimit, error) {
	resource, ok := resources[name]
	if !ok {
		return Ulimit{}, fmt.Errorf("%q is not a limit: use one of %s", name, strings.Join(UlimitNames(), ", "))
	}
	soft, hard, two := strings.Cut(value, ":")
	if !two {
		hard = soft
	}
	u := Ulimit{Name: name, Resource: resource}
	var err1, err2 error
	u.Soft, err1 = bound(soft)
	u.Hard, err2 = bound(hard)
	if err1 != nil || err2 != nil {
		return u, fmt.Errorf("%s: %q: want a number, \"<soft>:<hard>\" or \"unlimited\"", name, value)
	}
	if u.Soft > u.Hard {
		return u, fmt.Errorf("%s: %q: the soft limit is above the hard one", name, value)
	}
	return u, nil
}

func bound(s string) (uint64, error) {
	if s == "unlimited" {
		return Unlimited, nil
	}
	return strconv.ParseUint(s, 10, 63)
}

// ulimits parses a ulimit block, sorted by name.
func ulimits(block map[string]string, errs *[]error) []Ulimit {
	var out []Ulimit
	for _, name := range slices.Sorted(maps.Keys(block)) {
		u, err := parseUlimit(name, block[name])
		if err != nil {
			*errs = append(*errs, fmt.Errorf("ulimit: %w", err))
			continue
		}
		out = append(out, u)
	}
	return out
}
