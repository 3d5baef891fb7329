package launch

import (
	"fmt"
	"os"
	"sync"

	"github.com/open-nomad/open-nomad/internal/memfd"
	"github.com/open-nomad/open-nomad/internal/tinyinit"
)

// initFile returns a memfd with the executable of init. It is sealed, because its content runs as
// root.
var initFile = sync.OnceValues(func() (*os.File, error) {
	program, err := tinyinit.Program()
	if err != nil {
		return nil, err
	}
	fd, err := memfd.NewProgram("nomad-init", program)
	if err != nil {
		return nil, fmt.Errorf("make the init of PID namespaces: %w", err)
	}
	return os.NewFile(uintptr(fd), "nomad-init"), nil
})
