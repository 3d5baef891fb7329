package workloadapi

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/internal/cgroup"
)

// ErrOtherTask means that a process outside the task's control group has connected to its socket.
var ErrOtherTask = errors.New("the caller is not a process of the task")

// attest returns nil if the process that made the connection is in the group or below it.
//
// The kernel recorded the process at the connect. A pidfd ensures that the PID is not reused while the
// group is read: a signal can be sent only while the PID belongs to the same process.
func attest(c net.Conn, group *cgroup.Group) error {
	raw, err := unixConn(c)
	if err != nil {
		return err
	}
	var peer *unix.Ucred
	pidfd := -1
	var credErr, fdErr error
	err = raw.Control(func(fd uintptr) {
		peer, credErr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
		pidfd, fdErr = unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_PEERPIDFD)
	})
	if err := errors.Join(err, credErr); err != nil {
		return fmt.Errorf("identify the caller: %w", err)
	}
	if peer.Pid <= 0 {
		return fmt.Errorf("%w: its PID is not visible here", ErrOtherTask)
	}
	if errors.Is(fdErr, unix.ENOPROTOOPT) { // before Linux 6.5
		pidfd, fdErr = unix.PidfdOpen(int(peer.Pid), 0)
	}
	if fdErr != nil {
		return fmt.Errorf("identify the caller, process %d: %w", peer.Pid, fdErr)
	}
	defer unix.Close(pidfd)
	groups, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", peer.Pid))
	if err != nil {
		return fmt.Errorf("read the control group of the caller: %w", err)
	}
	if err := unix.PidfdSendSignal(pidfd, 0, nil, 0); err != nil {
		return fmt.Errorf("%w: process %d has ended", ErrOtherTask, peer.Pid)
	}
	if !within(groups, group) {
		return fmt.Errorf("%w: process %d is in another control group", ErrOtherTask, peer.Pid)
	}
	return nil
}

// within reports whether a process is in a group or below it, by its /proc/PID/cgroup, whose lines are
// "number:controllers:path". With a version 2 tree, whose line has no controllers, only that one counts.
func within(lines []byte, group *cgroup.Group) bool {
	counts := func(controllers string) bool { return controllers == "" }
	if group.Dir() == "" {
		counts = limitsTasks
	}
	for line := range bytes.Lines(lines) {
		parts := strings.SplitN(strings.TrimSuffix(string(line), "\n"), ":", 3)
		if len(parts) == 3 && counts(parts[1]) && (parts[2] == group.Path() || strings.HasPrefix(parts[2], group.Path()+"/")) {
			return true
		}
	}
	return false
}

// limitsTasks reports whether a version 1 hierarchy has a controller for which every task has a group.
func limitsTasks(controllers string) bool {
	for c := range strings.SplitSeq(controllers, ",") {
		if c == "memory" || c == "pids" || c == "freezer" {
			return true
		}
	}
	return false
}

// unixConn returns the descriptor of a connection, also of one that counts (internal/connlimit).
func unixConn(c net.Conn) (interface{ Control(func(uintptr)) error }, error) {
	u, ok := c.(*net.UnixConn)
	if !ok {
		return nil, fmt.Errorf("connection of type %T is not from a unix socket", c)
	}
	return u.SyscallConn()
}
