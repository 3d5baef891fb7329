// Package memfd makes files that exist only in memory (memfd_create(2)). One use is to pass data to
// a child through a descriptor. Another is to run an embedded program that no task can open or
// change. An execve closes the descriptors unless the caller clears FD_CLOEXEC. The package starts
// no goroutine.
package memfd

import (
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// New returns a memory file with content, positioned at its start. The name is for messages and
// /proc only.
func New(name string, content []byte) (*os.File, error) {
	fd, err := unix.MemfdCreate(name, unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("make memory file %s: memfd_create: %w", name, err)
	}
	if err := fill(fd, content); err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("make memory file %s: %w", name, err)
	}
	return os.NewFile(uintptr(fd), name), nil
}

// NewProgram returns the descriptor of an executable memory file, which nobody can change or
// unseal. It is not an os.File, whose finalizer could close it while the program is in use.
func NewProgram(name string, program []byte) (int, error) {
	return newProgram(name, func(fd int) error { return fill(fd, program) })
}

// ReadProgram is NewProgram with the content of r, which it never holds in memory as a whole.
func ReadProgram(name string, r io.Reader) (int, error) {
	return newProgram(name, func(fd int) error {
		buf := make([]byte, 256<<10)
		for at := int64(0); ; {
			n, err := io.ReadFull(r, buf)
			if werr := fillAt(fd, buf[:n], at); werr != nil {
				return werr
			}
			at += int64(n)
			switch err {
			case nil:
			case io.EOF, io.ErrUnexpectedEOF:
				return nil
			default:
				return err
			}
		}
	})
}

func newProgram(name string, content func(fd int) error) (int, error) {
	const flags = unix.MFD_CLOEXEC | unix.MFD_ALLOW_SEALING
	fd, err := unix.MemfdCreate(name, flags|unix.MFD_EXEC)
	if err == unix.EINVAL { // before Linux 6.3 every memfd is executable
		fd, err = unix.MemfdCreate(name, flags)
	}
	if err != nil {
		return -1, fmt.Errorf("make memory file %s: memfd_create (is vm.memfd_noexec 2?): %w", name, err)
	}
	err = content(fd)
	if err == nil {
		err = seal(fd)
	}
	if err != nil {
		unix.Close(fd)
		return -1, fmt.Errorf("make memory file %s: %w", name, err)
	}
	return fd, nil
}

// fill writes the content and keeps the position.
func fill(fd int, content []byte) error { return fillAt(fd, content, 0) }

func fillAt(fd int, content []byte, from int64) error {
	for at := 0; at < len(content); {
		n, err := unix.Pwrite(fd, content[at:], from+int64(at))
		if err != nil {
			return fmt.Errorf("write: %w", err)
		}
		at += n
	}
	return nil
}

func seal(fd int) error {
	const seals = unix.F_SEAL_SEAL | unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_WRITE
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, seals); err != nil {
		return fmt.Errorf("seal: %w", err)
	}
	return nil
}
