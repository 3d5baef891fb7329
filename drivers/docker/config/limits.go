package config

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// ulimitNames are the limits of processes that the daemon has.
var ulimitNames = []string{"core", "cpu", "data", "fsize", "locks", "memlock", "msgqueue", "nice", "nofile", "nproc", "rss", "rtprio",
	"rttime", "sigpending", "stack"}

// urgentLimits are the highest values without privilege of limits that give processors: the limit 20 for "nice"
// allows a nice value of 0.
var urgentLimits = map[string]int64{"rtprio": 0, "nice": 20}

// sysctlNames are the kernel parameters of an IPC namespace. Those of a network namespace begin with "net.".
var sysctlNames = []string{"kernel.msgmax", "kernel.msgmnb", "kernel.msgmni", "kernel.sem", "kernel.shmall", "kernel.shmmax",
	"kernel.shmmni", "kernel.shm_rmid_forced"}

// checkLimits checks the options that set limits and parameters of the kernel.
func (o *Task) checkLimits() error {
	for _, u := range o.Ulimits {
		if !slices.Contains(ulimitNames, u.Name) {
			return fmt.Errorf("unknown ulimit %q: use one of %s", u.Name, strings.Join(ulimitNames, ", "))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(o.Sysctl)) {
		if err := o.checkSysctl(name); err != nil {
			return err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(o.StorageOptions)) {
		if name != "size" {
			return fmt.Errorf("not served: storage_opt %q: only size is an option of a container", name)
		}
	}
	if o.OOMScoreAdj != nil && (*o.OOMScoreAdj < -1000 || *o.OOMScoreAdj > 1000) {
		return fmt.Errorf("oom_score_adj %d is not between -1000 and 1000", *o.OOMScoreAdj)
	}
	return nil
}

// checkSysctl refuses a kernel parameter that is not one of the container's own namespaces.
func (o *Task) checkSysctl(name string) error {
	plain := !strings.ContainsFunc(name, func(r rune) bool { return r == '/' || r <= ' ' }) && !strings.Contains(name, "..")
	switch {
	case plain && (slices.Contains(sysctlNames, name) || strings.HasPrefix(name, "fs.mqueue.")):
		if ipc := o.Modes["ipc"]; !ownMode(ipc) {
			return fmt.Errorf("sysctl %q is one of the IPC namespace, which is not the container's own with ipc_mode = %q", name, ipc)
		}
		return nil
	case plain && strings.HasPrefix(name, "net."):
		if o.NetworkMode == "host" {
			return fmt.Errorf("sysctl %q is one of the network of the node with network_mode = \"host\": remove one of them", name)
		}
		return nil
	}
	return fmt.Errorf("not served: sysctl %q: only net.*, fs.mqueue.* and %s belong to a container", name, strings.Join(sysctlNames, ", "))
}

// urgentScore returns the value of oom_score_adj with which the kernel spares the task in favour of others, ""
// if it has none.
func urgentScore(v any) string {
	if v == nil {
		return ""
	}
	adj, ok := numberOf(v)
	return when(!ok || adj < 0, fmt.Sprintf("oom_score_adj = %v", v))
}

// urgentLimit returns the limit with which a task gets processors before all others, "" if there is none.
func urgentLimit(v any) string {
	if text, ok := v.(string); ok { // a reference
		return when(text != "", "ulimit")
	}
	for _, m := range blocksOf(v) {
		for _, name := range slices.Sorted(maps.Keys(m)) {
			limit, listed := urgentLimits[name]
			if strings.Contains(name, "${") {
				return "ulimit " + name
			}
			if !listed {
				continue
			}
			given, err := parseUlimits(map[string]string{name: fmt.Sprint(m[name])})
			if err != nil || min(given[0].Soft, given[0].Hard) < 0 || max(given[0].Soft, given[0].Hard) > limit {
				return "ulimit " + name
			}
		}
	}
	return ""
}

// numberOf returns a number of a job, which may be a string.
func numberOf(v any) (float64, bool) {
	n, err := strconv.ParseFloat(fmt.Sprint(v), 64)
	return n, err == nil
}
