package wire

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// Names in the supervisor's directory.
const (
	SockName = "sock" // the socket
	LockName = "lock" // held by the running supervisor
)

// address refers to the socket through a descriptor of its directory, since the path of a socket is
// limited to 107 bytes.
func address(dir *os.File) *unix.SockaddrUnix {
	return &unix.SockaddrUnix{Name: fmt.Sprintf("/proc/self/fd/%d/%s", dir.Fd(), SockName)}
}

const sockFlags = unix.SOCK_STREAM | unix.SOCK_CLOEXEC | unix.SOCK_NONBLOCK

// Listen makes the socket and replaces that of a dead supervisor. The caller holds the lock.
func Listen(dir *os.File) (*os.File, error) {
	if err := unix.Unlinkat(int(dir.Fd()), SockName, 0); err != nil && err != unix.ENOENT {
		return nil, fmt.Errorf("remove old socket: %w", err)
	}
	fd, err := unix.Socket(unix.AF_UNIX, sockFlags, 0)
	if err != nil {
		return nil, fmt.Errorf("make socket: %w", err)
	}
	f := os.NewFile(uintptr(fd), SockName)
	old := unix.Umask(0o177)
	err = unix.Bind(fd, address(dir))
	unix.Umask(old)
	if err == nil {
		err = unix.Listen(fd, 64)
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("listen: %w", err)
	}
	return f, nil
}

// Accept waits for a connection. CheckPeer checks who connected.
func Accept(l *os.File) (*os.File, error) {
	conn, err := l.SyscallConn()
	if err != nil {
		return nil, err
	}
	var fd int
	var opErr error
	err = conn.Read(func(s uintptr) bool {
		fd, _, opErr = unix.Accept4(int(s), unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK)
		return opErr != unix.EAGAIN
	})
	if err == nil {
		err = opErr
	}
	if err != nil {
		return nil, fmt.Errorf("accept: %w", err)
	}
	return os.NewFile(uintptr(fd), "peer"), nil
}

// Dial connects to the supervisor of dir.
func Dial(dir *os.File) (*os.File, error) {
	fd, err := unix.Socket(unix.AF_UNIX, sockFlags, 0)
	if err != nil {
		return nil, fmt.Errorf("make socket: %w", err)
	}
	if err := unix.Connect(fd, address(dir)); err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("connect to the supervisor: %w", err)
	}
	f := os.NewFile(uintptr(fd), "supervisor")
	if _, err := CheckPeer(f); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// CheckPeer refuses a peer of another user. It returns the ID of the process that connected or listened.
func CheckPeer(f *os.File) (pid int, err error) {
	conn, err := f.SyscallConn()
	if err != nil {
		return 0, err
	}
	var cred *unix.Ucred
	var opErr error
	if err := conn.Control(func(fd uintptr) {
		cred, opErr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	}); err != nil {
		return 0, err
	}
	if opErr != nil {
		return 0, fmt.Errorf("read peer credentials: %w", opErr)
	}
	if int(cred.Uid) != os.Geteuid() {
		return 0, fmt.Errorf("peer has uid %d, want %d", cred.Uid, os.Geteuid())
	}
	return int(cred.Pid), nil
}

// Descriptor copies a UDP socket of the peer. An execve closes the copy. The caller needs the right to trace the peer,
// which root has. The peer may have closed the number and used it again since it sent it: anything else is refused, such
// as a file with a lock, which the copy would keep.
func Descriptor(f *os.File, number int) (int, error) {
	pid, err := CheckPeer(f)
	if err != nil {
		return -1, err
	}
	peer, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return -1, fmt.Errorf("open process %d: %w", pid, err)
	}
	defer unix.Close(peer)
	fd, err := unix.PidfdGetfd(peer, number, 0)
	if err != nil {
		return -1, fmt.Errorf("copy descriptor %d of process %d: %w", number, pid, err)
	}
	if protocol, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_PROTOCOL); err != nil || protocol != unix.IPPROTO_UDP {
		unix.Close(fd)
		return -1, fmt.Errorf("descriptor %d of process %d is not a UDP socket", number, pid)
	}
	return fd, nil
}
