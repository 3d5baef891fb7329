package exec2

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/drivers/exec2/config"
	"github.com/open-nomad/open-nomad/internal/hostuser"
	"github.com/open-nomad/open-nomad/internal/safefs"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// account returns the user of the task. The zero User keeps the agent's user, which only an
// agent without root does.
func account(set config.Plugin, cfg *drivers.TaskConfig) (hostuser.User, error) {
	self := os.Geteuid()
	if self != 0 {
		if cfg.User == "" || hostuser.IsDynamic(cfg.User) {
			return hostuser.User{}, nil // check has verified allow_unprivileged
		}
		acc, err := hostuser.Lookup(cfg.User)
		if err == nil && int(acc.UID) != self {
			err = fmt.Errorf("user: running as %s needs an agent that runs as root", acc.Name)
		}
		return hostuser.User{}, err
	}
	if cfg.User == "" {
		return hostuser.User{}, errors.New("user: the task has no user, and the client assigned none")
	}
	acc, err := hostuser.Lookup(cfg.User)
	if err != nil {
		return acc, fmt.Errorf("user: %w", err)
	}
	if acc.UID == 0 && !set.AllowRoot {
		return acc, fmt.Errorf("user: %s is root, which this node's driver config does not allow (allow_root)", acc.Name)
	}
	if (acc.GID == 0 || slices.Contains(acc.Groups, 0)) && !set.AllowRoot {
		return acc, fmt.Errorf("user: %s is in root's group, which this node's driver config does not allow (allow_root)", acc.Name)
	}
	return acc, nil
}

// reachable returns an error that names the parent directory that the task's user cannot enter. The
// kernel would only report "permission denied" for each file.
func reachable(dir string, acc hostuser.User) error {
	if acc.UID == 0 {
		return nil
	}
	for d := dir; d != "/" && d != "."; d = filepath.Dir(d) {
		var st unix.Stat_t
		if err := unix.Stat(d, &st); err != nil {
			return fmt.Errorf("check the task directory: %w", &os.PathError{Op: "stat", Path: d, Err: err})
		}
		if !searchable(&st, acc) && !safefs.Admits(d, acc.UID) {
			return fmt.Errorf("directory %s (mode %04o) cannot be entered by uid %d: the task could not access its own files", d,
				st.Mode&0o7777, acc.UID)
		}
	}
	return nil
}

func searchable(st *unix.Stat_t, acc hostuser.User) bool {
	switch {
	case st.Uid == acc.UID:
		return st.Mode&0o100 != 0
	case st.Gid == acc.GID || slices.Contains(acc.Groups, st.Gid):
		return st.Mode&0o010 != 0
	}
	return st.Mode&0o001 != 0
}
