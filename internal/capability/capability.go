// Package capability has the names and numbers of Linux capabilities (capabilities(7)). Its canonical names are in
// upper case, without CAP_. It has no state and starts no goroutine.
package capability

import (
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// All is the name that stands for all capabilities.
const All = "ALL"

// numbers are the capabilities by name.
var numbers = map[string]uint{
	"AUDIT_CONTROL": unix.CAP_AUDIT_CONTROL, "AUDIT_READ": unix.CAP_AUDIT_READ, "AUDIT_WRITE": unix.CAP_AUDIT_WRITE,
	"BLOCK_SUSPEND": unix.CAP_BLOCK_SUSPEND, "BPF": unix.CAP_BPF, "CHECKPOINT_RESTORE": unix.CAP_CHECKPOINT_RESTORE,
	"CHOWN": unix.CAP_CHOWN, "DAC_OVERRIDE": unix.CAP_DAC_OVERRIDE, "DAC_READ_SEARCH": unix.CAP_DAC_READ_SEARCH,
	"FOWNER": unix.CAP_FOWNER, "FSETID": unix.CAP_FSETID, "IPC_LOCK": unix.CAP_IPC_LOCK,
	"IPC_OWNER": unix.CAP_IPC_OWNER, "KILL": unix.CAP_KILL, "LEASE": unix.CAP_LEASE,
	"LINUX_IMMUTABLE": unix.CAP_LINUX_IMMUTABLE, "MAC_ADMIN": unix.CAP_MAC_ADMIN, "MAC_OVERRIDE": unix.CAP_MAC_OVERRIDE,
	"MKNOD": unix.CAP_MKNOD, "NET_ADMIN": unix.CAP_NET_ADMIN, "NET_BIND_SERVICE": unix.CAP_NET_BIND_SERVICE,
	"NET_BROADCAST": unix.CAP_NET_BROADCAST, "NET_RAW": unix.CAP_NET_RAW, "PERFMON": unix.CAP_PERFMON,
	"SETFCAP": unix.CAP_SETFCAP, "SETGID": unix.CAP_SETGID, "SETPCAP": unix.CAP_SETPCAP,
	"SETUID": unix.CAP_SETUID, "SYSLOG": unix.CAP_SYSLOG, "SYS_ADMIN": unix.CAP_SYS_ADMIN,
	"SYS_BOOT": unix.CAP_SYS_BOOT, "SYS_CHROOT": unix.CAP_SYS_CHROOT, "SYS_MODULE": unix.CAP_SYS_MODULE,
	"SYS_NICE": unix.CAP_SYS_NICE, "SYS_PACCT": unix.CAP_SYS_PACCT, "SYS_PTRACE": unix.CAP_SYS_PTRACE,
	"SYS_RAWIO": unix.CAP_SYS_RAWIO, "SYS_RESOURCE": unix.CAP_SYS_RESOURCE, "SYS_TIME": unix.CAP_SYS_TIME,
	"SYS_TTY_CONFIG": unix.CAP_SYS_TTY_CONFIG, "WAKE_ALARM": unix.CAP_WAKE_ALARM,
}

// Names returns the names of all capabilities, sorted.
func Names() []string { return slices.Sorted(maps.Keys(numbers)) }

// Canonical returns the canonical names of capabilities, sorted and without duplicates. A given name may have
// any case, CAP_ in front, and blanks around it.
func Canonical(given []string) []string {
	out := []string{}
	for _, name := range given {
		out = append(out, strings.TrimPrefix(strings.ToUpper(strings.TrimSpace(name)), "CAP_"))
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// Bit returns the bit of a capability in a set of the kernel, 0 for an unknown name.
func Bit(name string) uint64 {
	n, ok := numbers[name]
	if !ok {
		return 0
	}
	return 1 << n
}

// Set returns the set of capabilities by their canonical names.
func Set(names []string) (set uint64) {
	for _, name := range names {
		set |= Bit(name)
	}
	return set
}

// Supported returns the names of the capabilities that this kernel has, sorted. If it cannot be asked, these are
// all.
func Supported() []string {
	text, err := os.ReadFile("/proc/sys/kernel/cap_last_cap")
	if err != nil {
		return Names()
	}
	last, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return Names()
	}
	return slices.DeleteFunc(Names(), func(name string) bool { return int(numbers[name]) > last })
}
