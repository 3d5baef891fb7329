package secret

import (
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

// trusted returns an error if a file or a directory can be changed by others than root and the agent's user.
func trusted(f interface{ Stat() (fs.FileInfo, error) }) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	switch {
	case !ok:
		return fmt.Errorf("the owner of %s is unknown", info.Name())
	case st.Uid != 0 && int(st.Uid) != os.Geteuid():
		return fmt.Errorf("%s belongs to user %d: give it to root with chown", info.Name(), st.Uid)
	case info.Mode()&0o022 != 0:
		return fmt.Errorf("%s can be written by other users (mode %v): run chmod go-w", info.Name(), info.Mode().Perm())
	}
	return nil
}
