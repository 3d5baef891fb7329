package exec2

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/drivers/exec2/config"
	"github.com/open-nomad/open-nomad/drivers/process"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// account is who the task runs as; the zero Account keeps the agent's user, which
// only an agent that is not root does.
func account(set config.Plugin, cfg *drivers.TaskConfig) (process.Account, error) {
	self := os.Geteuid()
	if self != 0 {
		if cfg.User == "" || strings.HasPrefix(cfg.User, "nomad-") {
			return process.Account{}, nil // allow_unprivileged has been seen to
		}
		acc, err := process.LookupUser(cfg.User)
		if err == nil && int(acc.UID) != self {
			err = fmt.Errorf("user: running as %s needs an agent that is root", acc.Name)
		}
		return process.Account{}, err
	}
	if cfg.User == "" {
		return process.Account{}, errors.New("user: the task names none, and the client gave it none of its own")
	}
	acc, err := process.LookupUser(cfg.User)
	if err != nil {
		return acc, fmt.Errorf("user: %w", err)
	}
	if acc.UID == 0 && !set.AllowRoot {
		return acc, fmt.Errorf("user: %s is root, which this node's driver config does not allow (allow_root)", acc.Name)
	}
	if (acc.GID == 0 || slices.Contains(acc.Groups, 0)) && !set.AllowRoot {
		return acc, fmt.Errorf("user: %s is of root's group, which this node's driver config does not allow (allow_root)", acc.Name)
	}
	return acc, nil
}

// reachable says in an error which directory above the task's own keeps its user
// out: the kernel would only say "permission denied", for each file.
func reachable(dir string, acc process.Account) error {
	if acc.UID == 0 {
		return nil
	}
	for d := dir; d != "/" && d != "."; d = filepath.Dir(d) {
		var st unix.Stat_t
		if err := unix.Stat(d, &st); err != nil {
			return fmt.Errorf("look at task directory: %w", &os.PathError{Op: "stat", Path: d, Err: err})
		}
		if !searchable(&st, acc) {
			return fmt.Errorf("directory %s (mode %04o) cannot be entered by uid %d: the task would not reach its own files", d, st.Mode&0o7777, acc.UID)
		}
	}
	return nil
}

func searchable(st *unix.Stat_t, acc process.Account) bool {
	switch {
	case st.Uid == acc.UID:
		return st.Mode&0o100 != 0
	case st.Gid == acc.GID || slices.Contains(acc.Groups, st.Gid):
		return st.Mode&0o010 != 0
	}
	return st.Mode&0o001 != 0
}
