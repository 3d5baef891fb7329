package sandbox

import (
	"errors"
	"fmt"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// dropPrivileges permanently drops groups, uid and capabilities of the calling thread. It uses raw
// system calls: the wrappers of the Go runtime change every thread, and the other threads end at
// the execve.
//
// Capabilities that stay are in the bounding, permitted and effective sets. For a user other than root they are
// also in the inheritable and ambient sets, so that they survive the execve.
func (p *Policy) dropPrivileges() error {
	if !p.KeepCapabilities {
		if err := dropBounding(p.Capabilities); err != nil {
			return err
		}
	}
	if p.User != nil {
		if err := p.become(); err != nil {
			return err
		}
	}
	if !p.KeepCapabilities {
		if err := p.setCapabilities(); err != nil {
			return err
		}
	}
	if !p.KeepPrivileges {
		if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
			return fmt.Errorf("set no_new_privs: %w", err)
		}
	}
	return nil
}

// become changes the user. The permitted capabilities survive it if some of them stay.
func (p *Policy) become() error {
	if p.Capabilities != 0 {
		if err := unix.Prctl(unix.PR_SET_KEEPCAPS, 1, 0, 0, 0); err != nil {
			return fmt.Errorf("keep capabilities: %w", err)
		}
	}
	return p.User.become()
}

func (u *User) become() error {
	var list unsafe.Pointer
	if len(u.Groups) > 0 {
		list = unsafe.Pointer(&u.Groups[0])
	}
	if _, _, e := unix.RawSyscall(unix.SYS_SETGROUPS, uintptr(len(u.Groups)), uintptr(list), 0); e != 0 {
		return fmt.Errorf("set groups: %w", e)
	}
	gid, uid := uintptr(u.GID), uintptr(u.UID)
	if _, _, e := unix.RawSyscall(unix.SYS_SETRESGID, gid, gid, gid); e != 0 {
		return fmt.Errorf("become group %d: %w", u.GID, e)
	}
	if _, _, e := unix.RawSyscall(unix.SYS_SETRESUID, uid, uid, uid); e != 0 {
		return fmt.Errorf("become user %d: %w", u.UID, e)
	}
	return nil
}

// dropBounding empties the bounding and ambient sets, so that no execve gains a capability, not
// even as root. The bounding set keeps those of keep. Without CAP_SETPCAP the bounding set stays; no_new_privs makes it ineffective.
func dropBounding(keep uint64) error {
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil {
		return fmt.Errorf("clear ambient capabilities: %w", err)
	}
	for c := uintptr(0); ; c++ {
		if has(keep, c) {
			continue
		}
		err := unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0)
		if err == unix.EINVAL { // past the last one
			return nil
		}
		if err == unix.EPERM { // no CAP_SETPCAP
			if unix.Geteuid() != 0 {
				return nil
			}
			have, err := unix.PrctlRetInt(unix.PR_CAPBSET_READ, c, 0, 0, 0)
			if err != nil { // past the last one, and none of them was set
				return nil
			}
			if have == 0 {
				continue
			}
		}
		if err != nil {
			return fmt.Errorf("drop capability %d: %w", c, err)
		}
	}
}

// has reports whether a set has a capability.
func has(set uint64, c uintptr) bool { return c < 64 && set&(1<<c) != 0 }

// setText prints a set.
func setText(set uint64) string {
	if set == 0 {
		return ""
	}
	return fmt.Sprintf(" set=%#x", set)
}

// setCapabilities sets the effective, permitted, inheritable and ambient sets.
func (p *Policy) setCapabilities() error {
	hdr := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	ordinary := p.User != nil && p.User.UID != 0
	var sets [2]unix.CapUserData
	for i := range sets {
		half := uint32(p.Capabilities >> (32 * i))
		sets[i] = unix.CapUserData{Effective: half, Permitted: half}
		if ordinary {
			sets[i].Inheritable = half
		}
	}
	if err := unix.Capset(&hdr, &sets[0]); err != nil {
		return fmt.Errorf("set capabilities: %w", err)
	}
	for c := uintptr(0); ordinary && p.Capabilities>>c != 0; c++ {
		if !has(p.Capabilities, c) {
			continue
		}
		if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_RAISE, c, 0, 0); err != nil {
			return fmt.Errorf("keep capability %d: %w", c, err)
		}
	}
	return nil
}

// loadFilter applies the seccomp filter to the calling thread.
func (p *Policy) loadFilter() error {
	prog, flags := p.Filter, uintptr(0)
	if p.LogCalls {
		flags = unix.SECCOMP_FILTER_FLAG_LOG
	}
	fprog := unix.SockFprog{Len: uint16(len(prog) / filterStep), Filter: (*unix.SockFilter)(unsafe.Pointer(unsafe.SliceData(prog)))}
	_, _, e := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, flags, uintptr(unsafe.Pointer(&fprog)))
	runtime.KeepAlive(prog)
	if e != 0 {
		return fmt.Errorf("load seccomp filter: %w", e)
	}
	return nil
}

// bind makes the program end with its parent. A change of user resets an earlier setting.
func (p *Policy) bind() error {
	if !p.Bound {
		return nil
	}
	parent := unix.Getppid()
	if err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0); err != nil {
		return fmt.Errorf("bind to the process that started this one: %w", err)
	}
	if unix.Getppid() != parent {
		return errors.New("the process that started this one has ended")
	}
	return nil
}
