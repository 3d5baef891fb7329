package exec2

import (
	"os"

	"github.com/open-nomad/open-nomad/internal/landlock"
	"github.com/open-nomad/open-nomad/internal/sandbox/level"
	"github.com/open-nomad/open-nomad/internal/sandbox/seccomp"
)

// facts are what this node puts on a task that asks for nothing.
func facts() level.Facts {
	root := os.Geteuid() == 0
	f := level.Facts{OwnUser: root, OwnIPC: root, Limits: root && groupsUsable() == nil}
	f.LandlockABI, _ = landlock.ABI() // 0 without
	f.Filter = seccomp.Available() == nil
	f.DefaultFilter = f.Filter
	return f
}
