package exec2

import (
	"fmt"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/drivers/process"
	"github.com/open-nomad/open-nomad/internal/hostuser"
	"github.com/open-nomad/open-nomad/internal/safefs"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// private is the mode of the task's own directories.
const private = 0o700

// prepareDirectories makes the task's temporary directory, and gives the task's own directories to
// its user only. The zero User does not change owners. It uses descriptors, starting at the
// allocation's directory, which belongs to root, since an earlier start may have left links.
func prepareDirectories(cfg *drivers.TaskConfig, acc hostuser.User) error {
	root, err := safefs.Open(cfg.AllocDir)
	if err != nil {
		return err
	}
	defer root.Close()
	if err := makeTmp(root, cfg); err != nil || acc.Name == "" {
		return err
	}
	for _, dir := range []string{cfg.LocalDir, cfg.SecretsDir, process.TmpDir(cfg)} {
		if err := chown(root, dir, acc); err != nil {
			return fmt.Errorf("give %s to uid %d: %w", dir, acc.UID, err)
		}
	}
	return nil
}

func chown(root *safefs.Dir, name string, acc hostuser.User) error {
	dir, err := sub(root, name)
	if err != nil {
		return err
	}
	defer dir.Close()
	if err := dir.Chown(int(acc.UID), int(acc.GID)); err != nil {
		return err
	}
	return dir.Chmod(private)
}

// makeTmp makes the task's temporary directory if the client did not.
func makeTmp(root *safefs.Dir, cfg *drivers.TaskConfig) error {
	task, err := sub(root, cfg.TaskDir)
	if err != nil {
		return err
	}
	defer task.Close()
	if err := unix.Mkdirat(task.FD(), filepath.Base(process.TmpDir(cfg)), private); err != nil && err != unix.EEXIST {
		return fmt.Errorf("make temporary directory: %w", err)
	}
	return nil
}

// sub opens a directory of the task by its path.
func sub(root *safefs.Dir, name string) (*safefs.Dir, error) {
	rel, err := filepath.Rel(root.Name(), name)
	if err != nil {
		return nil, err
	}
	return root.Sub(rel)
}
