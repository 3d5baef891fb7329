package server

import (
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/internal/supervise/proc"
)

// childStatus converts the result of waitid(2) to a wait status.
func childStatus(info *unix.Siginfo) unix.WaitStatus {
	// si_status follows si_pid and si_uid, which begin the union at offset 16.
	status := *(*int32)(unsafe.Add(unsafe.Pointer(info), 24))
	switch info.Code {
	case cldExited:
		return unix.WaitStatus(uint32(status&0xff) << 8)
	case cldDumped:
		return unix.WaitStatus(uint32(status&0x7f) | 0x80)
	}
	return unix.WaitStatus(uint32(status & 0x7f))
}

// Codes of SIGCHLD, from asm-generic/siginfo.h.
const (
	cldExited = 1
	cldDumped = 3
)

// pidfdStatus returns the wait status of an ended process that is not a child: from the kernel's
// record of the pidfd (6.15), or from the zombie.
func pidfdStatus(pidfd, pid int) (unix.WaitStatus, bool) {
	info := unix.PidfdInfo{Mask: unix.PIDFD_INFO_EXIT}
	if err := unix.IoctlPidfdInfo(pidfd, &info); err == nil && info.Mask&unix.PIDFD_INFO_EXIT != 0 {
		return unix.WaitStatus(uint32(info.Exit_code)), true
	}
	// The pidfd still refers to the process, so a zombie of that PID is the process.
	if st, err := proc.ReadStat(pid); err == nil && st.State == "Z" {
		return unix.WaitStatus(uint32(st.Status)), true
	}
	return 0, false
}
