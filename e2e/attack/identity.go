package attack

import (
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// identityOperations inspect the identity of the task and try to change it. A search returns
// "allowed" if it found something, otherwise "nothing".
var identityOperations = []Operation{
	{Name: "identity/capabilities", try: capabilities},
	{Name: "identity/bounding-set", try: boundingSet},
	{Name: "identity/ambient-set", try: func(*Targets) error { return eachCapability(ambient) }},
	{Name: "identity/groups", try: foreignGroups},
	{Name: "identity/is-root", try: func(*Targets) error { return found(anyZero(os.Getuid(), os.Geteuid(), os.Getgid(), os.Getegid())) }},
	{Name: "identity/new-privileges", try: func(*Targets) error {
		on, err := value(unix.SYS_PRCTL, unix.PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0)
		if err != nil {
			return err
		}
		return found(on == 0)
	}},
	{Name: "identity/without-seccomp", try: func(*Targets) error {
		mode, err := value(unix.SYS_PRCTL, unix.PR_GET_SECCOMP, 0, 0, 0, 0)
		if err != nil {
			return err
		}
		return found(mode == 0)
	}},
	{Name: "identity/environment-of-agent", try: func(t *Targets) error { return environment(t.Canary, "AGENT_ONLY") }},
	{Name: "identity/environment-of-loader", try: func(*Targets) error { return environment("LD_") }},
	{Name: "identity/argument-in-loader", try: func(*Targets) error { return environment("GLIBC_TUNABLES=evil") }, Why: "the task's own environment, given to itself only: never to a process of root's"},
	{Name: "identity/blocked-signals", try: blockedSignals},
	{Name: "identity/standard-input", try: func(*Targets) error {
		n, err := unix.Read(0, make([]byte, 1))
		if err != nil {
			return err
		}
		return found(n > 0)
	}},
	{Name: "identity/set-uid", try: func(*Targets) error { return call(unix.SYS_SETRESUID, 0, 0, 0) }},
	{Name: "identity/set-gid", try: func(*Targets) error { return call(unix.SYS_SETRESGID, 0, 0, 0) }},
	{Name: "identity/set-groups", try: func(*Targets) error { gid := uint32(0); return call(unix.SYS_SETGROUPS, 1, addr(&gid)) }},
	{Name: "identity/set-fsuid", try: func(*Targets) error {
		if err := call(unix.SYS_SETFSUID, 0); err != nil {
			return err
		}
		now, err := value(unix.SYS_SETFSUID, ^uintptr(0))
		if err != nil {
			return err
		}
		return found(now == 0)
	}},
	{Name: "identity/add-capability", try: func(*Targets) error {
		hdr := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
		data := [2]unix.CapUserData{{Effective: 1, Permitted: 1, Inheritable: 1}}
		return unix.Capset(&hdr, &data[0])
	}},
	{Name: "identity/keep-capabilities", Why: "there are none to keep", try: func(*Targets) error { return unix.Prctl(unix.PR_SET_KEEPCAPS, 1, 0, 0, 0) }},
	{Name: "identity/secure-bits", try: func(*Targets) error { return unix.Prctl(unix.PR_SET_SECUREBITS, 0, 0, 0, 0) }},
	{Name: "identity/undo-no-new-privileges", try: func(*Targets) error { return unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 0, 0, 0, 0) }},
}

// found returns the result of a search as the result of an operation.
func found(yes bool) error {
	if yes {
		return nil
	}
	return errNothing
}

func anyZero(ids ...int) bool {
	for _, id := range ids {
		if id == 0 {
			return true
		}
	}
	return false
}

// capabilities searches for effective, permitted or inheritable capabilities.
func capabilities(*Targets) error {
	hdr := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&hdr, &data[0]); err != nil {
		return err
	}
	return found(data != [2]unix.CapUserData{})
}

func boundingSet(*Targets) error { return eachCapability(bounding) }

func bounding(c uintptr) (uintptr, error) {
	return value(unix.SYS_PRCTL, unix.PR_CAPBSET_READ, c, 0, 0, 0)
}

func ambient(c uintptr) (uintptr, error) {
	return value(unix.SYS_PRCTL, unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_IS_SET, c, 0, 0)
}

// eachCapability searches for a capability in a set.
func eachCapability(in func(uintptr) (uintptr, error)) error {
	for c := range uintptr(64) {
		is, err := in(c)
		if err == unix.EINVAL && c > 0 { // after the last one of the kernel
			break
		}
		if err != nil {
			return err
		}
		if is != 0 {
			return nil
		}
	}
	return errNothing
}

// foreignGroups searches for supplementary groups in addition to the task's own.
func foreignGroups(*Targets) error {
	groups, err := os.Getgroups()
	if err != nil {
		return err
	}
	for _, g := range groups {
		if g != os.Getgid() {
			return nil
		}
	}
	return errNothing
}

func environment(words ...string) error {
	for _, kv := range os.Environ() {
		for _, w := range words {
			if strings.Contains(kv, w) && (w != "LD_" || strings.HasPrefix(kv, w)) {
				return nil
			}
		}
	}
	return errNothing
}

// blockedSignals searches for signals that the parent left blocked. Go's runtime itself blocks none
// of them.
func blockedSignals(*Targets) error {
	var set uint64
	const setSize = 8
	if err := call(unix.SYS_RT_SIGPROCMASK, unix.SIG_BLOCK, 0, addr(&set), setSize); err != nil {
		return err
	}
	return found(set != 0)
}

// strayDescriptors searches for open descriptors other than 0, 1 and 2. The probe runs this search
// first. The descriptors of Go's poller are recognized by their type.
func strayDescriptors() error {
	for fd := 3; fd < 4096; fd++ {
		if _, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err == nil && !ofPoller(fd) {
			return nil
		}
	}
	return errNothing
}

// ofPoller reports whether fd is an epoll or eventfd of this program. Both reject seeks and are not
// a pipe, file or socket.
func ofPoller(fd int) bool {
	var st unix.Stat_t
	return unix.Fstat(fd, &st) == nil && st.Mode&unix.S_IFMT == 0
}
