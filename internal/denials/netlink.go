package denials

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// readLog is the multicast group AUDIT_NLGRP_READLOG, as a bit of a group mask.
const readLog = 1 << (unix.AUDIT_NLGRP_READLOG - 1)

// receiveBuffer is the size of the kernel's buffer for unread records.
const receiveBuffer = 1 << 20

// maxRecord is larger than the longest record: the kernel's limit is 8970 bytes.
const maxRecord = 16 << 10

// answerPatience is the timeout of a request to the kernel.
const answerPatience = 5 * time.Second

// errOverrun means that records were lost because they were not read in time.
var errOverrun = errors.New("audit records were lost")

// listener receives every audit record of the host.
type listener struct {
	file *os.File
	raw  syscall.RawConn
	buf  []byte
}

// listen needs CAP_AUDIT_READ in the first user namespace.
func listen() (*listener, error) {
	f, err := open(readLog)
	if err != nil {
		return nil, fmt.Errorf("listen to the kernel's audit records: %w", err)
	}
	raw, err := f.SyscallConn()
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("listen to the kernel's audit records: %w", err)
	}
	// Root may exceed net.core.rmem_max.
	err = errors.Join(err, raw.Control(func(fd uintptr) {
		unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, receiveBuffer) //nolint:errcheck // a smaller buffer works
	}))
	return &listener{file: f, raw: raw, buf: make([]byte, maxRecord)}, err
}

// open returns a nonblocking socket of the audit subsystem.
func open(groups uint32) (*os.File, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, unix.NETLINK_AUDIT)
	if err != nil {
		return nil, os.NewSyscallError("socket", err)
	}
	if err := unix.Bind(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK, Groups: groups}); err != nil {
		unix.Close(fd)
		return nil, os.NewSyscallError("bind", err)
	}
	return os.NewFile(uintptr(fd), "audit"), nil
}

// next returns the type and the text of a record, which is valid until the next call. After close
// it returns os.ErrClosed.
func (l *listener) next() (uint16, []byte, error) {
	var n int
	var from unix.Sockaddr
	for {
		var rerr error
		err := l.raw.Read(func(fd uintptr) bool {
			n, from, rerr = unix.Recvfrom(int(fd), l.buf, 0)
			return rerr != unix.EAGAIN
		})
		switch {
		case err != nil:
			return 0, nil, err
		case rerr == unix.ENOBUFS:
			return 0, nil, errOverrun
		case rerr == unix.EINTR:
			continue
		case rerr != nil:
			return 0, nil, os.NewSyscallError("recvfrom", rerr)
		}
		// Only the kernel has port 0; messages of others are ignored.
		if a, ok := from.(*unix.SockaddrNetlink); ok && a.Pid == 0 && n >= unix.NLMSG_HDRLEN {
			return binary.NativeEndian.Uint16(l.buf[4:]), l.buf[unix.NLMSG_HDRLEN:n], nil
		}
	}
}

func (l *listener) close() error { return l.file.Close() }

// Used fields of struct audit_status.
const (
	statusMask    = 0
	statusEnabled = 4
	statusSize    = 48
)

// auditing returns audit_enabled: 0 off, 1 on, 2 locked on.
func auditing() (uint32, error) {
	reply, err := ask(unix.AUDIT_GET, unix.NLM_F_REQUEST, nil)
	if err != nil {
		return 0, fmt.Errorf("read the audit status: %w", err)
	}
	if len(reply) < statusEnabled+4 {
		return 0, fmt.Errorf("read the audit status: reply of %d bytes", len(reply))
	}
	return binary.NativeEndian.Uint32(reply[statusEnabled:]), nil
}

// setAuditing needs CAP_AUDIT_CONTROL.
func setAuditing(enabled uint32) error {
	status := make([]byte, statusSize)
	binary.NativeEndian.PutUint32(status[statusMask:], unix.AUDIT_STATUS_ENABLED)
	binary.NativeEndian.PutUint32(status[statusEnabled:], enabled)
	if _, err := ask(unix.AUDIT_SET, unix.NLM_F_REQUEST|unix.NLM_F_ACK, status); err != nil {
		return fmt.Errorf("set auditing to %d: %w", enabled, err)
	}
	return nil
}

// ask sends one request and returns the payload of the reply. A request with NLM_F_ACK is answered
// by the acknowledgement only.
func ask(kind, flags uint16, payload []byte) ([]byte, error) {
	f, err := open(0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	msg := make([]byte, unix.NLMSG_HDRLEN, unix.NLMSG_HDRLEN+len(payload))
	binary.NativeEndian.PutUint32(msg[0:], uint32(unix.NLMSG_HDRLEN+len(payload)))
	binary.NativeEndian.PutUint16(msg[4:], kind)
	binary.NativeEndian.PutUint16(msg[6:], flags)
	binary.NativeEndian.PutUint32(msg[8:], 1)
	raw, err := f.SyscallConn()
	if err != nil {
		return nil, err
	}
	var serr error
	if err := raw.Control(func(fd uintptr) {
		serr = unix.Sendto(int(fd), append(msg, payload...), 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK})
	}); err != nil {
		return nil, err
	}
	if serr != nil {
		return nil, os.NewSyscallError("sendto", serr)
	}
	if err := f.SetReadDeadline(time.Now().Add(answerPatience)); err != nil {
		return nil, err
	}
	l := &listener{file: f, raw: raw, buf: make([]byte, maxRecord)}
	for {
		got, body, err := l.next()
		switch {
		case err != nil:
			return nil, err
		case got == kind:
			return append([]byte(nil), body...), nil
		case got == unix.NLMSG_ERROR && len(body) >= 4:
			if e := -int32(binary.NativeEndian.Uint32(body)); e != 0 {
				return nil, syscall.Errno(e)
			}
			return nil, nil
		}
	}
}
