package connlimit

import (
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// Reserve is a listener that refuses connections while the process has no free descriptor. Without it, they wait in the
// kernel's queue until a descriptor is free, or until their callers give up.
//
//	Accept: no descriptor, a connection waits ──▶ release the spare one ──▶ accept ──▶ refuse ──▶ take the spare one again
type Reserve struct {
	net.Listener
	raw    syscall.RawConn
	refuse func(net.Conn)
	spare  *os.File // used by Accept only; nil if other code was faster; closed with the garbage
}

// NewReserve returns a listener with a spare descriptor. refuse answers and closes a connection. It must not block,
// because Accept waits for it.
func NewReserve(ln net.Listener, refuse func(net.Conn)) (*Reserve, error) {
	r := &Reserve{Listener: ln, refuse: refuse}
	conn, ok := ln.(syscall.Conn)
	if !ok {
		return nil, fmt.Errorf("reserve a descriptor: listener %T has none", ln)
	}
	var err error
	if r.raw, err = conn.SyscallConn(); err == nil {
		err = r.take()
	}
	if err != nil {
		return nil, fmt.Errorf("reserve a descriptor: %w", err)
	}
	return r, nil
}

// Accept returns the next connection, unless it would have the last descriptor. Errors about descriptors are those of
// the listener: the caller waits before it calls again.
func (r *Reserve) Accept() (net.Conn, error) {
	for {
		conn, err := r.Listener.Accept()
		switch {
		case err == nil && r.take() == nil:
			return conn, nil
		case err == nil:
			r.refuse(conn)
			r.take() //nolint:errcheck // tried again by the next Accept
		case !errors.Is(err, unix.EMFILE) && !errors.Is(err, unix.ENFILE):
			return nil, err
		case r.spare == nil || !r.waiting():
			r.take() //nolint:errcheck // as above
			return nil, err
		default:
			r.release()
		}
	}
}

// take opens the spare descriptor if it is not open. It needs no file: a container may have no /dev.
func (r *Reserve) take() error {
	if r.spare != nil {
		return nil
	}
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC)
	if err != nil {
		return os.NewSyscallError("eventfd", err)
	}
	r.spare = os.NewFile(uintptr(fd), "spare descriptor")
	return nil
}

func (r *Reserve) release() {
	r.spare.Close()
	r.spare = nil
}

// waiting reports whether a connection is in the kernel's queue.
func (r *Reserve) waiting() (ready bool) {
	err := r.raw.Control(func(fd uintptr) {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0)
		ready = err == nil && n > 0
	})
	return err == nil && ready
}
