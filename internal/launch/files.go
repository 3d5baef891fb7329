package launch

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// memoryFile returns a memfd that holds content, positioned at its start.
func memoryFile(name string, content []byte) (*os.File, error) {
	fd, err := unix.MemfdCreate(name, unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("make memory file: %w", err)
	}
	if len(content) > 0 {
		if n, err := unix.Pwrite(fd, content, 0); err != nil || n != len(content) {
			unix.Close(fd)
			return nil, fmt.Errorf("write memory file: %d of %d bytes: %w", n, len(content), err)
		}
	}
	return os.NewFile(uintptr(fd), name), nil
}
