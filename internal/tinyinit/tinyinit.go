// Package tinyinit is process 1 of the PID namespace of a task. It is also the parent of a program
// that `alloc exec` starts in such a namespace. It is a freestanding program of less than one page,
// written in Go assembler (init_*.s): a Go runtime in each namespace would cost megabytes.
//
//	starter ──fork──▶ init ──clone──▶ child ──execveat──▶ next program
//	   ▲                └── wait4 … pwrite(wait status), exit
//	   └── Reason (a step failed)   ChildPID, ReadStatus (status file)
//
// The starter makes the PID namespace with the fork. With Enter, init joins the namespaces of a
// process before it clones. The child gets a session of its own. Init drops its capabilities, with
// Enter all but CAP_KILL: the kernel would not end the program with its init otherwise. Init is not
// dumpable. It reaps every process that ends in the namespace. When its child has ended, it writes
// the child's wait status to the status file (4 bytes, native order) and exits. The kernel then
// ends the namespace. As process 1, init receives only SIGKILL and SIGSTOP from outside.
//
// Init keeps the descriptors 1, 2 and StatusFD open, with Enter only StatusFD. Log pipes are open
// for reading there, so that the program can write to them after their reader died.
//
// The child makes room for 256 descriptors before it executes the next program. A table of 64
// descriptors overflows with a sandbox policy of some 30 paths. A process with several threads, as
// every Go program is, then waits 10 ms or more for an RCU grace period. The child also sets a
// timer slack of 100 ms, which the threads of the next program inherit. The next program resets it
// for the thread that executes the task.
//
// The package starts no goroutine. The kernel needs setns(2) of a pidfd (5.8) and close_range(2) (5.9).
package tinyinit

import (
	"encoding/binary"
	"fmt"
	"os"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// Descriptors of init. Descriptors 0 to 2 are those of the program, and 3 is for the next program.
const (
	ReportFD = 4 // written to when a step fails; shared with the next program
	StatusFD = 5 // the status file
	NextFD   = 6 // the next program
	EnterFD  = 7 // the pidfd of a process whose namespaces init joins
)

// Flags are the actions of init. Their numbers are also in init_*.s.
type Flags byte

// Bits of Flags.
const (
	Terminal Flags = 1 // descriptor 0 becomes the controlling terminal of the child
	Enter    Flags = 2 // init joins the namespaces of EnterFD
	Users    Flags = 4 // with Enter: the user namespace too, and not the network namespace
)

// letter makes a printable argument of flags.
const letter = '@'

// Args returns the arguments of init, which executes the next program with argv.
func Args(flags Flags, argv []string) []string {
	return append([]string{"nomad-init", string(rune(letter | flags))}, argv...)
}

// steps are the steps of init that can fail, by the letter that it reports.
var steps = map[byte]string{
	'e': "enter the namespaces of the task",
	'f': "fork in the PID namespace",
	't': "make the terminal the controlling one",
	'o': "report the process number",
	'x': "execute the sandbox stage",
}

// Reason converts a report to text. Init reports a NUL, a letter for the step and the errno. The
// next program reports text, which Reason returns as it is.
func Reason(report string) string {
	if !strings.HasPrefix(report, "\x00") || len(report) != 3 {
		return report
	}
	return fmt.Sprintf("%s: %v", steps[report[1]], syscall.Errno(report[2]))
}

// ChildPID returns the process number of the child, in the PID namespace of the caller. It is 0
// after init has reaped the child. Init sets it as the owner of the status file (F_SETOWN).
func ChildPID(status *os.File) int {
	pid, err := unix.FcntlInt(status.Fd(), unix.F_GETOWN, 0)
	if err != nil {
		return 0
	}
	return pid
}

// ReadStatus reads the wait status of the child from the status file. It returns false if init has
// not written one.
func ReadStatus(status *os.File) (unix.WaitStatus, bool) {
	var raw [4]byte
	if n, err := status.ReadAt(raw[:], 0); err != nil || n != len(raw) {
		return 0, false
	}
	return unix.WaitStatus(binary.NativeEndian.Uint32(raw[:])), true
}
