// Package pty creates pseudo terminals. The slave is opened through the master's descriptor, never
// by its name below /dev/pts, which may be another terminal in another mount namespace.
//
// It starts no goroutine.
package pty

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// Open creates a terminal. The master is nonblocking, so that closing it ends reads. Neither end
// becomes the caller's controlling terminal.
func Open() (master, slave *os.File, err error) {
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("make a terminal: %w", &os.PathError{Op: "open", Path: "/dev/ptmx", Err: err})
	}
	defer func() {
		if err != nil {
			unix.Close(fd)
		}
	}()
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		return nil, nil, fmt.Errorf("unlock a terminal: %w", err)
	}
	peer, _, e := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.TIOCGPTPEER, unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC)
	if e != 0 {
		return nil, nil, fmt.Errorf("open the other end of a terminal: %w", e)
	}
	return os.NewFile(uintptr(fd), "terminal"), os.NewFile(peer, "terminal slave"), nil
}

// Resize sets the size of a terminal by its master. Its foreground processes receive SIGWINCH.
func Resize(master *os.File, height, width int) error {
	conn, err := master.SyscallConn()
	if err != nil {
		return err
	}
	size := unix.Winsize{Row: uint16(height), Col: uint16(width)}
	if cerr := conn.Control(func(fd uintptr) { err = unix.IoctlSetWinsize(int(fd), unix.TIOCSWINSZ, &size) }); cerr != nil {
		return cerr
	}
	if err != nil {
		return fmt.Errorf("resize a terminal: %w", err)
	}
	return nil
}
