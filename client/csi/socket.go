package csi

import (
	"context"
	"fmt"
	"io/fs"
	"net"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/internal/safefs"
)

// Socket is the socket of a plugin. The plugin may change the content of the directory, but not the directory itself.
type Socket struct {
	Dir  string // a path that no task can change
	Name string // one level down
}

// String returns the path of the socket. Use it in messages only.
func (s Socket) String() string { return filepath.Join(s.Dir, s.Name) }

// connect connects to the socket. A link, a mount point and a file that is not a socket are refused.
func (s Socket) connect(ctx context.Context) (net.Conn, error) {
	fd, err := s.open()
	if err != nil {
		return nil, &fs.PathError{Op: "open socket", Path: s.String(), Err: err}
	}
	defer unix.Close(fd)
	// The path in /proc stands for the object of the descriptor, whatever has its name now.
	conn, err := new(net.Dialer).DialContext(ctx, "unix", "/proc/self/fd/"+strconv.Itoa(fd))
	if err != nil {
		return nil, fmt.Errorf("connect to socket %s: %w", s, cause(err))
	}
	return conn, nil
}

// open opens the socket without connecting to it.
func (s Socket) open() (int, error) {
	if s.Name == "" || filepath.Base(s.Name) != s.Name {
		return -1, fmt.Errorf("%q is not the name of a file", s.Name)
	}
	dir, err := safefs.Open(s.Dir)
	if err != nil {
		return -1, err
	}
	defer dir.Close()
	fd, err := safefs.OpenBeneathNoXDev(dir.FD(), s.Name, unix.O_PATH|unix.O_NOFOLLOW)
	if err != nil {
		return -1, err
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		unix.Close(fd)
		return -1, err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFSOCK {
		unix.Close(fd)
		return -1, fmt.Errorf("it is not a socket, but %s", kindOf(st.Mode))
	}
	return fd, nil
}

// kindOf names the kind of a file for a message.
func kindOf(mode uint32) string {
	switch mode & unix.S_IFMT {
	case unix.S_IFLNK:
		return "a symbolic link"
	case unix.S_IFDIR:
		return "a directory"
	case unix.S_IFREG:
		return "a regular file"
	}
	return "a special file"
}

// cause returns the error of the system, without the path in /proc.
func cause(err error) error {
	if op, ok := err.(*net.OpError); ok {
		return op.Err
	}
	return err
}
