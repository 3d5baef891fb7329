package launch

import (
	"fmt"
	"os"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/internal/companion"
	"github.com/open-nomad/open-nomad/internal/tinyinit"
)

// initFile returns a memfd with the executable of init. It is sealed, because its content runs as
// root.
var initFile = sync.OnceValues(func() (*os.File, error) {
	program, err := tinyinit.Program()
	if err != nil {
		return nil, err
	}
	fd, err := companion.Seal("nomad-init", program)
	if err != nil {
		return nil, fmt.Errorf("make the init of PID namespaces: %w", err)
	}
	return os.NewFile(uintptr(fd), "nomad-init"), nil
})

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
