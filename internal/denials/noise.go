package denials

import (
	"slices"
	"strings"
)

// harmless is a pattern of denials that are not reported: probes of C libraries and language
// runtimes, which work without the access.
type harmless struct {
	layer, rule string
	path        string // one "*" matches any text
	who         string
}

// noise is the complete list. The page sandbox.md repeats it.
var noise = []harmless{
	{Landlock, "fs.read_file", "/etc/locale.alias", "the C library, whenever a locale is set"},
	{Landlock, "fs.read_file", "/proc/filesystems", "libselinux, in ls, cp, mv and others"},
	{Landlock, "fs.read_file", "/proc/*/mounts", "libselinux, and the C library's search for control groups"},
	{Landlock, "fs.read_file", "/proc/*/mountinfo", "runtimes that look for their control group"},
	{Landlock, "fs.read_file", "/proc/*/cgroup", "runtimes that look for their control group"},
	{Landlock, "fs.read_file", "/sys/fs/cgroup/*cpu.max", "the runtime of Go, for its number of threads"},
	{Landlock, "fs.read_file", "/sys/fs/cgroup/*cpu.cfs_quota_us", "the runtime of Go, for its number of threads"},
	{Landlock, "fs.read_file", "/sys/fs/cgroup/*cpu.cfs_period_us", "the runtime of Go, for its number of threads"},
	{Landlock, "fs.read_file", "/sys/devices/system/cpu/online", "the C library, for the number of processors"},
	{Landlock, "fs.read_file", "/sys/kernel/mm/transparent_hugepage/*", "memory allocators, for the size of pages"},
	{Landlock, "fs.ioctl_dev", "/dev/null", "the C library, to see whether a stream is a terminal"},
	{Seccomp, "clone3", "", "the C library, which uses clone instead"},
}

func (d Denial) isNoise() bool {
	return slices.ContainsFunc(noise, func(n harmless) bool {
		return n.layer == d.Layer && n.rule == d.Rule && n.matches(d.Path)
	})
}

func (n harmless) matches(path string) bool {
	before, after, any := strings.Cut(n.path, "*")
	if !any {
		return path == n.path
	}
	rest, ok := strings.CutPrefix(path, before)
	return ok && strings.HasSuffix(rest, after)
}
